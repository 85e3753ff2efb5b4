"""Reading the files datasets are made of. Every function ends in an array or in one sentence with the path.

Depth comes out float32 [H, W]; what is not a positive finite number becomes 0 only where `valid` is called, so that
readers of disparity can look at the raw values first.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from omnidc.data.source import need_file
from omnidc.errors import FileError, MissingExtraError

Depth = npt.NDArray[np.float32]


@contextmanager
def broken_file(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a decoder raises into one sentence: a damaged file is the file's fault, not the program's."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, RuntimeError, SyntaxError) as error:
        if isinstance(error, FileError):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileError(f"{path} is not a readable {what} ({reason}): copy or download it again.") from error


def read_image(path: Path) -> npt.NDArray[np.uint8]:
    """An RGB picture, uint8 [H, W, 3]. The orientation tag is ignored: depth maps follow the stored pixels."""
    need_file(path, "an image")
    with broken_file(path, "image"):
        try:
            with Image.open(path) as picture:
                return np.asarray(picture.convert("RGB"))
        except UnidentifiedImageError:
            raise ValueError("unknown picture format") from None


def image_size(path: Path) -> tuple[int, int]:
    """(height, width) of a picture without decoding it."""
    need_file(path, "an image")
    with broken_file(path, "image"), Image.open(path) as picture:
        return picture.height, picture.width


def read_png(path: Path, per_unit: float) -> Depth:
    """A single-channel integer PNG, divided by `per_unit` (256 for KITTI, 1000 for millimetres)."""
    need_file(path, "a depth PNG")
    array = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if array is None:
        raise FileError(f"{path} is not a readable depth PNG: copy or download it again.")
    if array.ndim != 2:
        raise FileError(f"{path} has {array.shape[2]} channels, but a depth PNG has one: is it a coloured preview?")
    return array.astype(np.float32) / np.float32(per_unit)


def read_npy(path: Path) -> Depth:
    """A plain .npy array [H, W] or [H, W, 1]. Pickled arrays are refused."""
    need_file(path, "a depth array")
    with broken_file(path, "NumPy array"):
        array = np.load(path, allow_pickle=False)
        if array.ndim == 3 and 1 in (array.shape[0], array.shape[2]):
            array = array.squeeze(2 if array.shape[2] == 1 else 0)
        if array.ndim != 2:
            raise ValueError(f"its shape is {list(array.shape)}, not [H, W]")
        return np.asarray(array, dtype=np.float32)


def read_pfm(path: Path) -> Depth:
    """A grey portable float map; rows are stored from the bottom up."""
    need_file(path, "a PFM file")
    with broken_file(path, "PFM file"):
        data = path.read_bytes()
        header = re.match(rb"(PF|Pf)\s+(\d+)\s+(\d+)\s+(-?[\d.]+(?:[eE][-+]?\d+)?)[ \t\r]*\n", data)
        if header is None:
            raise ValueError("no PFM header")
        if header[1] == b"PF":
            raise ValueError("it has three channels")
        width, height = int(header[2]), int(header[3])
        order = "<f4" if float(header[4]) < 0 else ">f4"
        array = np.frombuffer(data, order, count=height * width, offset=header.end())
        return np.ascontiguousarray(array.reshape(height, width)[::-1], dtype=np.float32)


def read_exr(path: Path) -> Depth:
    """The first channel of an EXR picture (depth and disparity files repeat it in R, G and B)."""
    need_file(path, "an EXR file")
    openexr = _package("OpenEXR", "exr", "Reading EXR files")
    with broken_file(path, "EXR file"), openexr.File(str(path), separate_channels=True) as file:
        channels = file.channels()
        name = next((c for c in ("R", "Y", "Z", "V") if c in channels), sorted(channels)[0])
        return np.asarray(channels[name].pixels, dtype=np.float32)


def read_h5(path: Path, *keys: str) -> tuple[npt.NDArray[Any], ...]:
    """The arrays called `keys` of an HDF5 file, as stored."""
    need_file(path, "an HDF5 file")
    h5py = _package("h5py", "data", "Reading HDF5 files")
    with broken_file(path, "HDF5 file"), h5py.File(path, "r") as file:
        missing = [key for key in keys if key not in file]
        if missing:
            raise ValueError(f"it has no array {missing[0]!r}")
        return tuple(np.asarray(file[key][()]) for key in keys)


def read_raw(path: Path, height: int, width: int) -> Depth:
    """Bare little-endian float32 values, row by row, without a header (ETH3D)."""
    need_file(path, "a raw float32 depth map")
    if path.stat().st_size != 4 * height * width:
        raise FileError(
            f"{path} has {path.stat().st_size} bytes, but a float32 map of {height}x{width} needs "
            f"{4 * height * width}: it is damaged or belongs to another image."
        )
    with broken_file(path, "raw float32 depth map"):
        return np.fromfile(path, "<f4").reshape(height, width).astype(np.float32)


def read_any(path: Path, per_unit: float | None) -> Depth:
    """A depth map by its suffix; `per_unit` divides the values (and is required for PNG, which has no unit)."""
    suffix = path.suffix.lower()
    if suffix == ".png":
        if per_unit is None:
            raise FileError(
                f"{path} is an integer PNG of unknown unit: say how many steps make one metre, "
                "for example scale=1000 for millimetres or scale=256 for KITTI."
            )
        return read_png(path, per_unit)
    readers = {".npy": read_npy, ".pfm": read_pfm, ".exr": read_exr}
    if suffix not in readers:
        raise FileError(f"{path} is not a depth map we can read: use .png, .npy, .pfm or .exr.")
    return readers[suffix](path) / np.float32(per_unit or 1.0)


def valid(depth: npt.NDArray[Any], low: float = 0.0, high: float = np.inf) -> Depth:
    """`depth` with 0 wherever it is not finite or not strictly between `low` and `high`."""
    depth = np.asarray(depth, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        keep = np.isfinite(depth) & (depth > low) & (depth < high)
    return np.where(keep, depth, np.float32(0))


def read_lines(path: Path, why: str) -> list[str]:
    """The non-empty lines of a text file."""
    need_file(path, why)
    with broken_file(path, "text file"):
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_columns(path: Path, columns: int, why: str) -> list[list[str]]:
    """A list file with at least `columns` words per line."""
    rows = [line.split() for line in read_lines(path, why)]
    for number, row in enumerate(rows, start=1):
        if len(row) < columns:
            raise FileError(f"Line {number} of {path} has {len(row)} columns, not {columns}: it should be {why}.")
    return rows


def read_numbers(path: Path, why: str) -> npt.NDArray[np.float64]:
    """All numbers of a small text file (a camera matrix), flat."""
    text = " ".join(read_lines(path, why)).replace(",", " ")
    with broken_file(path, "list of numbers"):
        return np.array([float(word) for word in text.split()])


def camera(fx: float, fy: float, cx: float, cy: float) -> npt.NDArray[np.float64]:
    """The 3x3 matrix of a pinhole camera."""
    return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])


def _package(name: str, extra: str, purpose: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(name, extra, purpose) from None
