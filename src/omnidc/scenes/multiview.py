"""Many overlapping views of one scene, as somebody takes them who wants to reconstruct it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from omnidc.scenes.camera import RayCast, View, choose_view, intrinsics, look_at, score, test_rays
from omnidc.scenes.description import Rng, Scene

FIELD_OF_VIEW = 65.0  # degrees across the larger side: one lens for the whole scene, without cuts
ANCHORS = 12  # candidates for the view that the others stand around
CLEARANCE = 0.15  # meters between an eye and the first surface on the line from the anchor's eye
MIN_BASELINE = 0.06  # least distance between two eyes, of the anchor's median depth
TRIES = 150  # candidates for each view that is wanted
DOWN_SHARE, FORWARD_SHARE = 0.35, 0.5  # extent of the eyes' box downwards and forwards, of its extent sideways


def _depths(view: View, cast: RayCast) -> tuple[npt.NDArray[np.float64], Sequence[Hashable]]:
    rays = test_rays(view)
    lengths = np.linalg.norm(rays, axis=1)
    distances, hits = cast(view.pose[:3, 3], rays / lengths[:, None])
    return distances / lengths, hits


def _is_passable(view: View, scene: Scene, cast: RayCast) -> bool:
    depths, hits = _depths(view, cast)
    return score(depths, hits, scene.nearest) is not None


def choose_anchor(rng: Rng, scene: Scene, cast: RayCast, width: int, height: int) -> tuple[View, float] | None:
    """Return the best of some views, with the scene's one lens, and its median depth; None = no passable view."""
    lens = intrinsics(width, height, FIELD_OF_VIEW)
    best: tuple[float, View, float] | None = None
    for _ in range(ANCHORS):
        drawn = choose_view(rng, scene, cast, width, height)
        if drawn is None:
            continue
        view = View(drawn.pose, lens, width, height, drawn.lens)
        depths, hits = _depths(view, cast)
        worth = score(depths, hits, scene.nearest, 1.5)
        if worth is not None and (best is None or worth > best[0]):
            best = worth, view, float(np.median(depths[np.isfinite(depths)]))
    return None if best is None else best[1:]


def choose_views(
    rng: Rng,
    scene: Scene,
    cast: RayCast,
    width: int,
    height: int,
    count: int,
    spread: float,  # half the width of the eyes' box, of the anchor's median depth
) -> list[View]:
    """Return up to `count` views around an anchor view that look at what it looks at.

    Each eye has a clear line to the anchor's eye, so that all stand in the same room. Fewer views are returned where
    the scene has no room for more.
    """
    found = choose_anchor(rng, scene, cast, width, height)
    if found is None:
        return []
    anchor, middle = found
    right, down, forward, eye0 = (anchor.pose[:3, k] for k in range(4))
    target = eye0 + middle * forward
    views = [anchor]
    for attempt in range(TRIES * count):
        if len(views) == count:
            break
        across, below, ahead = rng.uniform(-1, 1, 3)
        step = middle * spread * (across * right + DOWN_SHARE * below * down + FORWARD_SHARE * ahead * forward)
        eye = eye0 + step
        aside = middle * min(0.45, 0.7 * spread) * rng.uniform(-1, 1, 2)
        look = target + aside[0] * right + 0.5 * aside[1] * down
        length = float(np.linalg.norm(step))
        free, _ = cast(eye0, (step / length)[None])
        if free[0] < length + CLEARANCE:
            continue
        nearest_eye = min(float(np.linalg.norm(eye - view.pose[:3, 3])) for view in views)
        if nearest_eye < MIN_BASELINE * middle and attempt < TRIES * count // 2:
            continue
        view = View(look_at(eye, look), anchor.intrinsics, width, height, anchor.lens)
        if _is_passable(view, scene, cast):
            views.append(view)
    return views
