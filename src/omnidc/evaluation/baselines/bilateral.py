"""Filling guided by the photograph: a pyramid of bilateral grids (Chen, Paris and Durand 2007).

Log depth is splatted into a grid over x, y and luminance, blurred there, and read back; pixels of the same shade
share depth, pixels across a brightness edge do not. Coarser grids reach farther and count only where finer ones have
nothing.
"""

from __future__ import annotations

import cv2
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from omnidc.evaluation.baselines.interpolation import nearest
from omnidc.evaluation.sample import Depth, Image, Intrinsics

SHADES = 12  # cells over the range of luminance
FALLOFF = 1e-3  # weight of each level relative to the next finer one


def bilateral(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
    """Return the mean log depth of the points that are near in position and shade; measured pixels keep their value."""
    height, width = sparse.shape
    shade = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float64) / 255 * (SHADES - 1)
    ys, xs = np.nonzero(sparse > 0)
    values = np.log(sparse[ys, xs].astype(np.float64))
    middle = float(np.median(values))  # blurring what is left keeps rounding small in every unit
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    total, weight = np.zeros(sparse.shape), np.zeros(sparse.shape)
    cell, share = 4.0, 1.0
    while cell <= 2 * max(height, width):
        shape = (int((height - 1) / cell) + 2, int((width - 1) / cell) + 2, SHADES)
        at = (
            np.rint(ys / cell).astype(int),
            np.rint(xs / cell).astype(int),
            np.rint(shade[ys, xs]).astype(int),
        )
        grid = np.zeros((2, *shape))
        np.add.at(grid[0], at, values - middle)
        np.add.at(grid[1], at, 1.0)
        where = (rows / cell, columns / cell, shade)
        sums, counts = (
            map_coordinates(gaussian_filter(g, 1.0, mode="constant"), where, order=1, mode="nearest") for g in grid
        )
        total += share * sums
        weight += share * counts
        cell, share = 2 * cell, share * FALLOFF
    filled = np.exp(total / np.maximum(weight, 1e-300) + middle)
    filled = np.where(weight > 1e-200, filled, nearest(image, sparse))
    filled[ys, xs] = sparse[ys, xs]
    return filled.astype(np.float32)
