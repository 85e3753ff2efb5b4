from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")
from worlds import views

from omnidc.splatting.consistency import TOLERANCE, consistent_views, reproject
from omnidc.splatting.view import SplatView


def noisy(scale: float, seed: int = 0) -> list[SplatView]:
    """Views of a plane at z = 3, each with a depth that is wrong by a factor of its own."""
    rng = np.random.default_rng(seed)
    made = []
    for view in views():
        factor = np.float32(np.exp(rng.normal(0, scale)))
        made.append(replace(view, depth=np.full(view.image.shape[:2], 3.0 * factor, np.float32)))
    return made


def error(made: list[SplatView]) -> float:
    return float(np.mean([np.abs(np.log(view.depth / 3.0)).mean() for view in made if view.depth is not None]))


def test_consistent_views_average_reduces_independent_errors() -> None:
    before = noisy(0.02)
    after = consistent_views(before)
    assert error(after) < 0.7 * error(before)


def test_consistent_views_exact_depth_stays() -> None:
    before = noisy(0.0)
    for old, new in zip(before, consistent_views(before)):
        assert np.allclose(old.depth, new.depth, rtol=1e-5)


def test_consistent_views_other_surfaces_have_no_vote() -> None:
    before = noisy(0.0)
    wrong = before[0].depth * np.float32(1 + 3 * TOLERANCE)
    before[0] = replace(before[0], depth=wrong)
    after = consistent_views(before)
    assert np.allclose(after[0].depth, wrong, rtol=1e-5)
    assert np.allclose(after[1].depth, 3.0, rtol=1e-5)


def test_consistent_views_without_depth_stay_without() -> None:
    before = noisy(0.02)
    hole = before[1].depth.copy()
    hole[:5] = 0
    before[0], before[1] = replace(before[0], depth=None), replace(before[1], depth=hole)
    after = consistent_views(before)
    assert after[0].depth is None
    assert np.array_equal(after[1].depth == 0, hole == 0)


def test_reproject_is_the_definition_point_by_point() -> None:
    source, target = noisy(0.0)[0], noisy(0.0)[3]
    depth = reproject(source, target)
    move = target.camera.view @ source.camera.pose
    for y, x in ((3, 4), (15, 20), (25, 30)):
        ray = np.linalg.inv(source.camera.intrinsics) @ [x, y, 1.0]
        place = move[:3, :3] @ (ray * 3.0) + move[:3, 3]
        pixel = target.camera.intrinsics @ place / place[2]
        column, row = np.floor(pixel[:2] + 0.5).astype(int)
        if 0 <= column < 40 and 0 <= row < 30:
            assert depth[row, column] == pytest.approx(place[2], rel=1e-5)
    assert (depth > 0).any()
