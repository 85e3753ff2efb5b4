"""Reading the files datasets are made of. Every function ends in an array or in one sentence with the path.

Depth comes out float32 [H, W]; what is not a positive finite number becomes 0 only where `valid` is called, so that
readers of disparity can look at the raw values first.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.datasets.source import need_file
from omnidc.errors import FileError, MissingExtraError
from omnidc.io.depth import CODECS
from omnidc.io.untrusted import check_pixels, open_picture, untrusted

Depth = npt.NDArray[np.float32]


def read_image(path: Path) -> npt.NDArray[np.uint8]:
    """Read an RGB picture, uint8 [H, W, 3]. The orientation tag is ignored: depth maps follow the stored pixels."""
    need_file(path, "an image")
    with open_picture(path, "an image") as picture:
        return np.asarray(picture.convert("RGB"))


def image_size(path: Path) -> tuple[int, int]:
    """Read (height, width) of a picture without decoding it."""
    need_file(path, "an image")
    with open_picture(path, "an image") as picture:
        return picture.height, picture.width


def read_depth(path: Path, per_unit: float = 1.0) -> Depth:
    """Read a depth (or disparity) file by its suffix, divided by `per_unit` (256 for KITTI PNGs, 1000 for millimeters).

    The codecs are those of `omnidc.io.depth`; unlike its `read_depth`, nothing is guessed and values are left
    as they are (a dataset may use negative numbers for "unknown"; `valid` removes them).
    """
    need_file(path, "a depth map")
    suffix = path.suffix.lower()
    if suffix not in CODECS:
        raise FileError(f"{path} is not a depth map we can read: use {', '.join(CODECS)}.")
    with untrusted(path, f"a {CODECS[suffix].name} file"):
        values = CODECS[suffix].read(path).values
        if values.ndim == 3 and 1 in (values.shape[0], values.shape[2]):
            values = values.squeeze(2 if values.shape[2] == 1 else 0)
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise ValueError(f"it holds {values.dtype} {list(values.shape)}, not numbers [H, W]")
        return np.asarray(values, np.float32) / np.float32(per_unit)


def read_gray(path: Path) -> Depth:
    """Read a gray PNG of 8 or 16 bits as numbers; for datasets whose depth is in whole meters."""
    need_file(path, "a gray PNG")
    with open_picture(path, "a gray PNG") as picture:
        values = np.asarray(picture)
        if values.ndim != 2:
            raise ValueError("it is a color picture")
        return values.astype(np.float32)


def read_h5(path: Path, *keys: str) -> tuple[npt.NDArray[Any], ...]:
    """Read the arrays called `keys` of an HDF5 file, as stored."""
    need_file(path, "an HDF5 file")
    h5py = _package("h5py", "data", "Reading HDF5 files")
    with untrusted(path, "an HDF5 file"), h5py.File(path, "r") as file:
        missing = [key for key in keys if key not in file]
        if missing:
            raise ValueError(f"it has no array {missing[0]!r}")
        for key in keys:
            check_pixels(int(file[key].size), 1, path)
        return tuple(np.asarray(file[key][()]) for key in keys)


def read_raw(path: Path, height: int, width: int) -> Depth:
    """Read bare little-endian float32 values, row by row, without a header (ETH3D)."""
    need_file(path, "a raw float32 depth map")
    if path.stat().st_size != 4 * height * width:
        raise FileError(
            f"{path} has {path.stat().st_size} bytes, but a float32 map of {height}x{width} needs "
            f"{4 * height * width}: it is damaged or belongs to another image."
        )
    with untrusted(path, "a raw float32 depth map"):
        return np.fromfile(path, "<f4").reshape(height, width).astype(np.float32)


def valid(depth: npt.NDArray[Any], low: float = 0.0, high: float = np.inf) -> Depth:
    """Return `depth` with 0 wherever it is not finite or not strictly between `low` and `high`."""
    depth = np.asarray(depth, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        keep = np.isfinite(depth) & (depth > low) & (depth < high)
    return np.where(keep, depth, np.float32(0))


def read_lines(path: Path, why: str) -> list[str]:
    """Read the non-empty lines of a text file."""
    need_file(path, why)
    with untrusted(path, "a text file"):
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_columns(path: Path, columns: int, why: str) -> list[list[str]]:
    """Read a list file with at least `columns` words per line."""
    rows = [line.split() for line in read_lines(path, why)]
    for number, row in enumerate(rows, start=1):
        if len(row) < columns:
            raise FileError(f"Line {number} of {path} has {len(row)} columns, not {columns}: it should be {why}.")
    return rows


def read_numbers(path: Path, why: str) -> npt.NDArray[np.float64]:
    """Read all numbers of a small text file (a camera matrix), flat."""
    text = " ".join(read_lines(path, why)).replace(",", " ")
    with untrusted(path, "a list of numbers"):
        return np.array([float(word) for word in text.split()])


def camera(fx: float, fy: float, cx: float, cy: float) -> npt.NDArray[np.float64]:
    """Return the 3x3 matrix of a pinhole camera."""
    return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])


def _package(name: str, extra: str, purpose: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(name, extra, purpose) from None
