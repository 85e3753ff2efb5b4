"""From the bytes that strangers send to checked `Frame`.

Nothing is decoded before its header says how large it will be. The readers of the package want files; they get them in
memory (/dev/shm where there is one) under names of our own making, and the files are gone when the reader returns.
"""

from __future__ import annotations

import io
import math
import re
import secrets
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError, OmnidcError
from omnidc.frame import Frame, Unit
from omnidc.io.depth import CODECS
from omnidc.pipeline import make_frame
from omnidc.pipeline.prepare import as_image
from omnidc.web.problems import TooLargeError
from omnidc.web.settings import Settings

IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM")  # none of them runs another program
MAGIC = ((b"\x93NUMPY", ".npy"), (b"\x89PNG", ".png"), (b"PK\x03\x04", ".npz"), (b"v/1\x01", ".exr"), (b"Pf\n", ".pfm"))
EXR_CHANNELS = 8


@dataclass(frozen=True)
class Upload:
    """A file as it was sent; `name` is what the sender calls it, and is never used as a path."""

    name: str
    data: bytes

    @property
    def label(self) -> str:
        """The name for sentences and for suffixes: no folders, no odd characters, not long."""
        base = re.split(r"[\\/]", self.name)[-1]
        base = re.sub(r"[^\w.\- ]", "_", base).strip(". ")
        return base[-60:] or "upload"


@contextmanager
def scratch() -> Iterator[Path]:
    """A private folder in memory where that exists, gone with all its files at the end of the block."""
    memory = Path("/dev/shm")
    # Digits only: the guess of a file's unit looks for names of datasets in the path.
    name = f"omnidc-{secrets.randbelow(10**18):018d}"
    for parent in (memory, Path(tempfile.gettempdir())):
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


def read_view(
    image: Upload,
    sparse: Upload | None,
    points: Sequence[Sequence[float]] | None,
    settings: Settings,
    unit: str | None = None,
    **options: Any,
) -> Frame:
    """Check and decode one view, exactly as the command line does. Options as for `omnidc.pipeline.make_frame`."""
    if sparse is not None and points is not None:
        raise InputError("Give the depth as a file or as points, not both.")
    check_image(image, settings)
    with scratch() as folder:
        picture = folder / f"image-{image.label}"
        picture.write_bytes(image.data)
        depth: Path | npt.NDArray[np.float32] | None = None
        if sparse is not None:
            depth = folder / with_suffix(sparse)
            check_depth(sparse, depth.suffix.lower(), settings)
            depth.write_bytes(sparse.data)
        elif points:
            depth = rasterize(points, image_size(image), settings)
        try:
            given = make_frame(picture, depth, **options)
        except OmnidcError as error:
            sentence = str(error).replace(str(picture), image.label)
            if isinstance(depth, Path):
                sentence = sentence.replace(str(depth), depth.name)
            raise type(error)(sentence) from error
        except MemoryError as error:
            raise TooLargeError("There is not enough memory to read this: send a smaller file.") from error
    if points:
        given = replace(given, unit_reason="points, taken as they are")
    if unit == "m" and given.unit != Unit.METERS and given.measurements().any():
        told = tuple(text for text in given.warnings if "looks like millimetres" not in text)
        given = replace(given, unit=Unit.METERS, unit_reason="metres, as the request says", warnings=told)
    return given


def with_suffix(upload: Upload) -> str:
    """The upload's name with a suffix that is known here: its own, or that of its first bytes."""
    if Path(upload.label).suffix.lower() in CODECS:
        return upload.label
    for magic, suffix in MAGIC:
        if upload.data.startswith(magic):
            return upload.label + suffix
    known = ", ".join(suffix[1:] for suffix in CODECS)
    raise InputError(f"{upload.label} is not a depth file that is known here: send one of {known}.")


def check_image(image: Upload, settings: Settings) -> None:
    """Look at the header alone: is it a picture, and how many pixels will it have?"""
    if not image.data:
        raise InputError(f"{image.label} is empty: send a photograph as JPEG, PNG, WebP or TIFF.")
    width, height = image_size(image, turn=False)
    check_pixels(width, height, image.label, settings)


def image_size(image: Upload, turn: bool = True) -> tuple[int, int]:
    """Width and height, after the turn that the camera's orientation tag asks for."""
    with _open_picture(image, IMAGE_FORMATS, "an image: send a JPEG, PNG, WebP or TIFF") as picture:
        width, height = picture.size
        try:
            turned = turn and picture.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        except Exception:  # a damaged tag; the reader ignores it as well
            turned = False
    return (height, width) if turned else (width, height)


