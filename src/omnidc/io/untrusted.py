"""Limits and errors for files of unknown origin.

Every reader of the package wraps its parser in `untrusted`: whatever the parser raises becomes one `FileError` that
names the file and says what to do. Sizes are checked from headers, before anything is unpacked, against the `Limits`
in force.
"""

from __future__ import annotations

import io
import math
import os
import re
import struct
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, OmnidcError

Array = npt.NDArray[Any]
StrPath = str | os.PathLike[str]

# No picture of a scene is packed better; larger ones than SMALL are refused when they claim to be.
PIXELS_PER_BYTE = 2000
SMALL = 4_000_000  # pixels

# A progressive JPEG has about 10 scans; each one costs a pass over the whole picture.
MAX_JPEG_SCANS = 100


@dataclass(frozen=True)
class Limits:
    """What a file may unpack to."""

    pixels: int = 2**26  # of a picture or map, 67 megapixels: completing one takes about 7 GB
    records: int = 2**27  # of a point cloud, 3.2 GB as float64 [N, 3]
    members: int = 1024  # of an archive


_LIMITS: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 - Limits is frozen


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Read files within other limits than the default ones."""
    token = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(token)


class TooLargeFileError(FileError):
    """A file that unpacks to more than the limits in force."""


@contextmanager
def untrusted(
    path: StrPath,
    kind: str,  # with its article, "a PLY file"
    remedy: str = "export or download it again",
    refusal: type[OmnidcError] = FileError,
) -> Iterator[None]:
    """Turn whatever a parser raises into one `FileError`, or another `refusal` for a damaged file.

    Errors of ours pass through. The parser's own error is chained; `omnidc --debug` shows it.
    """
    try:
        yield
    except OmnidcError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{error.filename or path} does not exist: check the path.") from error
    except IsADirectoryError as error:
        raise FileError(f"{error.filename or path} is a folder, not {kind}: give the file.") from error
    except PermissionError as error:
        raise FileError(f"{error.filename or path} cannot be read (permission denied): change its rights.") from error
    except MemoryError as error:
        raise TooLargeFileError(f"{path} needs more memory than there is: give a smaller file.") from error
    except BaseException as error:
        if not (isinstance(error, Exception) or _is_panic(error)):
            raise  # Ctrl-C and exits
        if type(error).__name__ == "DecompressionBombError":  # Pillow's, which need not be imported for its name
            raise TooLargeFileError(f"{path} claims far too many pixels: shrink it.") from error
        text = str(error).replace(repr(str(path)), "").replace(str(path), "it")
        reason = " ".join(text.split()).rstrip(".")[:120] or type(error).__name__
        raise refusal(f"{path} is damaged, truncated or not {kind} ({reason}): {remedy}.") from error


def _is_panic(error: BaseException) -> bool:
    """Parsers written in Rust report a bug of theirs with an error that is no `Exception`."""
    return type(error).__name__ == "PanicException"


def check_pixels(width: int, height: int, path: StrPath) -> None:
    """Refuse a picture or map that is larger than the limits in force."""
    limit = _LIMITS.get().pixels
    if width * height > limit:
        raise TooLargeFileError(
            f"{path} has {width}x{height} pixels, more than the {limit / 1e6:.3g} megapixels that are read: shrink it."
        )


def check_records(count: int, path: StrPath) -> None:
    """Refuse a point cloud that is larger than the limits in force."""
    limit = _LIMITS.get().records
    if count > limit:
        raise TooLargeFileError(f"{path} has {count:,} points, more than the {limit:,} that are read: thin it out.")


# --- NumPy --------------------------------------------------------------------------------------------------------


def read_npy(path: Path, most: int | None = None) -> Array:
    """Read an array file of at most `most` numbers (None = the limit on pixels).

    Pickles are refused, and nothing is allocated before shape and file size were checked.
    """
    with untrusted(path, "a NumPy array file"), path.open("rb") as stream:
        return _read_array(stream, path, path.stat().st_size, most or _LIMITS.get().pixels)


def read_npz(path: Path) -> dict[str, NpzMember]:
    """List the arrays of an archive by name; `NpzMember.read` unpacks one."""
    with untrusted(path, "a NumPy archive"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > _LIMITS.get().members:
            raise TooLargeFileError(f"{path} holds {len(members)} arrays: give the depth map alone.")
        return {member.filename.removesuffix(".npy"): NpzMember(path, member) for member in members}


@dataclass(frozen=True)
class NpzMember:
    """One array of an archive, still packed."""

    path: Path
    info: zipfile.ZipInfo

    def read(self) -> Array:
        with (
            untrusted(self.path, "a NumPy archive"),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.info) as stream,
        ):
            return _read_array(stream, self.path, self.info.file_size, _LIMITS.get().pixels)


def _read_array(stream: IO[bytes], path: Path, size: int, most: int) -> Array:
    start = stream.read(8)
    if start[:6] != b"\x93NUMPY":
        raise ValueError("it does not start as NumPy arrays do")
    read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}.get(start[6])
    if read_header is None:
        raise ValueError(f"version {start[6]} of the format is not known")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers of Python 2
        shape, fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise FileError(f"{path} holds Python objects, not numbers: save the array alone with numpy.save(path, array).")
    count = math.prod(shape)
    if count > most or dtype.itemsize > 256:
        raise TooLargeFileError(
            f"{path} claims the shape {list(shape)[:4]} of {str(dtype)[:40]}, more than is read: give a smaller array."
        )
    if count * dtype.itemsize > size:
        raise ValueError(f"{count * dtype.itemsize} bytes of numbers do not fit into {size} bytes")
    data = stream.read(count * dtype.itemsize)
    values = np.frombuffer(data, dtype, count).copy()
    return values.reshape(shape, order="F" if fortran else "C")


# --- pictures -----------------------------------------------------------------------------------------------------


@contextmanager
def open_picture(path: StrPath, kind: str, formats: tuple[str, ...] | None = None) -> Iterator[Any]:
    """Open a picture with Pillow; its size and scans are checked before a pixel is decoded."""
    from PIL import Image

    remedy = "give a JPEG, PNG, WebP or TIFF" if kind == "an image" else "export it again"
    with untrusted(path, kind, remedy), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path, formats=formats) as picture:
            check_pixels(*picture.size, path)
            size = Path(path).stat().st_size
            if picture.width * picture.height > max(SMALL, PIXELS_PER_BYTE * size):
                raise ValueError(f"{picture.width}x{picture.height} pixels in {size} bytes")
            if picture.format == "JPEG" and Path(path).read_bytes().count(b"\xff\xda") > MAX_JPEG_SCANS:
                raise TooLargeFileError(
                    f"{path} has more than {MAX_JPEG_SCANS} scans, which take too long to read: save it again."
                )
            yield picture


PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def check_png(data: bytes) -> None:
    """Raise `ValueError` for a PNG whose pieces are longer than it is; other data pass.

    OpenCV allocates whatever length a piece claims, up to 2 GB, before it looks how much data there is.
    """
    at = len(PNG_MAGIC) if data.startswith(PNG_MAGIC) else len(data)
    while at + 12 <= len(data):
        at += 12 + int(struct.unpack_from(">I", data, at)[0])
    if at > len(data):
        raise ValueError("a piece of it is longer than the file")


def check_encoded(data: bytes, origin: str) -> None:
    """Check a JPEG or PNG in memory before OpenCV decodes it: number of pixels, and the lengths of a PNG's pieces."""
    from PIL import Image

    with untrusted(origin, "a JPEG or PNG", "copy it again"):
        check_png(data)
        if data.startswith(PNG_MAGIC):
            width, height = struct.unpack_from(">II", data, 16)
        else:
            with Image.open(io.BytesIO(data), formats=("JPEG",)) as picture:
                width, height = picture.size
        check_pixels(width, height, origin)
        if width * height > max(SMALL, PIXELS_PER_BYTE * len(data)):
            raise ValueError(f"{width}x{height} pixels in {len(data)} bytes")


