"""Common parts of the commands that complete: options, progress, the dry run, and the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from omnidc.cli.models import MODEL_HELP, RUNTIME_HELP, load_model
from omnidc.pipeline.listener import RunListener
from omnidc.pipeline.options import CompleteOptions

if TYPE_CHECKING:
    from omnidc.cli.engine import EngineOptions
    from omnidc.frame import Frame, FrameSource, LazyFrames
    from omnidc.pipeline import Completion, Sink
    from omnidc.pipeline.base import BaseCompleter
    from omnidc.pipeline.source import Completer, NamedCompleter


VERIFY_FOLDS = 2  # of --verify: each costs one more run of the network


@dataclass(frozen=True)
class ModelOptions:
    """Which network runs where."""

    model: str | None = field(default=None, metadata={"help": MODEL_HELP, "flags": ("--model", "-m")})
    device: str = field(default="auto", metadata={"help": '"auto", "cpu", "cuda", "cuda:1", "mps" …'})
    runtime: Literal["auto", "torch", "onnx"] = field(default="auto", metadata={"help": RUNTIME_HELP})

    @property
    def name(self) -> str:
        """The completer's name, known before it is loaded."""
        from omnidc.deploy.loading import default_model

        return Path(self.model or default_model()).name


@dataclass(frozen=True)
class RunOptions(ModelOptions):
    """Which frames of a source are completed."""

    mask: Path | None = field(
        default=None,
        metadata={"help": "Folder of masks by COLMAP's names (NAME.jpg.png), or one for all images; black = ignored."},
    )
    ignore_exif: bool = field(
        default=False, metadata={"help": "Take photographs as stored instead of turning them as their EXIF tag says."}
    )
    frame_step: int = field(default=1, metadata={"help": "Take every n-th frame."})
    resume: bool = field(default=False, metadata={"help": "Skip frames that are already done."})
    prior: str = field(
        default="",
        metadata={"help": "Monocular depth or disparity to fuse with: a file, a folder, or module:callable."},
    )
    overlay: Path | None = field(
        default=None, metadata={"help": "Only draw the points over the photographs into this picture."}
    )
    rerun: Path | None = field(
        default=None, metadata={"help": "Also log to a Rerun recording: FILE.rrd, or spawn, or connect."}
    )
    verify: bool = field(
        default=False, metadata={"help": "Also run omnidc doctor on each frame: errors at hidden points, suspicions."}
    )

    def reading(self, choices: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the input is read, as JSON values: what a resumed run must not change."""
        import json

        common = {"mask": self.mask, "ignore_exif": self.ignore_exif, "prior": self.prior, "weights": self.weights}
        return dict(json.loads(json.dumps({**choices, **common}, default=_as_json)))

    @property
    def weights(self) -> str:
        """The start of a checkpoint's SHA-256, since two may have one name; empty for models without a file."""
        import hashlib

        path = Path(self.model or "")
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def _as_json(value: Any) -> Any:
    """Return an array as lists, a record as a table, and a path as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def complete_all(
    source: FrameSource,
    sink: Sink,
    complete: CompleteOptions,
    chosen: RunOptions,
    *,
    output: Path,
    allow_empty: bool = True,
    engine: EngineOptions | None = None,
    model: BaseCompleter | None = None,  # None = the one that `chosen` names is loaded
) -> None:
    """Run the model over a source; raise where its only frame failed, leave with 1 where one of many did."""
    from omnidc.errors import ConfigError, InputError
    from omnidc.pipeline.source import complete_source

    for note in source.notes:
        typer.echo(f"note: {note}")
    if chosen.rerun is not None:
        from omnidc.interop.rerun import RerunSink
        from omnidc.pipeline.sinks import TeeSink

        sink = TeeSink(sink, RerunSink(chosen.rerun))
    todo = sink.missing(source.names)
    if len(todo) < len(source.names):
        typer.echo(f"{len(source.names) - len(todo)} of {len(source.names)} are done already.")
    if not todo:
        sink.close()
        return
    local = engine is None or engine.engine == "local"
    if not local and chosen.prior:
        raise ConfigError("--prior runs on this machine only: leave out --engine.")
    if model is None and (local or chosen.verify):
        model = load_model(chosen.model, chosen.device, chosen.runtime)
    completer: Completer | None = model
    if model is not None and chosen.prior:
        from omnidc.pipeline.prior import prior_completer

        completer = prior_completer(model, chosen.prior)
    printer = Printer(model if chosen.verify else None)
    try:
        if engine is not None and engine.engine == "ray":
            from omnidc.deploy.ray import complete_with_ray

            report = complete_with_ray(
                source,
                sink,
                chosen.model or chosen.name,
                chosen.device,
                complete,
                engine.ray(),
                runtime=chosen.runtime,
                allow_empty=allow_empty,
                listener=printer,
            )
        else:
            assert completer is not None
            report = complete_source(source, sink, completer, complete, allow_empty=allow_empty, listener=printer)
    finally:
        printer.end()
    if report.failed and len(report.names) == 1:
        raise InputError(next(iter(report.failed.values())))
    if len(report.names) > 1:
        done = len(report.names) - len(report.failed) - len(report.skipped)
        typer.echo(f"{done} of {len(report.names)} images completed into {output}")
    for name, reason in report.failed.items():
        typer.echo(f"failed: {name}: {reason}", err=True)
    if report.failed:
        raise typer.Exit(1)


class Printer(RunListener):
    """Prints what a run does, under a bar where there are several frames."""

    def __init__(self, doctor: NamedCompleter | None = None) -> None:
        self.doctor = doctor  # verifies each frame; None = none is verified
        self.bar: Any = None
        self.is_first = True  # of many frames the first is described, later ones where something is odd
        self.pixels = {""}  # what was said of the pixels of earlier frames

    def begin(self, total: int, todo: int) -> None:
        from tqdm import tqdm

        self.bar = tqdm(total=todo, unit="image", dynamic_ncols=True, disable=total < 2)

    def say(self, text: str, err: bool = False) -> None:
        if self.bar.disable:
            typer.echo(text, err=err)
        else:
            self.bar.write(text)

    def loaded(self, frame: Frame) -> None:
        if self.is_first or frame.warnings or frame.pixels not in self.pixels:
            describe(frame, self.say)
        self.pixels.add(frame.pixels)

    def completed(self, frame: Frame, completion: Completion) -> None:
        new = completion.warnings[len(frame.warnings) :]
        for warning in new:
            self.say(f"warning: {warning}", err=True)
        if self.is_first or new:
            self.say(f"result: {describe_result(completion)}")
        self.is_first = False
        if self.doctor is not None and frame.measurements().any():
            from omnidc.diagnose import as_lines, diagnose

            self.say("\n".join(as_lines(diagnose(frame, self.doctor, folds=VERIFY_FOLDS))))
        self.bar.update(1)

    def skipped(self, name: str) -> None:
        self.say(f"{name}: left out, since only relative depth is possible (--allow-empty completes it)")
        self.bar.update(1)

    def failed(self, name: str, reason: str) -> None:
        self.bar.update(1)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.close()


def describe(frame: Frame, say: Any) -> None:
    """Print the sanity line of a frame, what was done to it, and what is odd."""
    say(f"input {frame.name}: {frame.summary()}" if frame.name else f"input: {frame.summary()}")
    for note in (*frame.notes, *((frame.pixels,) if frame.pixels else ())):
        say(f"  {note}")
    for warning in frame.warnings:
        say(f"warning: {warning}", err=True)


def describe_result(result: Completion) -> str:
    """Return the range of the depth, the residual at the points, and the uncertainty."""
    import numpy as np

    kept = result.depth > 0
    unit = result.unit.label
    if not kept.any():
        return "no pixel is left: the mask or --max-uncertainty dropped all of them"
    low, middle, high = (float(f(result.depth[kept])) for f in (np.min, np.median, np.max))
    text = f"depth min {low:.3g}, median {middle:.3g}, max {high:.3g} {unit}".rstrip()
    points = kept & (result.sparse > 0)
    if points.any():
        relative = np.abs(result.residual[points]) / result.sparse[points]
        confidence = float(result.input_confidence[points].mean())
        text += f"; at the points off by {100 * float(np.median(relative)):.2g} % (median), confidence {confidence:.2f}"
    if result.uncertainty is not None:
        text += f"; uncertainty (Laplace scale) median {float(np.median(result.uncertainty)):.2g} {unit}".rstrip()
    if not kept.all():
        text += f"; {100 * float((~kept).mean()):.2g} % of the pixels dropped"
    return text


def draw_overlay(source: LazyFrames, path: Path) -> None:
    """Draw the points of up to four frames over their photographs and say what was found."""
    import numpy as np

    from omnidc.io.images import write_picture
    from omnidc.viz.overlay import point_overlay
    from omnidc.viz.panels import contact_sheet

    for note in source.notes:
        typer.echo(f"note: {note}")
    names = source.names
    pictures = []
    for i in np.linspace(0, len(names) - 1, min(4, len(names))):
        frame = source[names[round(i)]]
        describe(frame, typer.echo)
        pictures.append(point_overlay(frame.image, frame.measurements()))
    write_picture(path, pictures[0] if len(pictures) == 1 else contact_sheet(pictures))
    typer.echo(f"wrote {path}: the colors (near red, far blue) should follow the things in the photograph.")
