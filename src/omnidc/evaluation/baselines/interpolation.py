"""Interpolation of the points alone; the photograph is not used. Depth is interpolated in its logarithm."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.ndimage import distance_transform_edt
from scipy.spatial import QhullError, cKDTree

from omnidc.evaluation.sample import Depth, Image, Intrinsics


def nearest(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
    """Give every pixel the depth of the nearest measured one."""
    rows, columns = distance_transform_edt(sparse <= 0, return_distances=False, return_indices=True)
    return np.asarray(sparse[rows, columns], np.float32)


def linear(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
    """Interpolate log depth linearly on the Delaunay triangles of the points; take the nearest outside their hull."""
    depth = nearest(image, sparse)
    ys, xs = np.nonzero(sparse > 0)
    if len(ys) < 4:
        return depth
    try:
        interpolator = LinearNDInterpolator(np.c_[ys, xs], np.log(sparse[ys, xs]))
    except QhullError:  # all points on one line
        return depth
    height, width = sparse.shape
    inside = interpolator(*np.mgrid[:height, :width])
    return np.where(np.isfinite(inside), np.exp(inside), depth).astype(np.float32)


def idw(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None, neighbors: int = 8) -> Depth:
    """Weight by inverse distance (Shepard): mean log depth of the nearest points, weighted by 1 / distance²."""
    measured = sparse > 0
    points = np.argwhere(measured)
    k = min(neighbors, len(points))
    pixels = np.argwhere(~measured)
    depth = sparse.copy()
    distance, index = cKDTree(points).query(pixels, k=k)
    weight = 1.0 / np.square(np.reshape(distance, (len(pixels), k)))
    log_points = np.log(sparse[measured].astype(np.float64))
    mean = np.sum(weight * log_points[np.reshape(index, (len(pixels), k))], axis=1) / weight.sum(axis=1)
    depth[~measured] = np.exp(mean)
    return depth
