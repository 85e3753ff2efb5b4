"""Filling the holes of a warped depth map by morphology, nearest surface first (NNfill, after IP-Basic)."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

EMPTY = 1e-4  # smaller values count as holes

DIAMOND_5 = np.array([[0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0]], np.uint8)


def full(size: int) -> NDArray[np.uint8]:
    return np.ones((size, size), np.uint8)


def nnfill(
    depth: NDArray[np.float32],  # [H, W], in units of about 1 (the smoothing is not scale-free), 0 = hole
    farthest: float | None = None,
    regions: bool = True,
) -> NDArray[np.float32]:
    """Holes of `depth` filled from their surroundings; known pixels stay as they are.

    Works on the inverted depth `farthest` − depth, so that dilation spreads the nearest surface; `farthest` defaults to
    the largest depth, as in the release, whose pixels then count as holes themselves until they are restored at the
    end. Holes up to about 40 pixels wide are filled; with `regions` the larger ones get the mean of their rim.
    """
    depth = np.asarray(depth, np.float32)
    known = depth > EMPTY
    if not known.any():
        return depth.copy()
    top = np.float32(depth.max() if farthest is None else farthest)
    x = np.where(known, top - depth, depth)
    x = cv2.dilate(x, DIAMOND_5)
    x = cv2.morphologyEx(x, cv2.MORPH_CLOSE, full(5))
    for size in (7, 31):
        empty = x < EMPTY
        if empty.any():
            x = np.where(empty, cv2.dilate(x, full(size)), x)
    x = cv2.medianBlur(x, 5)
    x = cv2.bilateralFilter(x, 5, 1.5, 2.0)
    x = np.where(x > EMPTY, top - x, x)
    if regions:
        x = fill_regions(x)
    return np.where(known, depth, x)


def fill_regions(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each connected hole, widened by 3 pixels, gets the mean of the 3 pixels around that; failing these, of all."""
    count, labels, boxes, _ = cv2.connectedComponentsWithStats((x < EMPTY).astype(np.uint8), connectivity=4)
    x = x.copy()
    h, w = x.shape
    for label in range(1, count):
        left, top, width, height = boxes[label, :4]
        window = np.s_[max(top - 6, 0) : min(top + height + 6, h), max(left - 6, 0) : min(left + width + 6, w)]
        hole = (labels[window] == label).astype(np.uint8)
        inner = cv2.dilate(hole, full(7)) > 0
        ring = x[window][(cv2.dilate(hole, full(13)) > 0) & ~inner]
        ring = ring[ring > EMPTY]
        x[window][inner] = ring.mean() if ring.size else x[x > EMPTY].mean() if (x > EMPTY).any() else 0
    return x
