"""Photographs: finding, undistorting and shrinking them together with their intrinsics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError
from omnidc.images import SUFFIXES, read_image

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB


def read_photo(path: Path) -> Picture:
    """Return a photograph with its pixels as stored: calibrations hold for those, not for what EXIF turns them into."""
    return np.array(read_image(path, turn=False))  # a copy: arrays of Pillow cannot be written to


def find_images(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the photographs of a folder in natural order of their names."""
    if not folder.is_dir():
        raise FileError(f"There is no folder {folder}; check the path.")
    found = [path for path in folder.glob(pattern) if path.suffix.lower() in SUFFIXES]
    return sorted(found, key=lambda path: natural(path.name))


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key under which frame2 comes before frame10."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for letter in name + "\0":
        if letter.isdecimal():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, letter))
    return parts
