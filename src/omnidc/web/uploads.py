"""From the bytes that strangers send to checked `Frame`.

Files are decoded in sandboxes (`omnidc.io.sandbox`): nothing is decoded before its header says how large it will be,
and a decoder that hangs, crashes or runs out of memory is given up. The decoders want files; they get them in memory
(/dev/shm where there is one), each in a folder of its own, and the files are gone when the decoder returns.
"""

from __future__ import annotations

import queue
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError, OmnidcError
from omnidc.frame import Frame, Unit
from omnidc.io.depth import CODECS, DepthFile
from omnidc.io.sandbox import Answer, Sandbox, SlowFileError
from omnidc.io.untrusted import TooLargeFileError
from omnidc.pipeline import make_frame
from omnidc.web.errors import HttpError, TooLargeError
from omnidc.web.settings import Settings

MAGIC = ((b"\x93NUMPY", ".npy"), (b"\x89PNG", ".png"), (b"PK\x03\x04", ".npz"), (b"v/1\x01", ".exr"), (b"Pf\n", ".pfm"))
PREVIEW_SIDE = 1600  # pixels
DECODER_BYTES = 64  # address space of a decoder per pixel that it may read: float64 maps, copies, channels
DECODER_BASE = 2**30  # ... and of Python with its libraries


@dataclass(frozen=True)
class Upload:
    """A file as it was sent; `name` is what the sender calls it."""

    name: str
    data: bytes

    @property
    def label(self) -> str:
        """The name for sentences and for suffixes: no folders, no odd characters, not long."""
        base = re.split(r"[\\/]", self.name)[-1]
        base = re.sub(r"[^\w.\- ]", "_", base).strip(". ")
        return base[-60:] or "upload"


