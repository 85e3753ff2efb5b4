"""Filling by morphology: IP-Basic (Ku, Harakeh and Waslander 2018) as published, and made free of units.

Near surfaces win: depth is turned round (far minus near) so that dilation spreads the nearer value. Small kernels
first, then larger ones until nothing is empty, then a median and an edge-preserving blur of what was filled.
"""

from __future__ import annotations

import cv2
import numpy as np

from omnidc.evaluation.baselines.interpolation import nearest
from omnidc.evaluation.sample import Depth, Image, Intrinsics

DIAMOND = np.array([[abs(y) + abs(x) <= 2 for x in range(-2, 3)] for y in range(-2, 3)], np.uint8)


def square(size: int) -> np.ndarray:
    return np.ones((size, size), np.uint8)


def morphology(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
    """Dilate, close, fill with growing kernels, smooth; measured pixels keep their value."""
    measured = sparse > 0
    # The offset keeps every measurement, the farthest one too, above the 0 that means empty.
    top = 1.1 * float(sparse.max())
    near = np.where(measured, top - sparse, 0).astype(np.float32)
    near = np.asarray(cv2.morphologyEx(cv2.dilate(near, DIAMOND), cv2.MORPH_CLOSE, square(5)), np.float32)
    size = 7
    while (near == 0).any():
        empty = near == 0
        near[empty] = cv2.dilate(near, square(size))[empty]
        size = min(2 * size + 1, 2 * max(near.shape) + 1)
    typical = float(np.median(sparse[measured]))
    smooth = cv2.bilateralFilter(cv2.medianBlur(near, 5), d=5, sigmaColor=0.05 * typical, sigmaSpace=2.0)
    return np.where(measured, sparse, np.maximum(top - smooth, float(sparse[measured].min()))).astype(np.float32)


IP_BASIC_FARTHEST = 100.0  # meters; what depth is subtracted from
IP_BASIC_EMPTY = 0.1  # meters; nearer is no measurement


def ip_basic(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
    """Run IP-Basic as published, for depth in meters: diamond 5 × 5, closing 5 × 5, fills 7 × 7, 31 × 31.

    Columns are extended to the top of the image; smoothing is its bilateral filter. The original leaves pixels beyond
    the largest kernel empty; here they take the nearest measurement. Measured pixels are smoothed like all others.
    """
    near = np.where(sparse > IP_BASIC_EMPTY, IP_BASIC_FARTHEST - sparse, 0).astype(np.float32)
    near = np.asarray(cv2.morphologyEx(cv2.dilate(near, DIAMOND), cv2.MORPH_CLOSE, square(5)), np.float32)
    near = np.where(near < IP_BASIC_EMPTY, cv2.dilate(near, square(7)), near)
    rows = np.argmax(near > IP_BASIC_EMPTY, axis=0)  # the highest filled pixel of each column
    above = np.arange(near.shape[0])[:, None] < rows
    near = np.where(above, near[rows, np.arange(near.shape[1])], near)
    near = np.where(near < IP_BASIC_EMPTY, cv2.dilate(near, square(31)), near)
    smooth = cv2.bilateralFilter(cv2.medianBlur(near, 5), d=5, sigmaColor=1.5, sigmaSpace=2.0)
    filled = (smooth > IP_BASIC_EMPTY) & (smooth < IP_BASIC_FARTHEST)
    return np.where(filled, IP_BASIC_FARTHEST - smooth, nearest(image, sparse)).astype(np.float32)
