"""Pictures laid out in a grid."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB


def contact_sheet(pictures: list[Picture], columns: int = 2) -> Picture:
    """Lay pictures out in a grid, all as wide as the widest."""
    columns = min(columns, len(pictures))
    widest = max(picture.shape[1] for picture in pictures)
    pictures = [_as_wide(picture, widest) for picture in pictures]
    height, width = (max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    rows = -(-len(pictures) // columns)
    out = np.zeros((rows * height, columns * width, 3), dtype=np.uint8)
    for k, picture in enumerate(pictures):
        y, x = k // columns * height, k % columns * width
        out[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
    return out


def _as_wide(picture: Picture, width: int) -> Picture:
    if picture.shape[1] == width:
        return picture
    height = round(picture.shape[0] * width / picture.shape[1])
    return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