def check_exr(path: Path) -> None:
    """Check the first header of an OpenEXR file: windows and number of channels."""
    with untrusted(path, "an OpenEXR file"), path.open("rb") as stream:
        data = stream.read(2**20)
        if data[:4] != b"v/1\x01":
            raise ValueError("no OpenEXR magic number")
        if struct.unpack_from("<I", data, 4)[0] & 0x1800:
            raise FileError(f"{path} is a deep or multi-part EXR: export one with a single part.")
        at, pixels, channels = 8, 0, 1
        while data[at] != 0:
            name, kind = data[at : at + 512].split(b"\0", 2)[:2]
            at += len(name) + len(kind) + 2
            (size,) = struct.unpack_from("<I", data, at)
            value = data[at + 4 : at + 4 + size]
            at += 4 + size
            if name in (b"dataWindow", b"displayWindow"):
                left, top, right, bottom = struct.unpack("<4i", value)
                width, height = max(0, right - left + 1), max(0, bottom - top + 1)
                check_pixels(width, height, path)
                pixels = max(pixels, width * height)
            elif name == b"channels":
                channels = len(re.findall(rb"[^\0]+\0.{16}", value, re.DOTALL))
        if pixels * channels > 8 * _LIMITS.get().pixels:
            raise TooLargeFileError(f"{path} has {channels} channels of this size: export the depth alone.")


# --- text ---------------------------------------------------------------------------------------------------------


def read_text(path: Path, limit: int = 2**26) -> str:
    """Read a text file in UTF-8 of at most `limit` bytes."""
    with untrusted(path, "a text file", "save it as UTF-8 text"), path.open("rb") as stream:
        data = stream.read(limit + 1)
        if len(data) > limit:
            raise TooLargeFileError(f"{path} has more than {limit >> 20} MB of text, which is more than is read.")
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()


def is_number(word: object) -> bool:
    """True for a number, or the text of one; False for the name of a column."""
    try:
        float(word)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
