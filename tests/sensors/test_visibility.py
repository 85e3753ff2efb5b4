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


CORNERS = np.array([[-0.6, -0.4, 1.0], [0.6, -0.4, 1.0], [-0.6, 0.4, 1.0], [0.6, 0.4, 1.0]])


def outlined(slope: float, others: Points) -> npt.NDArray[np.bool_]:
    """Which of `others` pass, beside 60 observed points of a plane whose hull holds them."""
    corners = CORNERS * (4.0 / (1.0 - slope * CORNERS[:, 1]))[:, None]
    observed = np.r_[corners, on_plane(56, 1, slope)]
    kept = near_observed_surface(np.r_[observed, others], K, np.arange(60 + len(others)) < 60)
    assert kept[:60].all()
    return kept[60:]


@pytest.mark.parametrize("slope", [0.0, 2.0])  # a façade, and a road that reaches from 2.2 to 20 meters
def test_near_observed_surface_keeps_all_of_a_plane(slope: float) -> None:
    assert outlined(slope, on_plane(300, 0, slope)).all()


@pytest.mark.parametrize("slope", [0.0, 2.0])
@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25, 3.0])
def test_near_observed_surface_drops_what_lies_off(slope: float, factor: float) -> None:
    assert not outlined(slope, on_plane(200, 2, slope) * factor).any()


def test_near_observed_surface_outside_the_hull_keeps_all() -> None:
    beyond = np.array([[3.0, 0.0, 4.0], [0.0, 2.9, 4.0], [9.0, 0.0, 12.0], [0.0, 0.0, -4.0]])
    assert outlined(0.0, beyond).all()


def test_near_observed_surface_does_not_depend_on_scale() -> None:
    rng = np.random.default_rng(0)
    points = on_plane(300, 3) * rng.uniform(0.8, 1.3, (300, 1))
    is_observed = np.arange(300) % 3 == 0
    one, other = (near_observed_surface(points * scale, K, is_observed) for scale in (1.0, 250.0))
    assert np.array_equal(one, other)
    assert not one.all()


@pytest.mark.parametrize("count", [0, 2, 4])
def test_near_observed_surface_without_triangle_keeps_all(count: int) -> None:
    points = np.array([[x, 0.0, 3.0] for x in (-1.0, -0.5, 0.5, 1.0)] + [[0.0, 0.5, 9.0]])
    assert near_observed_surface(points, K, np.arange(5) < count).all()
    assert near_observed_surface(np.zeros((0, 3)), K, np.zeros(0, bool)).shape == (0,)
