"""Which points of an SfM model completed depth hides: all photographs are completed once to find out.

A point that was not matched in a photograph is hidden there if it lies behind the photograph's own depth or behind
that of two neighbors. `benchmarks/visibility.py` has what this gains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.frame import Frame
from omnidc.geometry.camera import unproject
from omnidc.geometry.rasterize import Map, depth_at, project_to_depth
from omnidc.geometry.transforms import Array, inverse, transform
from omnidc.interop.fusion import neighbors
from omnidc.sensors.colmap import ColmapModel

NEIGHBORS, VOTES = 4, 2  # views that are asked, and how many of them must hide a point
TOLERANCE = 0.1  # of depth
OCCLUSION_WINDOW = 3  # pixels; closes the gaps between reprojected neighboring pixels
MAX_SIDE = 640  # pixels; of the depth that is kept and compared


@dataclass(frozen=True)
class DepthView:
    """Depth of one photograph with its camera."""

    depth: Map  # [H, W], 0 = none
    intrinsics: Array  # [3, 3]
    pose: Array  # [4, 4], camera to world


def behind_depth(points: Array, K: Array, depth: Map) -> npt.NDArray[np.bool_]:
    """Return which points [N, 3] of the camera frame lie behind a depth map [H, W], 0 = unknown; [N]."""
    found = depth_at(points, K, depth)
    return np.asarray((found > 0) & (points[:, 2] > (1 + TOLERANCE) * found))


def hidden_points(points: Array, views: Sequence[DepthView], index: int) -> npt.NDArray[np.bool_]:
    """Return which points [N, 3] of the world the depth of view `index` or of two of its neighbors hides there, [N]."""
    view = views[index]
    camera_from_world = inverse(view.pose)
    local, shape = transform(camera_from_world, points), (view.depth.shape[0], view.depth.shape[1])
    votes = np.zeros(len(points), dtype=np.int64)
    for other in (views[k] for k in neighbors(views, index, NEIGHBORS)):
        cloud = unproject(other.depth, other.intrinsics)[other.depth > 0].astype(np.float64)
        theirs = transform(camera_from_world @ other.pose, cloud)
        shown, _ = project_to_depth(theirs, view.intrinsics, shape, OCCLUSION_WINDOW)
        votes += behind_depth(local, view.intrinsics, shown)
    return np.asarray(behind_depth(local, view.intrinsics, view.depth) | (votes >= VOTES))


def hide_points(
    model: ColmapModel,
    complete: Callable[[Frame], Map],  # depth [H, W] of a frame
    progress: Callable[[str], object] = lambda name: None,
) -> int:
    """Complete all photographs that have points, and tell the model which points are hidden in which; return how many.

    Only a thinned copy of each depth map stays in memory.
    """
    views: dict[str, DepthView] = {}
    for name in model.names():
        frame = model.frame(name)
        if (frame.measurements() > 0).any():
            assert frame.intrinsics is not None
            assert frame.pose is not None
            step = max(1, -(-max(frame.height, frame.width) // MAX_SIDE))
            K = np.diag([1 / step, 1 / step, 1.0]) @ frame.intrinsics
            depth = np.ascontiguousarray(complete(frame)[::step, ::step])
            views[name] = DepthView(depth, K, np.asarray(frame.pose, np.float64))
        progress(name)
    placed = list(views.values())
    model.hidden = {name: hidden_points(model.points, placed, index) for index, name in enumerate(views)}
    return sum(int(mask.sum()) for mask in model.hidden.values())
