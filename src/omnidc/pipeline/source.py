"""Whole sources: complete every frame of a `FrameSource` into a `Sink`; pairs of files as a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from omnidc.errors import FileError, OmnidcError
from omnidc.frame import Frame, FrameSource, LazyFrames
from omnidc.io.depth import CODECS
from omnidc.io.images import SUFFIXES, find_mask
from omnidc.io.pointlist import SUFFIXES as POINT_SUFFIXES
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.listener import RunListener
from omnidc.pipeline.options import CompleteOptions
from omnidc.pipeline.prepare import make_frame
from omnidc.pipeline.sinks import Sink


class SinkError(FileError):
    """A result cannot be written."""


class Completer(Protocol):
    """What a run needs of `DepthCompleter`."""

    def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion: ...


class NamedCompleter(Completer, Protocol):
    """A completer that says which model it runs."""

    name: str


@dataclass
class RunReport:
    """How a run ended."""

    names: Sequence[str]  # all of the source
    done: list[str] = field(default_factory=list)  # completed in this run
    skipped: list[str] = field(default_factory=list)  # without measurements
    failed: dict[str, str] = field(default_factory=dict)  # name → sentence


def complete_source(
    source: FrameSource,
    sink: Sink,
    completer: Completer,
    options: CompleteOptions | None = None,
    *,
    allow_empty: bool = True,  # complete frames without a measurement, whose depth is relative
    listener: RunListener | None = None,  # None = silent
) -> RunReport:
    """Complete the frames that the sink lacks.

    A frame that cannot be read, completed or stored in its format is noted, and the run goes on. A file that cannot be
    written ends it, since the disk is full or the folder closed for all of them.

    >>> import tempfile
    >>> import numpy as np
    >>> import omnidc
    >>> from omnidc.pipeline import FolderSink
    >>> frame = Frame(np.zeros((48, 64, 3), np.uint8), sparse=np.full((48, 64), 2.0, np.float32), name="a")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = FolderSink(Path(folder))
    ...     report = complete_source(LazyFrames({"a": lambda: frame}), sink, omnidc.load("interpolate"))
    >>> report.done, report.failed
    (['a'], {})
    """
    options, listener = options or CompleteOptions(), listener or RunListener()
    todo = sink.missing(source.names)
    report = RunReport(list(source.names))
    listener.begin(len(report.names), len(todo))
    for name in todo:
        try:
            frame = source[name]
            frame = frame if frame.name else replace(frame, name=name)
            listener.loaded(frame)
            if not allow_empty and not frame.measurements().any():
                report.skipped.append(name)
                listener.skipped(name)
                continue
            completion = completer.complete(frame, options)
            try:
                sink.write(frame, completion)
            except FileError as error:
                raise SinkError(str(error)) from error
        except SinkError:
            raise
        except OmnidcError as error:
            report.failed[name] = str(error)
            listener.failed(name, str(error))
            continue
        report.done.append(name)
        listener.completed(frame, completion)
    listener.end()
    sink.close()
    return report


def pair_source(
    images: Path,
    sparse: Path,
    intrinsics: Any = None,
    masks: Path | None = None,  # folder with COLMAP's names, or one mask for all images
    **reading: Any,  # keywords of `make_frame`
) -> LazyFrames:
    """Pair the photographs of a folder with the depth files of another by their names before the suffix."""
    pictures = {path.stem: path for path in sorted(images.iterdir()) if path.suffix.lower() in SUFFIXES}
    depths: dict[str, Path] = {}
    # A .json or .txt beside a depth map of the same name is most likely something else, such as its camera.
    for path in sorted(sparse.iterdir(), key=lambda path: (path.suffix.lower() in POINT_SUFFIXES, path)):
        if path.suffix.lower() in (*CODECS, *POINT_SUFFIXES) and path.is_file():
            depths.setdefault(path.stem, path)
    pairs = {stem: (pictures[stem], depths[stem]) for stem in pictures if stem in depths}
    if not pairs:
        raise FileError(
            f"No image of {images} ({len(pictures)} images) has a depth file of the same name in {sparse} "
            f"({len(depths)} depth files): pairs share the name before the suffix, as in 0001.jpg and 0001.npy."
        )
    lone = len(pictures) - len(pairs)
    notes = (f"{lone} of {len(pictures)} images have no depth file and are left out.",) if lone else ()
    load = {
        stem: partial(pair_frame, image, depth, intrinsics, masks, name=stem, **reading)
        for stem, (image, depth) in pairs.items()
    }
    return LazyFrames(load, notes)


def pair_frame(
    image: Path,
    sparse: Path,
    intrinsics: Any = None,
    masks: Path | None = None,
    **reading: Any,
) -> Frame:
    """Read one photograph and its depth file, with its mask where there is one."""
    if masks is not None and not masks.exists():
        raise FileError(f"There is no mask or folder of masks at {masks}; check the path.")
    mask = masks if masks is None or masks.is_file() else find_mask(masks, image.name)
    return make_frame(image, sparse, intrinsics, mask=mask, **reading)
