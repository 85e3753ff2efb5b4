"""Simulated structure from motion on rendered views: corners, tracks by true depth, noisy triangulation.

Corners of each training view are followed into the others by the true depth (visible within 2 %), kept if enough views
show them, and triangulated anew from pixels with noise, so that their depth errs as that of SfM does. Real matching
misses many views that show a point; `Matching` says which.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.splatting.start import ColoredPoints
from omnidc.splatting.view import SplatView

CORNERS, QUALITY, MIN_DISTANCE = 600, 0.01, 3  # of `goodFeaturesToTrack`
SAME_DEPTH = 0.02  # relative
OUTLIERS = 0.01  # share
MAX_ERROR = 0.1  # of the depth; bundle adjustment removes worse points


@dataclass(frozen=True)
class Matching:
    """Which of the views that show a point match it; all of them by default."""

    chance: float = 1.0
    max_angle: float = 180.0  # degrees between the rays to the point and that of the view where it was found
    max_ratio: float = float("inf")  # of the distances
    pixel_noise: float = 0.5  # standard deviation


@dataclass(frozen=True)
class SparseModel:
    """What SfM knows: points, and the depth of those each view observes."""

    cloud: ColoredPoints
    sparse: list[npt.NDArray[np.float32]]  # [H, W] of each view, 0 = none


@dataclass(frozen=True)
class SimulatedModel(SparseModel):
    """A model of which it is known what each view shows."""

    is_observed: npt.NDArray[np.bool_]  # [P, V], matched
    is_visible: npt.NDArray[np.bool_]  # [P, V], truth


def simulate(views: list[SplatView], seed: int = 0, matching: Matching | None = None) -> SimulatedModel:
    """Return the sparse model of training views with true depth."""
    matching = matching or Matching()
    rng = np.random.default_rng(seed)
    least = 3 if len(views) >= 8 else 2
    observed, visible = [], []
    taken = [np.zeros(view.image.shape[:2], bool) for view in views]
    sparse = [np.zeros(view.image.shape[:2], np.float32) for view in views]
    points, colors = [], []
    for index, (view, mine) in enumerate(zip(views, taken)):
        assert view.gt_depth is not None
        K, pose = view.camera.intrinsics, view.camera.pose
        gray = cv2.cvtColor(view.image, cv2.COLOR_RGB2GRAY)
        found = cv2.goodFeaturesToTrack(gray, CORNERS, QUALITY, MIN_DISTANCE)
        for x, y in [] if found is None else found.reshape(-1, 2).round().astype(int):
            z = float(view.gt_depth[y, x])
            if z == 0 or mine[y, x]:
                continue
            true = pose[:3, :3] @ (np.linalg.inv(K) @ [x, y, 1.0] * z) + pose[:3, 3]
            shown = [(k, place) for k, other in enumerate(views) if (place := _observe(other, true)) is not None]
            seen = [one for one in shown if one[0] == index or _is_matched(views[one[0]], view, true, matching, rng)]
            if len(seen) < least:
                continue
            noise = rng.normal(0, matching.pixel_noise, (len(seen), 2))
            point = _triangulate([views[k] for k, _ in seen], [place for _, place in seen] + noise)
            if rng.random() < OUTLIERS:
                point = pose[:3, 3] + (point - pose[:3, 3]) * rng.uniform(0.7, 1.4)
            elif np.linalg.norm(point - true) > MAX_ERROR * z:
                continue
            points.append(point)
            colors.append(view.image[y, x])
            for table, which in ((observed, seen), (visible, shown)):
                table.append(np.isin(np.arange(len(views)), [k for k, _ in which]))
            for k, place in seen:
                column, row = place.round().astype(int)
                depth = float((views[k].camera.view @ np.append(point, 1))[2])
                if depth > 0:
                    sparse[k][row, column] = depth
                taken[k][max(0, row - 1) : row + 2, max(0, column - 1) : column + 2] = True
    return SimulatedModel(
        ColoredPoints(np.array(points).reshape(-1, 3), np.array(colors, np.uint8).reshape(-1, 3)),
        sparse,
        np.array(observed).reshape(-1, len(views)),
        np.array(visible).reshape(-1, len(views)),
    )


def _is_matched(
    view: SplatView, found: SplatView, point: npt.NDArray[np.float64], matching: Matching, rng: np.random.Generator
) -> bool:
    """Whether a view that shows a point is matched with the view where it was found."""
    if matching.chance == 1.0 and matching.max_angle >= 180.0:
        return True  # without drawing, so that the noise of the complete model stays as it was
    a, b = view.camera.center - point, found.camera.center - point
    near, far = sorted((float(np.linalg.norm(a)), float(np.linalg.norm(b))))
    angle = np.degrees(np.arccos(np.clip(a @ b / (near * far), -1.0, 1.0)))
    return bool(angle <= matching.max_angle and far <= matching.max_ratio * near and rng.random() < matching.chance)


def _observe(view: SplatView, point: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Pixel of a world point in a view, or None where it is hidden or outside."""
    assert view.gt_depth is not None
    local = view.camera.view[:3, :3] @ point + view.camera.view[:3, 3]
    if local[2] <= 0.05:
        return None
    pixel = (view.camera.intrinsics @ local)[:2] / local[2]
    column, row = pixel.round().astype(int)
    if not (0 <= column < view.camera.width and 0 <= row < view.camera.height):
        return None
    return pixel if abs(view.gt_depth[row, column] / local[2] - 1) < SAME_DEPTH else None


def _triangulate(
    views: list[SplatView],
    pixels: npt.NDArray[np.float64],  # [V, 2]
) -> npt.NDArray[np.float64]:
    """Return the point nearest to the rays through the pixels."""
    A, b = np.zeros((3, 3)), np.zeros(3)
    for view, pixel in zip(views, pixels):
        ray = np.linalg.inv(view.camera.intrinsics) @ np.append(pixel, 1)
        direction = view.camera.pose[:3, :3] @ (ray / np.linalg.norm(ray))
        P = np.eye(3) - np.outer(direction, direction)
        A += P
        b += P @ view.camera.center
    return np.asarray(np.linalg.solve(A, b))
