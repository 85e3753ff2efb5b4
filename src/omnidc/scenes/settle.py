"""Letting things fall onto each other without a physics engine.

A thing is dropped straight down onto a height field until it touches. Things so placed neither float nor intersect
(to the field's resolution); they may lean less than in life.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Mesh, Rng

SAMPLES = 6000
CONTACT = 0.08  # of a thing's height: what is nearer than this to the ground bears it
FOOT = 0.25  # of a thing's width and depth: what bears it must be at least so wide


def surface_points(rng: Rng, shape: Mesh, count: int = SAMPLES) -> npt.NDArray[np.float64]:
    """Return the points [N, 3] spread evenly over a mesh, its vertices included."""
    quads = shape.quads
    triangles = np.concatenate([shape.triangles, quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    a, b, c = (shape.vertices[triangles[:, k]].astype(np.float64) for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    if area.sum() <= 0:
        return shape.vertices.astype(np.float64)
    picked = rng.choice(len(triangles), size=count, p=area / area.sum())
    u, v = rng.random((2, count, 1))
    fold = u + v > 1
    u, v = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    inner = a[picked] + u * (b[picked] - a[picked]) + v * (c[picked] - a[picked])
    return np.concatenate([inner, shape.vertices[:: max(1, len(shape.vertices) // count)]])


@dataclass
class HeightField:
    """Heights over a square of side 2 · `reach`, centered on the origin."""

    reach: float
    heights: npt.NDArray[np.float64]

    @classmethod
    def flat(cls, reach: float, cells: int = 128) -> HeightField:
        """Make a floor at height 0."""
        return cls(reach, np.zeros((cells, cells)))

    def cells(self, points: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the flat cell numbers [N] of points, and which of them are over the field."""
        count = self.heights.shape[0]
        index = np.floor((points[:, :2] + self.reach) / (2 * self.reach) * count).astype(np.intp)
        over = ((index >= 0) & (index < count)).all(axis=1)
        index = np.clip(index, 0, count - 1)
        return index[:, 1] * count + index[:, 0], over

    def rest(self, points: npt.NDArray[np.float64]) -> tuple[float, bool] | None:
        """Shift in z that lets a cloud of surface points touch the field, and whether it would stay there.

        It stays when what nearly touches lies on both sides of its middle, in x and in y, and is no mere point. None
        when any of it hangs over the border.
        """
        cell, over = self.cells(points)
        if not over.all():
            return None
        field = self.heights.ravel()
        under = np.full(field.size, np.inf)
        np.minimum.at(under, cell, points[:, 2])
        hit = np.flatnonzero(np.isfinite(under))
        gap = under[hit] - field[hit]
        shift = -float(gap.min())
        touching = hit[gap + shift < CONTACT * np.ptp(points[:, 2])]
        count = self.heights.shape[0]
        middle, _ = self.cells(points.mean(axis=0, keepdims=True))
        feet = FOOT * np.ptp(points[:, :2], axis=0) * count / (2 * self.reach)  # in cells
        stable = all(
            half.min() <= center <= half.max() and np.ptp(half) + 1 >= foot
            for half, center, foot in (
                (touching % count, middle[0] % count, feet[0]),
                (touching // count, middle[0] // count, feet[1]),
            )
        )
        return shift, stable

    def add(self, points: npt.NDArray[np.float64]) -> None:
        """Make things that came to rest part of the field."""
        cell, _ = self.cells(points)
        field = self.heights.ravel()
        np.maximum.at(field, cell, points[:, 2])
        self.heights = field.reshape(self.heights.shape)
