"""Agreement of depth between views before training: each map is averaged with those of its neighbors.

Maps are completed one by one, so their errors differ from view to view. A splat cannot follow contradicting maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from omnidc.geometry.camera import unproject
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import transform
from omnidc.interop.fusion import neighbors
from omnidc.splatting.view import DepthMap, SplatView

NEIGHBORS = 4
TOLERANCE = 0.1  # relative difference beyond which two views show different surfaces
OCCLUSION_WINDOW = 3  # pixels; closes the gaps between reprojected neighboring pixels


def consistent_views(
    views: Sequence[SplatView], count: int = NEIGHBORS, tolerance: float = TOLERANCE
) -> list[SplatView]:
    """Return the views with averaged depth: the mean of log depth over the view and the neighbors that agree with it.

    All averages are of the given maps, so the order of the views does not matter. Pixels without depth stay without.
    """
    cameras = [view.camera for view in views]
    out = []
    for index, view in enumerate(views):
        if view.depth is None:
            out.append(view)
            continue
        known = view.depth > 0
        own = np.log(np.where(known, view.depth, 1.0))
        total, weight = own.copy(), np.ones_like(own)
        for other in (views[k] for k in neighbors(cameras, index, count)):
            if other.depth is None:
                continue
            theirs = reproject(other, view)
            log = np.log(np.where(theirs > 0, theirs, 1.0))
            agrees = (theirs > 0) & (np.abs(log - own) <= np.log1p(tolerance))
            total += np.where(agrees, log, 0.0)
            weight += agrees
        out.append(replace(view, depth=np.where(known, np.exp(total / weight), 0.0).astype(np.float32)))
    return out


def reproject(source: SplatView, target: SplatView) -> DepthMap:
    """Return the depth [H, W] of `source` as `target` shows it; 0 where no pixel falls or a nearer surface hides it."""
    assert source.depth is not None
    points = unproject(source.depth, source.camera.intrinsics)[source.depth > 0].astype(np.float64)
    local = transform(target.camera.view @ source.camera.pose, points)
    size = target.camera.height, target.camera.width
    return project_to_depth(local, target.camera.intrinsics, size, OCCLUSION_WINDOW)[0]
