"""Planes in a sparse depth map: robust fits to many windows of the image.

The inverse depth of a plane is affine in the pixel: 1/z = a + b x + c y. Distances along the ray r = s z with
s = √(1 + x² + y²) (normalized coordinates) break this law, which is how they are recognized.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.folds import Map

Values = npt.NDArray[np.float64]

WINDOW_POINTS = 300  # of a window, drawn at random: enough for a fit
MIN_WINDOW = 60
HYPOTHESES = 60  # planes through three random points that are tried in each window
TOLERANCE = 0.01  # relative deviation of inverse depth within which a point lies on the plane
MIN_INLIERS = 0.4  # of a window's points: below that there is no plane
IRLS_STEPS = 6


@dataclass(frozen=True)
class Points:
    """Measurements with their normalized camera coordinates, [N] each."""

    x: Values  # (u − cx) / fx
    y: Values  # (v − cy) / fy
    depth: Values

    @classmethod
    def of(cls, sparse: Map, intrinsics: Values) -> Points:
        """Collect the measured pixels of a map [H, W] with intrinsics [3, 3]."""
        rows, columns = np.nonzero(sparse > 0)
        y = (rows - intrinsics[1, 2]) / intrinsics[1, 1]
        x = (columns - intrinsics[0, 2] - intrinsics[0, 1] * y) / intrinsics[0, 0]
        return cls(x, y, sparse[rows, columns].astype(np.float64))

    def take(self, chosen: npt.NDArray[np.intp]) -> Points:
        return Points(self.x[chosen], self.y[chosen], self.depth[chosen])

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Plane:
    """1/z = a + b x + c y: the plane b X + c Y + a Z = 1 in camera coordinates."""

    a: float
    b: float
    c: float
    inliers: int
    cost: float  # mean of min(|deviation| / tolerance, 1) over the points: 0 = all on the plane

    @property
    def distance(self) -> float:
        """Distance of the plane from the camera, unit of the depth."""
        return float(1.0 / np.sqrt(self.a**2 + self.b**2 + self.c**2))

    @property
    def normal(self) -> Values:
        """Unit normal [3] that points away from the camera."""
        vector = np.array([self.b, self.c, self.a])
        return np.asarray(vector / np.linalg.norm(vector))


def fit_plane(points: Points, rng: np.random.Generator, tolerance: float = TOLERANCE) -> Plane | None:
    """Fit a plane to most of the points: random triples, then reweighted least squares (Geman–McClure)."""
    if len(points) < 3:
        return None
    q = 1.0 / points.depth
    A = np.stack([np.ones(len(points)), points.x, points.y], axis=1)
    index = rng.integers(len(points), size=(HYPOTHESES, 3))
    triples, values = A[index], q[index]  # [T, 3, 3], [T, 3]
    regular = np.abs(np.linalg.det(triples)) > 1e-9
    if not regular.any():
        return None
    planes = np.linalg.solve(triples[regular], values[regular][..., None])[..., 0]
    deviation = np.abs(planes @ A.T - q) / q
    cost = np.minimum(deviation / tolerance, 1).mean(axis=1)
    plane = planes[int(np.argmin(cost))]
    for _ in range(IRLS_STEPS):
        relative = (A @ plane - q) / q
        weight = 1 / (1 + (relative / tolerance) ** 2) ** 2 / q**2
        normal_matrix = A.T @ (weight[:, None] * A)
        plane = np.linalg.solve(normal_matrix + 1e-12 * np.trace(normal_matrix) * np.eye(3), A.T @ (weight * q))
    deviation = np.abs(A @ plane - q) / q
    inliers, cost_of_best = int((deviation < tolerance).sum()), float(np.minimum(deviation / tolerance, 1).mean())
    return Plane(float(plane[0]), float(plane[1]), float(plane[2]), inliers, cost_of_best)


def windows(points: Points, rng: np.random.Generator) -> list[npt.NDArray[np.intp]]:
    """Return the indices of the points of overlapping windows: thirds, halves and the whole of the covered image."""
    low_x, high_x = float(points.x.min()), float(points.x.max())
    low_y, high_y = float(points.y.min()), float(points.y.max())
    found = []
    for parts in (1, 2, 3):
        for i in range(2 * parts - 1):
            for j in range(2 * parts - 1):
                left, top = low_x + (high_x - low_x) * i / (2 * parts), low_y + (high_y - low_y) * j / (2 * parts)
                right, bottom = left + (high_x - low_x) / parts, top + (high_y - low_y) / parts
                inside = np.flatnonzero(
                    (points.x >= left) & (points.x <= right) & (points.y >= top) & (points.y <= bottom)
                )
                if len(inside) >= MIN_WINDOW:
                    found.append(
                        rng.choice(inside, WINDOW_POINTS, replace=False) if len(inside) > WINDOW_POINTS else inside
                    )
    return found
