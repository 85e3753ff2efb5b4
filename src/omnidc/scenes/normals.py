"""Surface normals of an exact depth map.

Cycles' own normals are means over a pixel and bent by bump maps, which depth knows nothing of; these agree with depth.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Array

STEPS = 63  # normals are rounded to 1/63 (half a degree), so that flat walls take no space
MAX_JUMP = 0.1  # relative difference of inverse depth between neighbors that still are one surface


def _step(
    inverse: npt.NDArray[np.float64], points: npt.NDArray[np.float64], axis: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return differences of points to the neighbor that is more likely on the same surface, and whether there is one.

    On a plane inverse depth is linear in the pixels, so the smaller step of it is the safer one.
    """
    pad = [(0, 0), (0, 0)]
    pad[axis] = (0, 1)
    jump = np.pad(np.abs(np.diff(inverse, axis=axis)), pad, constant_values=np.inf)
    ahead = np.pad(np.diff(points, axis=axis), [*pad, (0, 0)])
    behind_jump, behind = np.roll(jump, 1, axis=axis), np.roll(ahead, 1, axis=axis)
    forward = jump <= behind_jump
    best = np.where(forward, jump, behind_jump)
    return np.where(forward[..., None], ahead, behind), best < MAX_JUMP * inverse


def normals_of(depth: Array, intrinsics: npt.NDArray[np.float64]) -> Array:
    """Return unit normals [H, W, 3] in camera axes, toward the camera; 0 where depth is unknown or too broken."""
    height, width = depth.shape
    known = depth > 0
    inverse = np.where(known, 1 / np.where(known, depth, 1.0).astype(np.float64), 1e9)
    v, u = np.mgrid[0:height, 0:width]
    rays = np.stack([u, v, np.ones_like(u)], axis=-1) @ np.linalg.inv(intrinsics).T
    points = rays * depth[..., None].astype(np.float64)
    across, across_known = _step(inverse, points, 1)
    down, down_known = _step(inverse, points, 0)
    normal = np.cross(down, across)
    length = np.linalg.norm(normal, axis=2, keepdims=True)
    sure = known & across_known & down_known & (length[..., 0] > 0)
    normal = normal / np.maximum(length, 1e-30)
    normal = np.where((normal * rays).sum(axis=2, keepdims=True) > 0, -normal, normal)
    return np.where(sure[..., None], np.rint(normal * STEPS) / STEPS, 0).astype(np.float32)
