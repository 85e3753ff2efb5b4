"""Filling the holes of a warped depth map by morphology: ours, and the release's (NNfill, after IP-Basic)."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

EMPTY = 1e-4  # smaller values count as holes

DIAMOND_5 = np.array([[0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0]], np.uint8)


def full(size: int) -> NDArray[np.uint8]:
    return np.ones((size, size), np.uint8)


def nearest_within(depth: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """Return the smallest known depth of each `size` × `size` neighborhood; 0 where nothing is known."""
    near = cv2.erode(np.where(depth > 0, depth, np.float32(np.inf)), full(size))
    return np.where(near <= depth.max(), near, np.float32(0)).astype(np.float32, copy=False)


def spread(
    depth: NDArray[np.float32],  # [H, W], any unit, 0 = hole
    background: bool,
) -> NDArray[np.float32]:
    """Close cracks of 1 or 2 pixels; wider holes get the nearest surface within 3, else 15 pixels of them
    (`background`: the farthest within 15). Only depths that exist; what is farther from anything known stays 0.
    """
    known = (depth > 0).astype(np.uint8)
    crack = (cv2.morphologyEx(known, cv2.MORPH_CLOSE, full(3)) > 0) & (depth == 0)
    x = np.where(crack, nearest_within(depth, 3), depth)
    if background:
        return np.where(x > 0, x, cv2.dilate(x, full(31)))
    for size in (7, 31):
        x = np.where(x > 0, x, nearest_within(x, size))
    return x


def nnfill(
    depth: NDArray[np.float32],  # [H, W], 0 = hole
    unit: float = 1.0,  # the smoothing is made for depths of about this size
) -> NDArray[np.float32]:
    """Fill as the release does: `spread` with smoothing, and voids beyond its reach filled with their rim's mean.

    Works on the inverted depth max − depth, so that dilation spreads the nearest surface. Its quirks: the farthest
    pixels count as holes until they are restored at the end, and the smoothing mixes the rim of a void with its zeros.
    """
    scaled = np.asarray(depth, np.float32) / np.float32(unit)
    known = scaled > EMPTY
    if not known.any():
        return depth.copy()
    top = scaled.max()
    x = np.where(known, top - scaled, scaled)
    x = cv2.dilate(x, DIAMOND_5)
    x = cv2.morphologyEx(x, cv2.MORPH_CLOSE, full(5))
    for size in (7, 31):
        x = np.where(x < EMPTY, cv2.dilate(x, full(size)), x)
    x = cv2.medianBlur(x, 5)
    x = cv2.bilateralFilter(x, 5, 1.5, 2.0)
    x = np.where(x > EMPTY, top - x, x)
    return np.where(known, depth, fill_regions(x) * np.float32(unit)).astype(np.float32, copy=False)


def fill_regions(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fill each connected hole, widened by 3 pixels, with the mean of the 3 pixels around; if none, of all."""
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
