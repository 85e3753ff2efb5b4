"""Points to start a splat from: a thinned, filtered cloud of the views' depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.geometry.camera import unproject
from omnidc.geometry.surface import surface_mask
from omnidc.interop.fusion import consistent_mask
from omnidc.splatting.view import SplatView

MAX_RELATIVE_B = 0.5  # quantile of b / depth within a view above which a pixel is left out
TOLERANCE = 0.03  # relative difference of depth that counts as agreement of two views


@dataclass(frozen=True)
class ColoredPoints:
    """Points in the world and their colors."""

    points: npt.NDArray[np.float64]  # [P, 3]
    colors: npt.NDArray[np.uint8]  # [P, 3]

    def __len__(self) -> int:
        return len(self.points)

    def joined(self, other: ColoredPoints) -> ColoredPoints:
        """Return both clouds as one."""
        return ColoredPoints(np.concatenate([self.points, other.points]), np.concatenate([self.colors, other.colors]))

    def sampled(self, count: int, rng: np.random.Generator) -> ColoredPoints:
        """Return `count` of the points, drawn at random."""
        chosen = rng.choice(len(self), count, replace=False)
        return ColoredPoints(self.points[chosen], self.colors[chosen])


def dense_points(
    views: Sequence[SplatView],
    count: int,  # points wanted, none from 0 down; fewer where fewer are confirmed
    rng: np.random.Generator,
) -> ColoredPoints:
    """Return points of the views' depth: on surfaces, with little uncertainty, confirmed by another view if it is seen.

    The sample is spread evenly over voxels, so that near surfaces, which many pixels show, do not take all points.
    """
    parts = [_confirmed(index, views) for index in range(len(views)) if views[index].depth is not None and count > 0]
    if not parts:
        return ColoredPoints(np.zeros((0, 3)), np.zeros((0, 3), np.uint8))
    points, colors = np.concatenate([p for p, _ in parts]), np.concatenate([c for _, c in parts])
    order = rng.permutation(len(points))
    points, colors = points[order], colors[order]
    chosen = _spread(points, count)
    return ColoredPoints(points[chosen], colors[chosen])


def _confirmed(index: int, views: Sequence[SplatView]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
    view = views[index]
    assert view.depth is not None
    keep = (view.depth > 0) & surface_mask(view.depth)
    if view.sky is not None:
        keep &= ~view.sky
    if view.uncertainty is not None and keep.any():
        relative = view.uncertainty / np.maximum(view.depth, 1e-12)
        keep &= relative <= np.quantile(relative[keep], MAX_RELATIVE_B)
    pose = view.camera.pose
    points = unproject(view.depth.astype(np.float64), view.camera.intrinsics)[keep] @ pose[:3, :3].T + pose[:3, 3]
    votes = np.zeros(len(points), dtype=np.int64)
    for k, other in enumerate(views):
        if k != index and other.depth is not None:
            camera = other.camera
            votes += consistent_mask(points, other.depth, camera.intrinsics, camera.pose, TOLERANCE)
    good = votes >= 1
    return points[good], view.image[keep][good]


def _spread(points: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Return the indices of at most `count` points, the first of each voxel; the voxel grows until they fit."""
    chosen = np.arange(len(points))
    if len(points) <= count:
        return chosen
    low = points.min(axis=0)
    voxel = float(np.linalg.norm(np.ptp(np.quantile(points, (0.05, 0.95), axis=0), axis=0))) / 2000
    while len(chosen) > count:
        _, first = np.unique(np.floor((points - low) / voxel).astype(np.int64), axis=0, return_index=True)
        chosen = np.sort(first)
        voxel *= 1.15
    return chosen
