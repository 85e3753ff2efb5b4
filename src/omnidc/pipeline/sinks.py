"""Sinks store results; `FolderSink` keeps a metadata.json from which an interrupted run resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from omnidc.errors import ConfigError, FileError, InputError
from omnidc.frame import Frame, Unit
from omnidc.io.depth import choose_scale
from omnidc.io.files import write_json
from omnidc.io.images import write_picture
from omnidc.pipeline.completion import Completion, check_suffix
from omnidc.pipeline.options import ENDINGS, CompleteOptions, WriteOptions
from omnidc.viz.orbit import turntable, write_turntable
from omnidc.viz.overlay import uncertainty_overlay

METADATA = "metadata.json"
HEADROOM = 2.0  # largest depth of a run over that of its first frame that its PNG scale allows for


class Sink(Protocol):
    """Takes the results of a run, one by one.

    >>> class Medians:  # a sink of one's own
    ...     def __init__(self):
    ...         self.found = {}
    ...     def missing(self, names):
    ...         return [name for name in names if name not in self.found]
    ...     def write(self, frame, completion):
    ...         self.found[frame.name] = float(np.median(completion.depth))
    ...     def close(self):
    ...         pass
    >>> Medians().missing(["a", "b"])
    ['a', 'b']
    """

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return which of these frames are still to be completed."""
        ...

    def write(self, frame: Frame, completion: Completion) -> None: ...

    def close(self) -> None:
        """Write what needs all results; called once, when no frame is left."""
        ...


@dataclass(frozen=True)
class StoredFrame:
    """A result on the disk, read when asked for."""

    name: str
    source: str  # the image's name at its source ("left/0001.jpg")
    image: Path  # the photograph at the size of the depth map, free of distortion
    depth: Callable[[], npt.NDArray[np.float32]]  # [H, W], 0 = none
    size: tuple[int, int]  # height, width
    unit: Unit = Unit.METERS
    intrinsics: npt.NDArray[np.float64] | None = None  # [3, 3], pixel centers at integers
    pose: npt.NDArray[np.float64] | None = None  # [4, 4], camera to world, OpenCV axes; None also for relative depth
    timestamp: float | None = None  # seconds
    uncertainty: Callable[[], npt.NDArray[np.float32]] | None = None  # [H, W] > 0
    sky: Callable[[], npt.NDArray[np.float32]] | None = None  # [H, W], probability
    input_confidence: Callable[[], npt.NDArray[np.float32]] | None = None  # [H, W], NaN = not measured


