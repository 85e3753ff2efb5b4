from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from omnidc.sensors.visibility import near_observed_surface

K = np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]])
Points = npt.NDArray[np.float64]


def on_plane(count: int, seed: int, slope: float = 0.0) -> Points:
    """Points of the plane z = 4 + slope · y that fall into an image of 64×48."""
    rng = np.random.default_rng(seed)
    rays = np.c_[rng.uniform(-0.5, 0.5, count), rng.uniform(-0.35, 0.35, count), np.ones(count)]
    return rays * (4.0 / (1.0 - slope * rays[:, 1]))[:, None]


@pytest.mark.parametrize("slope", [0.0, 2.0])  # a façade, and a road that reaches from 2.3 to 13 metres
def test_near_observed_surface_keeps_all_of_a_plane(slope: float) -> None:
    points = on_plane(400, 0, slope)
    is_observed = np.arange(400) < 120
    kept = near_observed_surface(points, K, is_observed)
    assert kept[is_observed].all()
    assert kept.mean() > 0.95  # the rest lies outside the hull of a steep road


def test_near_observed_surface_drops_what_lies_behind() -> None:
    road = on_plane(60, 1, 2.0)
    behind = on_plane(200, 2, 2.0) * 1.6
    kept = near_observed_surface(np.r_[road, behind], K, np.arange(260) < 60)
    assert kept[:60].all()
    assert not kept[60:].any()


def test_near_observed_surface_drops_what_floats_before() -> None:
    wall = on_plane(60, 1)
    kept = near_observed_surface(np.r_[wall, on_plane(50, 2) * 0.5], K, np.arange(110) < 60)
    assert not kept[60:].any()


def test_near_observed_surface_does_not_depend_on_scale() -> None:
    rng = np.random.default_rng(0)
    points = on_plane(300, 3) * rng.uniform(0.8, 1.3, (300, 1))
    is_observed = np.arange(300) % 3 == 0
    one, other = (near_observed_surface(points * scale, K, is_observed) for scale in (1.0, 250.0))
    assert np.array_equal(one, other)


def test_near_observed_surface_without_outline_keeps_all() -> None:
    points = on_plane(10, 4)
    assert near_observed_surface(points, K, np.arange(10) < 3).all()
    assert near_observed_surface(np.zeros((0, 3)), K, np.zeros(0, bool)).shape == (0,)


def test_near_observed_surface_on_a_line_uses_its_depth() -> None:
    points = np.array([[x, 0.0, 3.0] for x in (-1.0, -0.5, 0.5, 1.0)] + [[0.0, 0.5, 3.1], [0.0, 0.5, 9.0]])
    kept = near_observed_surface(points, K, np.arange(6) < 4)
    assert kept.tolist() == [True, True, True, True, True, False]
