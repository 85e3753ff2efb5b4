"""Point clouds with colors and normals, and thinning them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError


@dataclass
class Cloud:
    """Points in one frame, the world's or a camera's."""

    points: npt.NDArray[np.float64]  # [N, 3]
    colors: npt.NDArray[np.uint8]  # [N, 3]
    normals: npt.NDArray[np.float32]  # [N, 3], unit
    uncertainty: npt.NDArray[np.float32] | None = None  # [N], Laplace scale, unit of the points


def voxel_downsample(
    cloud: Cloud,
    voxel: float,  # edge length, unit of the points
) -> Cloud:
    """Average the points of each cell of a grid; overlapping views give each surface many times."""
    if not voxel > 0:
        raise InputError(f"The voxel size must be positive, not {voxel:g}.")
    if not len(cloud.points):
        return cloud
    places = np.floor((cloud.points - cloud.points.min(axis=0)) / voxel)
    if float(np.prod(places.max(axis=0) + 1)) > 2.0**62:
        raise InputError(f"A voxel of {voxel:g} is too small for a cloud of this extent; choose a larger one.")
    cells = places.astype(np.int64)
    extent = cells.max(axis=0) + 1
    key = (cells[:, 0] * extent[1] + cells[:, 1]) * extent[2] + cells[:, 2]
    _, member, count = np.unique(key, return_inverse=True, return_counts=True)

    def mean(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
        columns = np.asarray(values, dtype=np.float64).reshape(len(values), -1).T
        sums = [np.bincount(member, column, minlength=len(count)) for column in columns]
        return np.stack(sums, axis=1) / count[:, None]

    normals = mean(cloud.normals)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    uncertainty = None if cloud.uncertainty is None else mean(cloud.uncertainty)[:, 0].astype(np.float32)
    return Cloud(
        mean(cloud.points), np.rint(mean(cloud.colors)).astype(np.uint8), normals.astype(np.float32), uncertainty
    )
