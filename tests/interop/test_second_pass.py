"""Points that completed depth hides: behind the view's own depth, or behind that of two neighbors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnidc.interop.second_pass import DepthView, behind_depth, hidden_points, hide_points
from posed_views import K, plane_depth, turned

ON, BEHIND, BEFORE = [0.1, 0.0, 3.0], [0.1, 0.0, 4.0], [0.1, 0.0, 2.0]
POINTS = np.array([ON, BEHIND, BEFORE])


def wall(count: int = 4) -> list[DepthView]:
    poses = [turned(0.1 * k, 0.0) for k in range(count)]
    return [DepthView(plane_depth(pose, 3.0), K, pose) for pose in poses]


def test_behind_depth_only_what_is_farther_than_a_known_surface() -> None:
    view = wall()[0]
    assert behind_depth(POINTS, K, view.depth).tolist() == [False, True, False]
    assert not behind_depth(POINTS, K, np.zeros_like(view.depth)).any()
    assert not behind_depth(np.array([[9.0, 0.0, 4.0], [0.0, 0.0, -4.0]]), K, view.depth).any()


@pytest.mark.parametrize(("count", "is_hidden"), [(4, True), (3, True), (2, False)])
def test_hidden_points_two_neighbors_overrule_a_view_that_sees_through(count: int, is_hidden: bool) -> None:
    views = wall(count)
    views[0] = replace(views[0], depth=np.full_like(views[0].depth, 9.0))  # the pit that a hidden point makes
    assert hidden_points(POINTS, views, 0).tolist() == [False, is_hidden, False]


def test_hide_points_reaches_the_frames_but_no_matched_point(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    from makers import colmap_model
    from omnidc.sensors.colmap import open_model

    everywhere = (0, 1, 2, 3)
    corners = np.array([[x, y, 3.0] for x in (-1.2, 1.2) for y in (-0.9, 0.9)] * 2)
    points = np.r_[corners, [[3.0, 0.0, 6.0]], [[3.0, 0.3, 6.0]]]
    colmap_model(tmp_path / "m", tmp_path / "i", points, [everywhere] * 8 + [everywhere[1:], everywhere])
    model = open_model(tmp_path / "m", tmp_path / "i")
    before = model.frame("view0.png").measurements()
    count = hide_points(model, lambda frame: np.full((frame.height, frame.width), 3.0, np.float32))
    after = model.frame("view0.png").measurements()
    assert count > 0
    assert (after > 5).sum() == 1  # the point that view0 matched
    assert (before > 5).sum() == 2
    assert (after[before < 5] == before[before < 5]).all()
