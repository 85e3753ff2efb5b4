"""What the sensor commands share: complete every frame of a source, write it, and export the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from omnidc.cli.complete import FORMATS
from omnidc.cli.models import load_model

if TYPE_CHECKING:
    from omnidc.frame import Frame
    from omnidc.interop.views import View
    from omnidc.pipeline import Completion, DepthCompleter
    from omnidc.sensors.source import Source

EXPORTS = ("nerfstudio", "dn-splatter", "inria", "colmap")


@dataclass
class Job:
    """Where the results go and how they are made."""

    output: Path
    formats: list[str] = field(default_factory=list)
    model: str | None = None
    device: str = "auto"
    keep_input: str = "soft"
    far: float | None = None
    keep_edges: bool = False
    confidence: bool = False
    resume: bool = False
    allow_empty: bool = False
    every: int = 1
    turntable: bool = False
    exports: list[str] = field(default_factory=list)
    fuse: bool = False

    def __post_init__(self) -> None:
        from omnidc.errors import ConfigError

        self.formats = [name.strip().lower().lstrip(".") for entry in self.formats for name in entry.split(",")]
        self.formats = self.formats or ["npy", "preview"]
        self.exports = [name.strip().lower() for entry in self.exports for name in entry.split(",")]
        for names, known, flag in ((self.formats, FORMATS, "--format"), (self.exports, EXPORTS, "--export")):
            for name in names:
                if name not in known:
                    raise ConfigError(f"{flag} {name} is not known: choose from {', '.join(known)}.")
        if self.every < 1:
            raise ConfigError(f"--every must be at least 1, not {self.every}.")
        if self.posed and "npy" not in self.formats:
            self.formats.append("npy")  # the exports read the results back

    @property
    def posed(self) -> bool:
        return self.fuse or bool(self.exports)

    def paths(self, name: str) -> list[Path]:
        suffixes = [("_preview.jpg" if kind == "preview" else f".{kind}") for kind in self.formats]
        if self.turntable:
            suffixes.append("_turntable.jpg")
        if self.confidence:
            suffixes.append("_confidence.npz")
        return [self.output / f"{name}{suffix}" for suffix in suffixes]


def names_of(source: Source, every: int) -> list[str]:
    return source.names()[::every]


def check(source: Source, path: Path, every: int = 1) -> None:
    """Dry run: draw the points of up to four frames over their photographs and say what was found."""
    import numpy as np

    from omnidc.io.images import write_picture
    from omnidc.viz.overlay import point_overlay
    from omnidc.viz.panels import sheet

    _print_notes(source)
    names = names_of(source, every)
    chosen = [names[round(i)] for i in np.linspace(0, len(names) - 1, min(4, len(names)))]
    pictures = []
    for name in chosen:
        frame = source.load(name)
        _describe(frame, typer.echo)
        assert frame.sparse is not None
        pictures.append(point_overlay(frame.image, frame.sparse))
    write_picture(path, pictures[0] if len(pictures) == 1 else sheet(pictures))
    typer.echo(f"wrote {path}: the colours (near red, far blue) should follow the things in the photograph.")


def run(source: Source, job: Job) -> list[View]:
    """Complete the frames and return those with a pose, for exports."""
    from tqdm import tqdm

    from omnidc.errors import OmnidcError
    from omnidc.io.files import write_json

    _print_notes(source)
    names = names_of(source, job.every)
    metadata = job.output / "metadata.json"
    records: dict[str, Any] = _read_records(metadata) if job.resume else {}
    todo = [name for name in names if name not in records or not _complete_on_disk(records[name], job, name)]
    if len(todo) < len(names):
        typer.echo(f"{len(names) - len(todo)} of {len(names)} are done already.")
    completer = load_model(job.model, job.device) if todo else None
    failed: dict[str, str] = {}
    with tqdm(todo, unit="image", dynamic_ncols=True, disable=len(todo) < 2) as bar:
        for name in bar:
            try:
                frame = source.load(name)
                _describe(frame, bar.write)
                assert frame.sparse is not None
                if not (frame.sparse > 0).any() and not job.allow_empty:
                    records[name] = {"skipped": "no points"}
                    bar.write(f"{name}: left out, since only relative depth is possible (--allow-empty completes it)")
                else:
                    assert completer is not None
                    result = _complete(completer, frame, job)
                    _save(result, frame, job)
                    records[name] = _record(result, frame)
                    _report(name, result, frame, bar.write)
                write_json(metadata, {"notes": source.notes, "frames": records})
            except OmnidcError as error:
                if len(names) == 1:
                    raise
                failed[name] = str(error)
    done = [name for name in names if "size" in records.get(name, {})]
    typer.echo(f"{len(done)} of {len(names)} images completed into {job.output}")
    for name, reason in failed.items():
        typer.echo(f"failed: {name}: {reason}", err=True)
    views = [_view(name, records[name], job.output) for name in done if records[name].get("pose") is not None]
    if failed and not views:
        raise typer.Exit(1)
    return views


def _read_records(path: Path) -> dict[str, Any]:
    try:
        frames = json.loads(path.read_text(encoding="utf-8"))["frames"]
        return frames if isinstance(frames, dict) else {}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, OSError):
        typer.echo(f"warning: {path} cannot be read and is written anew.", err=True)
        return {}


def _complete_on_disk(record: dict[str, Any], job: Job, name: str) -> bool:
    if "skipped" in record:
        return not job.allow_empty
    images = [job.output / "images" / record["file"]] if job.posed and record.get("pose") is not None else []
    return all(path.is_file() for path in [*job.paths(name), *images])


def _print_notes(source: Source) -> None:
    for note in source.notes:
        typer.echo(f"note: {note}")


def _describe(frame: Frame, write: Any) -> None:
    from omnidc.sensors.report import describe

    write(describe(frame))
    if "scale" in frame.extra:
        write(f"  unit: {frame.extra['scale']}")
    if "points" in frame.extra:
        write(f"  {frame.extra['points'].sentence()}")
    for note in frame.extra.get("notes", []):
        write(f"  note: {note}")
    for warning in frame.extra.get("warnings", []):
        write(f"  warning: {warning}")


def _complete(completer: DepthCompleter, frame: Frame, job: Job) -> Completion:
    from omnidc.pipeline import prepare

    given = prepare(frame.image, frame.sparse, frame.intrinsics)
    given.unit = "scene units" if frame.unit == "scene" else frame.unit
    given.note = "the reader's unit"
    keep: Any = job.keep_input
    [result] = completer.complete_inputs([given], keep_input=keep, far=job.far)
    return result


def _save(result: Completion, frame: Frame, job: Job) -> None:
    for path in job.paths(frame.name):
        if path.name.endswith("_confidence.npz"):
            result.save_maps(path)
            if result.uncertainty is not None:
                from omnidc.io.images import write_picture
                from omnidc.viz.overlay import uncertainty_overlay

                doubt = uncertainty_overlay(frame.image, result.depth, result.uncertainty)
                write_picture(path.with_name(path.name.replace("_confidence.npz", "_doubt.jpg")), doubt)
        elif path.name.endswith("_turntable.jpg"):
            from omnidc.viz.orbit import turntable, write_turntable

            write_turntable(path, turntable(*result.points(keep_edges=job.keep_edges)))
        else:
            result.save(path, keep_edges=job.keep_edges)
    if job.posed and frame.pose is not None:
        from omnidc.io.images import write_picture

        write_picture(job.output / "images" / _file(frame), frame.image)


def _file(frame: Frame) -> str:
    return str(frame.extra.get("file", f"{frame.name}.png"))


def _record(result: Completion, frame: Frame) -> dict[str, Any]:
    return {
        **result.metadata(),
        "file": _file(frame),
        "size": [frame.height, frame.width],
        "unit": frame.unit,
        "relative": result.relative,
        "pose": None if frame.pose is None or result.relative else frame.pose.tolist(),
        "warnings": [*frame.extra.get("warnings", []), *result.warnings],
        **{key: frame.extra[key] for key in ("stamp", "frame_id", "gap") if key in frame.extra},
    }


def _report(name: str, result: Completion, frame: Frame, write: Any) -> None:
    import numpy as np

    measured = result.sparse > 0
    if measured.any():
        relative = np.abs(result.residual[measured]) / result.sparse[measured]
        trust = float(result.input_confidence[measured].mean())
        write(f"  result off by {100 * float(np.median(relative)):.2g} % at the points (median), trust {trust:.2f}")
    for warning in result.warnings:
        write(f"  warning: {warning}")


def _view(name: str, record: dict[str, Any], output: Path) -> View:
    import numpy as np

    from omnidc.interop.views import View

    maps = output / f"{name}_confidence.npz"
    doubt = None
    if maps.is_file():
        with np.load(maps) as archive:
            doubt = partial(_array, maps) if "uncertainty" in archive.files else None
    return View(
        name=name,
        file=record["file"],
        image=output / "images" / record["file"],
        depth=partial(np.load, output / f"{name}.npy"),
        intrinsics=np.asarray(record["intrinsics"], dtype=np.float64),
        pose=np.asarray(record["pose"], dtype=np.float64),
        size=(int(record["size"][0]), int(record["size"][1])),
        unit=record["unit"],
        uncertainty=doubt,
    )


def _array(path: Path) -> Any:
    import numpy as np

    with np.load(path) as archive:
        return archive["uncertainty"]


def finished(output: Path) -> Iterator[tuple[float, Any, Any, str]]:
    """Stamp, depth, intrinsics and frame of every result of a bag, in order of time."""
    import numpy as np

    records = _read_records(output / "metadata.json")
    done = [(record["stamp"], name, record) for name, record in records.items() if "stamp" in record]
    for stamp, name, record in sorted(done, key=lambda entry: entry[0]):
        depth = np.load(output / f"{name}.npy")
        yield stamp, depth, np.asarray(record["intrinsics"], dtype=np.float64), record["frame_id"]


def fuse_views(views: list[View], path: Path, tolerance: float, keep_edges: bool) -> None:
    """Write the fused cloud and a turntable of it."""
    from tqdm import tqdm

    from omnidc.errors import InputError
    from omnidc.interop.fusion import fuse, pixel_size, thin, write_cloud
    from omnidc.viz.orbit import turntable, write_turntable

    with tqdm(total=len(views), unit="view", dynamic_ncols=True) as bar:
        cloud = fuse(views, tolerance=tolerance, keep_edges=keep_edges, progress=lambda name: _step(bar))
    total = sum(view.size[0] * view.size[1] for view in views)
    if not len(cloud.points):
        raise InputError(
            f"No point is seen alike by three views within {tolerance:.0%}; raise --fuse-tolerance or check the poses."
        )
    share = len(cloud.points) / total
    cloud = thin(cloud, pixel_size(views))
    write_cloud(path, cloud)
    upright = cloud.points @ views[len(views) // 2].pose[:3, :3]  # a camera's own axes: its "down" is down
    write_turntable(path.with_name(f"{path.stem}_turntable.jpg"), turntable(upright, cloud.colors, swing=None))
    typer.echo(f"fused {len(views)} views: {share:.0%} of the pixels agree, {len(cloud.points)} points in {path}")


def _step(bar: Any) -> None:
    bar.update(1)