@contextmanager
def _open_picture(upload: Upload, formats: tuple[str, ...], kind: str) -> Iterator[Any]:
    from PIL import Image

    try:
        picture = Image.open(io.BytesIO(upload.data), formats=formats)
    except Image.DecompressionBombError as error:
        raise TooLargeError(f"{upload.label} has far too many pixels: send a smaller one.") from error
    except Exception as error:  # Pillow's plugins raise whatever damaged bytes make them raise
        raise InputError(f"{upload.label} is damaged or not {kind}.") from error
    with picture:
        yield picture


def check_pixels(width: int, height: int, label: str, settings: Settings) -> None:
    if width * height > settings.max_pixels:
        raise TooLargeError(
            f"{label} has {width}x{height} pixels, more than the {settings.megapixels} that are taken here: shrink it."
        )


def check_depth(upload: Upload, suffix: str, settings: Settings) -> None:
    """The size a depth file claims, before anything is allocated for it."""
    try:
        if suffix == ".npy":
            _check_npy(io.BytesIO(upload.data), upload.label, settings)
        elif suffix == ".npz":
            _check_npz(upload, settings)
        elif suffix == ".exr":
            _check_exr(upload, settings)
        elif suffix in (".png", ".tif", ".tiff"):
            with _open_picture(upload, ("PNG", "TIFF"), f"a {CODECS[suffix].name} file: export it again") as picture:
                width, height = picture.size
                check_pixels(width, height, upload.label, settings)
    except OmnidcError:
        raise
    except Exception as error:
        raise InputError(
            f"{upload.label} is damaged, truncated or not a {CODECS[suffix].name} file: export it again."
        ) from error


def _check_npy(stream: Any, label: str, settings: Settings) -> None:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise InputError(f"{label} holds Python objects, not a depth map: save the map alone with numpy.save.")
    if math.prod(shape) > settings.max_pixels or dtype.itemsize > 16:
        raise TooLargeError(
            f"{label} claims the shape {list(shape)[:4]} of {dtype}, more than the {settings.megapixels} that are "
            "taken here."
        )


def _check_npz(upload: Upload, settings: Settings) -> None:
    limit = 8 * settings.max_pixels + 4096  # one map of float64
    with zipfile.ZipFile(io.BytesIO(upload.data)) as archive:
        members = archive.infolist()
        if len(members) > 32 or sum(member.file_size for member in members) > 4 * limit:
            raise TooLargeError(f"{upload.label} unpacks to more than is taken here: send the depth map alone.")
        for member in members:
            if member.filename.endswith(".npy"):
                with archive.open(member) as stream:
                    _check_npy(stream, upload.label, settings)


def _check_exr(upload: Upload, settings: Settings) -> None:
    """Walk through the attributes of the first header: name, type, size, value."""
    data, at = upload.data, 8
    if data[:4] != b"v/1\x01":
        raise ValueError("no OpenEXR magic")
    if struct.unpack_from("<I", data, 4)[0] & 0x1800:
        raise InputError(f"{upload.label} is a deep or multi-part EXR: send one with a single part.")
    while data[at] != 0:
        name, kind = data[at : at + 512].split(b"\0", 2)[:2]
        at += len(name) + len(kind) + 2
        (size,) = struct.unpack_from("<I", data, at)
        value = data[at + 4 : at + 4 + size]
        at += 4 + size
        if name in (b"dataWindow", b"displayWindow"):
            left, top, right, bottom = struct.unpack("<4i", value)
            check_pixels(max(0, right - left + 1), max(0, bottom - top + 1), upload.label, settings)
        if name == b"channels" and len(re.findall(rb"[^\0]+\0.{16}", value, re.DOTALL)) > EXR_CHANNELS:
            raise TooLargeError(f"{upload.label} has more than {EXR_CHANNELS} channels: send the depth alone.")


def rasterize(
    points: Sequence[Sequence[float]],  # (x, y, depth): column and row in pixels, pixel centres at integers
    size: tuple[int, int],
    settings: Settings,
) -> npt.NDArray[np.float32]:
    """Sparse depth [H, W] from a list; each point goes to its nearest pixel, of two in one pixel the last stays."""
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


def read_picture(image: Upload, long_side: int = 1600) -> bytes:
    """A PNG of the photograph for browsers that cannot show its format. Its header must have been checked."""
    from PIL import Image

    with scratch() as folder:
        path = folder / f"image-{image.label}"
        path.write_bytes(image.data)
        try:
            array = as_image(path)
        except OmnidcError as error:
            raise type(error)(str(error).replace(str(path), image.label)) from error
    picture = Image.fromarray(array)
    picture.thumbnail((long_side, long_side))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()
