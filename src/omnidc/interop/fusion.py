"""One cloud from many posed depth maps, keeping only what the views agree on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.geometry.camera import unproject
from omnidc.geometry.cloud import Cloud, voxel_downsample
from omnidc.geometry.rasterize import depth_at
from omnidc.geometry.surface import depth_normals, surface_mask
from omnidc.interop.views import PosedView, common_unit
from omnidc.io.images import read_image
from omnidc.io.pointcloud import write_points

MAX_POINTS = 5_000_000  # pixels that are fused: about 2 GB at the peak
CACHE_BYTES = 512 * 2**20  # of neighbors' depth maps that are kept for the next views
DENSE_POINTS = 200_000  # of a model that splatting tools start from


def consistent_mask(
    points: npt.NDArray[np.float64],  # [N, 3], world
    depth: npt.NDArray[np.float32],  # [H, W], of the other view
    K: npt.NDArray[np.float64],
    pose: npt.NDArray[np.float64],  # camera to world
    tolerance: float,
) -> npt.NDArray[np.bool_]:
    """Return which points lie at the other view's depth, |z − D(u, v)| ≤ tolerance · D(u, v)."""
    R, t = pose[:3, :3], pose[:3, 3]
    local = (points - t) @ R  # rows: Rᵀ (x − t)
    other = depth_at(local, K, depth)
    return np.asarray((other > 0) & (np.abs(local[:, 2] - other) <= tolerance * other))


class HasPose(Protocol):
    """Anything that stands somewhere."""

    @property
    def pose(self) -> npt.NDArray[np.float64]:
        """[4, 4], camera to world."""


def neighbors(views: Sequence[HasPose], index: int, count: int) -> list[int]:
    """Return the other views nearest in place and direction: those that see the same and can agree or object."""
    centers = np.array([view.pose[:3, 3] for view in views])
    axes = np.array([view.pose[:3, 2] for view in views])
    offset = np.linalg.norm(centers - centers[index], axis=1)
    size = float(np.median(offset)) or 1.0
    turn = 1.0 - axes @ axes[index]
    order = np.argsort(offset / size + 2.0 * turn, kind="stable")
    return [int(i) for i in order if i != index and turn[i] < 1.0][:count]


def fuse(
    views: list[PosedView],
    tolerance: float = 0.03,  # relative difference of depth that still counts as agreement
    agree: int = 2,  # other views that must agree
    neighbor_count: int = 10,
    stride: int = 1,  # take every n-th pixel in both directions
    keep_flying_pixels: bool = False,
    progress: Callable[[str], object] = lambda name: None,
) -> Cloud:
    """Merge the views' depth maps; a pixel stays when at least `agree` other views see its point at its depth."""
    if len(views) <= agree:
        raise InputError(
            f"Fusing needs at least {agree + 1} posed frames, so that {agree} others can agree with each, "
            f"but there are {len(views)}."
        )
    common_unit(views)

    largest = max(view.size[0] * view.size[1] for view in views) * np.dtype(np.float32).itemsize

    @lru_cache(maxsize=max(2, min(2 * neighbor_count + 2, CACHE_BYTES // largest)))
    def depth_of(i: int) -> npt.NDArray[np.float32]:
        return views[i].depth()

    parts: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.uint8], npt.NDArray[np.float32]]] = []
    uncertainties: list[npt.NDArray[np.float32]] = []
    for i, view in enumerate(views):
        depth = depth_of(i)
        keep = ((depth > 0) if keep_flying_pixels else surface_mask(depth))[::stride, ::stride]
        depth, K = depth[::stride, ::stride], np.diag([1 / stride, 1 / stride, 1.0]) @ view.intrinsics
        R, t = view.pose[:3, :3], view.pose[:3, 3]
        points = unproject(depth, K)[keep].astype(np.float64) @ R.T + t
        votes = np.zeros(len(points), dtype=np.int64)
        for j in neighbors(views, i, neighbor_count):
            other = views[j]
            votes += consistent_mask(points, depth_of(j), other.intrinsics, other.pose, tolerance)
        good = votes >= agree
        normals = depth_normals(depth, K)[keep][good] @ R.T
        picture = read_image(view.image, apply_exif=False)[::stride, ::stride]
        parts.append((points[good], picture[keep][good], normals.astype(np.float32)))
        if view.uncertainty is not None:
            uncertainties.append(view.uncertainty()[::stride, ::stride][keep][good])
        progress(view.name)
    return Cloud(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
        np.concatenate(uncertainties) if len(uncertainties) == len(views) else None,
    )


def stride_for(
    views: list[PosedView],
    max_points: int = MAX_POINTS,
) -> int:
    """Return the stride at which the pixels of all views are at most `max_points`, so that memory is bounded."""
    total = sum(view.size[0] * view.size[1] for view in views)
    return max(1, int(np.ceil((total / max_points) ** 0.5)))


def downsample_to(cloud: Cloud, count: int, voxel: float) -> Cloud:
    """Thin a cloud with growing voxels, from `voxel` on, until it has at most `count` points."""
    while True:
        thinned = voxel_downsample(cloud, voxel)
        if len(thinned.points) <= count:
            return thinned
        voxel *= 1.3


def dense_cloud(
    views: list[PosedView],
    count: int = DENSE_POINTS,
    tolerance: float = 0.03,  # relative difference of depth that counts as agreement
    progress: Callable[[str], object] = lambda name: None,
) -> tuple[Cloud, npt.NDArray[np.bool_]]:
    """Return a cloud of at most `count` points that at least two other views confirm, and who sees them, [P, V]."""
    cloud = fuse(views, tolerance, stride=stride_for(views), progress=progress)
    if len(cloud.points):
        cloud = downsample_to(cloud, count, pixel_size(views))
    seen = [consistent_mask(cloud.points, view.depth(), view.intrinsics, view.pose, tolerance) for view in views]
    table = np.stack(seen, axis=1)
    kept = table.sum(axis=1) >= 2  # the mean of a voxel may lie where no view has a surface
    return Cloud(cloud.points[kept], cloud.colors[kept], cloud.normals[kept]), table[kept]


def pixel_size(views: list[PosedView]) -> float:
    """Return the median extent of a pixel on its surface, z / f: a natural voxel."""
    sizes = []
    for view in views[:20]:
        depth = view.depth()[::8, ::8]
        if (depth > 0).any():
            sizes.append(float(np.median(depth[depth > 0])) / view.intrinsics[0, 0])
    return float(np.median(sizes))


def write_cloud(path: Path, cloud: Cloud) -> None:
    """Write a fused cloud as PLY."""
    write_points(path, cloud.points, cloud.colors, cloud.normals, cloud.uncertainty)
