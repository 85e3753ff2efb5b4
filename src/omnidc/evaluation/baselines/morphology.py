"""Filling by morphology, in the manner of IP-Basic (Ku, Harakeh and Waslander 2018), made free of units.

Near surfaces win: depth is turned round (far minus near) so that dilation spreads the nearer value. Small kernels
first, then larger ones until nothing is empty, then a median and an edge-preserving blur of what was filled.
"""

from __future__ import annotations

import cv2
import numpy as np

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
