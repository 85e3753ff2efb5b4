"""Surface normals from depth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.outputs.pointcloud import unproject


def depth_normals(
    depth: npt.NDArray[np.float32],  # [H, W] > 0
    K: npt.NDArray[np.float64],  # [3, 3]
) -> npt.NDArray[np.float32]:
    """Return unit normals [H, W, 3] in the camera frame, facing the camera: cross product of central differences."""
    points = unproject(depth, K).astype(np.float64)
    down, across = np.gradient(points, axis=(0, 1))
    normal = np.cross(down, across)
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    # Where the surface has no extent (length 0) the viewing ray stands in.
    view = -points / np.maximum(np.linalg.norm(points, axis=-1, keepdims=True), 1e-12)
    normal = np.where(length > 0, normal / np.maximum(length, 1e-300), view)
    facing = np.sign((normal * view).sum(axis=-1, keepdims=True))
    return np.asarray(normal * np.where(facing == 0, 1, facing), dtype=np.float32)