@dataclass(frozen=True)
class PhotoHead:
    """What the header of a photograph says."""

    width: int  # after the turn that the camera's orientation tag asks for
    height: int
    focal: float | None  # pixels, by EXIF; None = not known


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a private folder, in memory where that exists; it is removed with all its files at the end of the block."""
    # Digits only: the guess of a file's unit looks for names of datasets in the path.
    name = f"omnidc-{secrets.randbelow(10**18):018d}"
    for parent in (Path("/dev/shm"), Path(tempfile.gettempdir())):
        try:
            folder = parent / name
            folder.mkdir(mode=0o700)
            break
        except OSError:
            continue
    else:
        folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class UploadReader:
    """Decodes uploads in a few sandboxes. Its methods block, and may be called from as many threads as there are."""

    def __init__(self, settings: Settings, sandboxes: int) -> None:
        self.settings = settings
        memory = DECODER_BASE + DECODER_BYTES * settings.max_pixels
        self._sandboxes = [Sandbox("omnidc.web.decode", memory) for _ in range(sandboxes)]
        self._free: queue.SimpleQueue[Sandbox] = queue.SimpleQueue()
        for sandbox in self._sandboxes:
            self._free.put(sandbox)

    def open(self) -> None:
        for sandbox in self._sandboxes:
            sandbox.start()

    def close(self) -> None:
        for sandbox in self._sandboxes:
            sandbox.close()

    def photo_head(self, image: Upload, timeout: float) -> PhotoHead:
        """Read the header of a photograph."""
        if not image.data:
            raise InputError(f"{image.label} is empty: send a photograph as JPEG, PNG, WebP or TIFF.")
        values, _ = self._decode("photo_head", image, image.label, timeout)
        width, height = values["size"]
        return PhotoHead(int(width), int(height), values["focal"])

    def preview(self, image: Upload, timeout: float) -> bytes:
        """Make a PNG of the photograph for browsers that cannot show its format."""
        self.photo_head(image, timeout)
        _, [data] = self._decode("preview", image, image.label, timeout, long_side=PREVIEW_SIDE)
        return data.tobytes()

    def view(
        self,
        image: Upload,
        sparse: Upload | None,
        points: Sequence[Sequence[float]] | None,
        timeout: float,
        unit: str | None = None,
        depth_scale: float | None = None,
        **options: Any,
    ) -> Frame:
        """Check and decode one view, exactly as the command line does. Options as for `omnidc.pipeline.make_frame`."""
        if sparse is not None and points is not None:
            raise InputError("Give the depth as a file or as points, not both.")
        depth: DepthFile | npt.NDArray[np.float32] | None = None
        if points:
            head = self.photo_head(image, timeout)
            depth = rasterize(points, (head.width, head.height), self.settings)
        _, [picture] = self._decode("photo", image, image.label, timeout)
        if sparse is not None:
            values, [map_] = self._decode("depth", sparse, with_suffix(sparse), timeout, scale=depth_scale)
            depth, depth_scale = DepthFile(map_, **{**values, "unit": Unit(values["unit"])}), None
        given = make_frame(picture, depth, depth_scale=depth_scale, **options)
        if points:
            given = replace(given, unit_reason="points, taken as they are")
        if unit == "m" and given.unit != Unit.METERS and given.measurements().any():
            kept = tuple(text for text in given.warnings if "looks like millimeters" not in text)
            given = replace(given, unit=Unit.METERS, unit_reason="meters, as the request says", warnings=kept)
        return given

    def _decode(self, task: str, upload: Upload, label: str, timeout: float, **options: Any) -> Answer:
        limit = min(timeout, self.settings.read_timeout)
        sandbox = self._free.get()
        try:
            with scratch() as folder:
                path = folder / label
                path.write_bytes(upload.data)
                try:
                    return sandbox.call(task, path, limit, pixels=self.settings.max_pixels, **options)
                except SlowFileError as error:
                    status = 504 if limit < self.settings.read_timeout else 422
                    raise HttpError(str(error).replace(str(path), label), status) from error
                except TooLargeFileError as error:
                    raise TooLargeError(str(error).replace(str(path), label)) from error
                except OmnidcError as error:
                    raise type(error)(str(error).replace(str(path), label)) from error
        except OSError as error:
            raise FileError(f"{label} cannot be read here now ({error.strerror}): try again later.") from error
        finally:
            self._free.put(sandbox)


def with_suffix(upload: Upload) -> str:
    """Return the upload's name with a suffix that is known here: its own, or that of its first bytes."""
    if Path(upload.label).suffix.lower() in CODECS:
        return upload.label
    for magic, suffix in MAGIC:
        if upload.data.startswith(magic):
            return upload.label + suffix
    known = ", ".join(suffix[1:] for suffix in CODECS)
    raise InputError(f"{upload.label} is not a depth file that is known here: send one of {known}.")


def rasterize(
    points: Sequence[Sequence[float]],  # (x, y, depth): column and row in pixels, pixel centers at integers
    size: tuple[int, int],
    settings: Settings,
) -> npt.NDArray[np.float32]:
    """Rasterize a list to sparse depth [H, W]; each point at its nearest pixel; of two in one the last stays."""
    width, height = size
    if len(points) > settings.max_points:
        raise TooLargeError(
            f"{len(points):,} points are more than the {settings.max_points:,} taken here: send a file."
        )
    values = np.asarray(points, np.float64).reshape(-1, 3)
    x, y = np.floor(values[:, 0] + 0.5), np.floor(values[:, 1] + 0.5)
    outside = ~((x >= 0) & (x < width) & (y >= 0) & (y < height))
    if outside.any():
        k = int(np.flatnonzero(outside)[0])
        raise InputError(
            f"Point {k + 1} lies at ({values[k, 0]:g}, {values[k, 1]:g}), outside the image of {width}x{height} pixels."
        )
    with np.errstate(over="ignore"):
        depth = values[:, 2].astype(np.float32)
    bad = ~(np.isfinite(depth) & (depth > 0))
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise InputError(f"Point {k + 1} has the depth {values[k, 2]:g}: a depth is a positive number.")
    sparse = np.zeros((height, width), np.float32)
    sparse[y.astype(int), x.astype(int)] = depth
    return sparse
