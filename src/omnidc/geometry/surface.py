"""Surfaces of a depth map: depth edges, flying pixels, normals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.geometry.camera import unproject

Array = npt.NDArray[Any]
Map = npt.NDArray[np.float32]

EDGE_RATIO = 1.05  # of the depths of two neighbors

# Above it a pixel counts as sky: 0.3 % of the measured pixels of photographs, and 0.1 % above 0.7.
SKY_PROBABILITY = 0.5


def depth_edges(
    depth: npt.NDArray[np.floating],  # [H, W], 0 = unknown
    ratio: float = EDGE_RATIO,
) -> npt.NDArray[np.bool_]:
    """Return [H, W]: True where one of the four neighbors is nearer or farther by more than `ratio`, both known."""
    known = depth > 0
    log = np.log(np.where(known, depth, 1))
    edge = np.zeros_like(known)
    for axis in (0, 1):
        here, there = (np.s_[1:], np.s_[:-1]) if axis == 0 else (np.s_[:, 1:], np.s_[:, :-1])
        jump = (np.abs(log[here] - log[there]) > math.log(ratio)) & known[here] & known[there]
        edge[here] |= jump
        edge[there] |= jump
    return edge


# Largest ratio of depths within 3×3 pixels of one surface that is not a plane.
FLYING_RATIO = 1.06


def surface_mask(
    depth: Array,  # [H, W]
    ratio: float = FLYING_RATIO,
) -> npt.NDArray[np.bool_]:
    """Return True for pixels of a surface, False for flying pixels between two surfaces and where there is no depth.

    A flying pixel is one where depth varies by more than `ratio` within 3×3 and is not planar. On any plane 1 / depth
    is linear in the pixel, so that a floor seen at a grazing angle varies a lot and still stays.
    """
    valid = np.isfinite(depth) & (depth > 0)
    inverse = np.where(valid, 1 / np.where(valid, depth, 1), 0).astype(np.float32)
    low, high = _extremes(inverse, 1)
    padded = np.pad(inverse, 1, mode="reflect", reflect_type="odd") if min(depth.shape) > 1 else np.pad(inverse, 1)
    center = padded[1:-1, 1:-1]
    bend = np.zeros_like(center)
    if min(depth.shape) > 1:
        across = np.abs(padded[1:-1, :-2] - 2 * center + padded[1:-1, 2:])
        along = np.abs(padded[:-2, 1:-1] - 2 * center + padded[2:, 1:-1])
        bend = np.maximum(across, along)
    bent = _extremes(np.where(bend > 0.5 * (ratio - 1) * np.maximum(low, 1e-30), 1.0, 0.0), 1)[1] > 0
    varies = high > ratio * low
    return valid & ~(varies & bent)


def kept_pixels(depth: Array, keep_flying_pixels: bool) -> npt.NDArray[np.bool_]:
    """Return the pixels that become points: those of surfaces, or (`keep_flying_pixels`) all that have a depth."""
    return np.isfinite(depth) & (depth > 0) if keep_flying_pixels else surface_mask(depth)


def _extremes(values: Array, radius: int) -> tuple[Array, Array]:
    """Return the smallest and largest value in a square window."""
    import cv2

    kernel = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    values = np.ascontiguousarray(values, np.float32)
    return cv2.erode(values, kernel), cv2.dilate(values, kernel)


def drop_flying_pixels(
    depth: Map,  # [H, W], 0 = none
    tolerance: float = 0.03,
) -> Map:
    """Remove flying pixels between two surfaces, and single speckles, from a dense depth map.

    A pixel is supported from a side when the neighbor there has its inverse depth, or when the line through the
    two neighbors there (inverse depth of a plane is affine) leads to it, within `tolerance`. A pixel that no side
    supports in a row or in a column is dropped: on a slanted plane both sides agree, at a clean edge one does, and
    a pixel between fore- and background has none.
    """
    inverse = np.zeros_like(depth, dtype=np.float64)
    np.divide(1.0, depth, out=inverse, where=depth > 0)

    def shifted(array: npt.NDArray[np.float64], dy: int, dx: int) -> npt.NDArray[np.float64]:
        out = np.zeros_like(array)
        height, width = array.shape
        out[max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)] = array[
            max(-dy, 0) : height + min(-dy, 0), max(-dx, 0) : width + min(-dx, 0)
        ]
        return out

    def supported(dy: int, dx: int) -> npt.NDArray[np.bool_]:
        one, two = shifted(inverse, dy, dx), shifted(inverse, 2 * dy, 2 * dx)
        limit = tolerance * inverse
        flat = (one > 0) & (np.abs(inverse - one) <= limit)
        plane = (one > 0) & (two > 0) & (np.abs(inverse - (2 * one - two)) <= limit)
        return flat | plane

    in_row = supported(0, 1) | supported(0, -1)
    in_column = supported(1, 0) | supported(-1, 0)
    return np.where(in_row & in_column, depth, 0).astype(np.float32)


def depth_normals(
    depth: npt.NDArray[np.float32],  # [H, W], 0 = none
    K: npt.NDArray[np.float64],  # [3, 3]
) -> npt.NDArray[np.float32]:
    """Return unit normals [H, W, 3] in the camera frame, facing the camera: cross product of central differences.

    Beside pixels without depth, and at the border, differences are one-sided.
    """
    points = unproject(depth, K).astype(np.float64)
    normal = np.cross(_differences(points, depth > 0, 0), _differences(points, depth > 0, 1))
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    # Where the surface has no extent (length 0) the viewing ray stands in.
    view = -points / np.maximum(np.linalg.norm(points, axis=-1, keepdims=True), 1e-12)
    normal = np.where(length > 0, normal / np.maximum(length, 1e-300), view)
    facing = np.sign((normal * view).sum(axis=-1, keepdims=True))
    return np.asarray(normal * np.where(facing == 0, 1, facing), dtype=np.float32)


def _differences(
    points: npt.NDArray[np.float64],  # [H, W, 3]
    valid: npt.NDArray[np.bool_],  # [H, W]
    axis: int,
) -> npt.NDArray[np.float64]:
    """Return the mean of the differences to the valid neighbors before and after, [H, W, 3]; 0 without any."""
    points, valid = np.moveaxis(points, axis, 0), np.moveaxis(valid, axis, 0)
    step = np.where((valid[1:] & valid[:-1])[..., None], points[1:] - points[:-1], 0)
    count = np.zeros(valid.shape)
    total = np.zeros_like(points)
    for part in (np.s_[:-1], np.s_[1:]):
        total[part] += step
        count[part] += valid[1:] & valid[:-1]
    return np.moveaxis(total / np.maximum(count, 1)[..., None], 0, axis)
