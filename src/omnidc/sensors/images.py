"""Photographs: finding, undistorting and shrinking them together with their intrinsics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.images import SUFFIXES, read_image
from omnidc.sensors.projection import Array, scale_intrinsics

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


def shrink_size(
    shape: tuple[int, int],
    max_long_side: int | None,
) -> tuple[int, int]:
    """Return the height and width after limiting the longer side; never enlarges."""
    if max_long_side is not None and max_long_side < 32:
        raise InputError(f"--max-long-side must be at least 32 pixels, not {max_long_side}.")
    longest = max(shape)
    if max_long_side is None or longest <= max_long_side:
        return shape
    scale = max_long_side / longest
    return max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))


def shrink(
    image: Picture,  # [H, W, 3]
    K: Array | None,  # [3, 3]
    max_long_side: int | None,
) -> tuple[Picture, Array | None]:
    """Return image and intrinsics with the longer side at most `max_long_side` pixels."""
    height, width = shrink_size(image.shape[:2], max_long_side)
    if (height, width) == image.shape[:2]:
        return image, K
    small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    if K is not None:
        K = scale_intrinsics(K, width / image.shape[1], height / image.shape[0])
    return np.asarray(small, dtype=np.uint8), K


def undistort(
    image: Picture,  # [H, W, 3]
    K: Array,  # [3, 3]
    distortion: Sequence[float] | Array,
    fisheye: bool = False,
) -> tuple[Picture, Array]:
    """Remove OpenCV lens distortion; return the image and its new pinhole matrix (no empty border)."""
    coefficients = np.asarray(distortion, dtype=np.float64)
    size = (image.shape[1], image.shape[0])
    if fisheye:
        if coefficients.size != 4:
            raise InputError(f"A fisheye camera has 4 distortion coefficients (k1 to k4), not {coefficients.size}.")
        new_K = cv2.fisheye.estimateNewCameraMatrixForUndistortRectify(K, coefficients, size, np.eye(3), balance=0.0)
        maps = cv2.fisheye.initUndistortRectifyMap(K, coefficients, np.eye(3), new_K, size, cv2.CV_32FC1)
    else:
        if coefficients.size not in (4, 5, 8, 12, 14):
            raise InputError(
                f"OpenCV distortion has 4, 5, 8, 12 or 14 coefficients (k1, k2, p1, p2, ...), not {coefficients.size}."
            )
        new_K, _ = cv2.getOptimalNewCameraMatrix(K, coefficients, size, 0.0)
        maps = cv2.initUndistortRectifyMap(K, coefficients, np.eye(3), new_K, size, cv2.CV_32FC1)
    straight = cv2.remap(image, maps[0], maps[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(straight, dtype=np.uint8), np.asarray(new_K, dtype=np.float64)