class FolderSink:
    """Writes files named after each frame, and metadata.json after every frame.

    With `resume` a finished frame is left alone, provided that model and options are those of the earlier run.

    >>> from omnidc.pipeline.options import WriteOptions
    >>> sink = FolderSink(Path("out"), WriteOptions(("npy", "preview")), model="compact")
    >>> [path.as_posix() for path in sink.paths("left/0001")]
    ['out/left/0001.npy', 'out/left/0001_preview.jpg']
    """

    def __init__(
        self,
        folder: Path,
        write: WriteOptions | None = None,
        model: str = "",
        options: CompleteOptions | None = None,
        *,
        resume: bool = False,
        keep_images: bool = False,  # also write the photographs, for exports
        notes: Sequence[str] = (),  # of the source
        reading: Mapping[str, Any] | None = None,  # how the input was read: JSON values, compared when resuming
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:
        from omnidc import __version__

        self.folder, self.options = folder, write or WriteOptions()
        self.keep_images, self.announce = keep_images, announce
        self.png_scale = self.options.png_scale
        self.clip_depth = None if options is None else options.clip_depth
        self.settings = {
            "model": model,
            "options": asdict(options or CompleteOptions()),
            **_cloud_options(self.options),
            "reading": dict(reading or {}),
        }
        self.head = {"omnidc": __version__, **self.settings, "notes": list(notes)}
        self.frames: dict[str, dict[str, Any]] = {}
        if resume:
            self._resume()

    def paths(self, name: str) -> list[Path]:
        """Return the files of a frame."""
        return [self.folder / f"{name}{ENDINGS.get(kind, f'.{kind}')}" for kind in self.options.formats]

    def missing(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.frames or not self._is_whole(name)]

    def write(self, frame: Frame, completion: Completion) -> None:
        if "png" in self.options.formats and self.png_scale is None:
            self.png_scale = self._choose_png_scale(completion)
            self.announce(f"16-bit png: depth × {self.png_scale:g}")
        written = self.paths(frame.name)
        for path in written:
            self._write_file(path, completion)
        if self.keep_images and frame.pose is not None:
            written.append(self._image(frame.source or f"{frame.name}.png"))
            write_picture(written[-1], frame.image)
        undistorted = None if frame.original is None else self._undistorted(frame)
        if undistorted is not None and self.folder / undistorted not in written:
            write_picture(self.folder / undistorted, frame.image)
        if undistorted is not None and not any(record.get("undistorted") for record in self.frames.values()):
            self.announce(f"depth belongs to the pixels of undistorted photographs: {self.folder / undistorted} …")
        self.frames[frame.name] = {
            **completion.metadata(),
            "source": frame.source or f"{frame.name}.png",
            "pose": None if frame.pose is None or completion.relative else frame.pose.tolist(),
            "timestamp": frame.timestamp,
            "notes": list(frame.notes),
            "pixels": frame.pixels,
            "undistorted": undistorted,
        }
        table = {**self.head, "png_scale": self.png_scale, "frames": self.frames}
        write_json(self.folder / METADATA, table)

    def close(self) -> None:
        pass

    def results(self) -> list[StoredFrame]:
        """Return the finished frames, in the order of their names."""
        if "npy" not in self.options.formats:
            raise ConfigError("Exports read depth back from npy files: add the format npy.")
        return [self._stored(name, self.frames[name]) for name in sorted(self.frames) if self._is_whole(name)]

    def _image(self, source: str) -> Path:
        return self.folder / "images" / source

    def _is_whole(self, name: str) -> bool:
        record = self.frames[name]
        images = [self._image(record["source"])] if self.keep_images and record.get("pose") is not None else []
        if record.get("undistorted") is not None:
            images.append(self.folder / record["undistorted"])
        return all(path.is_file() for path in [*self.paths(name), *images])

    def _undistorted(self, frame: Frame) -> str:
        """Return where the photograph that the depth belongs to is kept, relative to the folder."""
        if self.keep_images and frame.pose is not None:
            return self._image(frame.source or f"{frame.name}.png").relative_to(self.folder).as_posix()
        suffix = Path(frame.source).suffix.lower()
        return f"{frame.name}_undistorted{suffix if suffix in ('.jpg', '.jpeg') else '.png'}"

    def _write_file(self, path: Path, completion: Completion) -> None:
        if path.name.endswith(ENDINGS["confidence"]):
            completion.save_maps(path)
            if completion.uncertainty is not None:
                picture = uncertainty_overlay(completion.image, completion.depth, completion.uncertainty)
                write_picture(path.with_name(path.name.replace(ENDINGS["confidence"], "_uncertainty.jpg")), picture)
        elif path.name.endswith(ENDINGS["turntable"]):
            points, colors = completion.points(keep_flying_pixels=self.options.keep_flying_pixels)
            write_turntable(path, turntable(points, colors))
        else:
            scale = self.png_scale if path.suffix == ".png" else None
            completion.save(path, scale=scale, **_cloud_options(self.options))

    def _choose_png_scale(self, completion: Completion) -> float:
        """Return a scale that fits `clip_depth`, or twice the depth of the first frame, and at least that frame."""
        top = self.clip_depth or HEADROOM * float(completion.depth.max())
        path = self.folder / "*.png"
        try:
            return choose_scale(np.full((1, 1), top, np.float32), None, path)
        except InputError:
            return choose_scale(completion.depth, None, path)

    def _resume(self) -> None:
        path = self.folder / METADATA
        if not path.is_file():
            return
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            frames, scale = table["frames"], table["png_scale"]
            # Folders of earlier versions say less; that counts as the same.
            earlier = {"model": table["model"], **{key: table.get(key, now) for key, now in self.settings.items()}}
            complete = {name: record for name, record in frames.items() if "source" in record}
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            self.announce(f"{path} cannot be read and is written anew.")
            return
        if earlier != json.loads(json.dumps(self.settings)):
            raise ConfigError(
                f"{self.folder} holds results of {_differences(earlier, self.settings)}: give the same options, "
                "another folder with -o, or leave out --resume."
            )
        if self.png_scale is not None and scale is not None and self.png_scale != scale:
            raise ConfigError(f"{self.folder} holds png files of depth × {scale:g}: give --png-scale {scale:g}.")
        self.frames, self.png_scale = complete, self.png_scale or scale

    def _stored(self, name: str, record: dict[str, Any]) -> StoredFrame:
        maps = self.folder / f"{name}{ENDINGS['confidence']}"
        kept: dict[str, Any] = {}
        if maps.is_file():
            with np.load(maps) as archive:
                keys = [key for key in ("uncertainty", "sky", "input_confidence") if key in archive.files]
            kept = {key: partial(_load, maps, key) for key in keys}
        camera, pose = record.get("intrinsics"), record.get("pose")
        return StoredFrame(
            name=name,
            source=record["source"],
            image=self._image(record["source"]),
            depth=partial(np.load, self.folder / f"{name}.npy"),
            size=(int(record["height"]), int(record["width"])),
            unit=Unit(record["unit"]),
            intrinsics=None if camera is None else np.asarray(camera, np.float64),
            pose=None if pose is None else np.asarray(pose, np.float64),
            timestamp=record["timestamp"],
            **kept,
        )


class FileSink:
    """Writes the files that were named, by their suffixes, for a single frame."""

    def __init__(
        self,
        files: Sequence[Path],
        write: WriteOptions | None = None,
        maps: Path | None = None,
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.files, self.options, self.maps, self.announce = list(files), write or WriteOptions(), maps, announce
        for path in self.files:
            check_suffix(path)

    def missing(self, names: Sequence[str]) -> list[str]:
        return list(names)

    def write(self, frame: Frame, completion: Completion) -> None:
        for path in self.files:
            scale = self.options.png_scale
            if path.suffix.lower() in (".png", ".pgm") and not path.name.lower().endswith("preview.png"):
                scale = choose_scale(completion.depth, scale, path)
                self.announce(f"{path.name}: depth × {scale:g}")
            completion.save(path, scale=scale, **_cloud_options(self.options))
        if self.maps is not None:
            completion.save_maps(self.maps)

    def close(self) -> None:
        pass


class MapsSink:
    """Writes the confidence maps of each frame into a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def missing(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if not (self.folder / f"{name}.npz").is_file()]

    def write(self, frame: Frame, completion: Completion) -> None:
        completion.save_maps(self.folder / f"{frame.name}.npz")

    def close(self) -> None:
        pass


class TeeSink:
    """Passes every result to several sinks."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def missing(self, names: Sequence[str]) -> list[str]:
        wanted = {name for sink in self.sinks for name in sink.missing(names)}
        return [name for name in names if name in wanted]

    def write(self, frame: Frame, completion: Completion) -> None:
        for sink in self.sinks:
            sink.write(frame, completion)

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


class ExportSink:
    """Writes for another tool when the run ends, from the results of a `FolderSink` that it fills."""

    def __init__(self, results: FolderSink | ExportSink, export: Callable[[list[StoredFrame]], None]) -> None:
        self.inner, self.export = results, export

    def missing(self, names: Sequence[str]) -> list[str]:
        return self.inner.missing(names)

    def write(self, frame: Frame, completion: Completion) -> None:
        self.inner.write(frame, completion)

    def results(self) -> list[StoredFrame]:
        return self.inner.results()

    def close(self) -> None:
        self.inner.close()
        self.export(self.results())


def _cloud_options(write: WriteOptions) -> dict[str, Any]:
    return {"keep_flying_pixels": write.keep_flying_pixels, "stride": write.stride, "voxel": write.voxel}


def _load(path: Path, key: str) -> npt.NDArray[np.float32]:
    with np.load(path) as archive:
        return np.asarray(archive[key])


def _differences(earlier: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the settings that differ, as "keep_input hard (now soft)"."""
    flat = [{**settings, **settings["options"], **settings["reading"]} for settings in (earlier, now)]
    names = [name for name in flat[1] if name not in ("options", "reading") and flat[0].get(name) != flat[1][name]]
    return ", ".join(f"{name} {flat[0].get(name)} (now {flat[1][name]})" for name in names) or "other options"


def check_writable(paths: Sequence[Path]) -> None:
    """Raise before the work, not after it, where a file cannot be written."""
    for folder in {path.parent for path in paths}:
        existing = folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            raise FileError(f"Cannot write into {folder}: {existing} is not a folder.")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise FileError(f"Cannot write into {folder}: permission denied. Choose another place with -o.")
    for path in paths:
        if path.is_dir():
            raise FileError(f"Cannot write {path}: it is a folder.")
