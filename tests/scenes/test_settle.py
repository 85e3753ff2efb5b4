from __future__ import annotations

import numpy as np
import pytest

from omnidc.scenes.primitives import box, cylinder, sphere
from omnidc.scenes.settle import HeightField, surface_points


def drop(field: HeightField, points: np.ndarray) -> float:
    found = field.rest(points)
    assert found is not None
    field.add(points + np.array([0, 0, found[0]]))
    return found[0]


def test_settle_stacks_boxes_on_the_floor() -> None:
    rng = np.random.default_rng(0)
    field = HeightField.flat(2.0)
    points = surface_points(rng, box(0.6, 0.6, 0.4))
    assert drop(field, points + np.array([0, 0, 3])) == pytest.approx(-3, abs=1e-6)
    assert drop(field, points) == pytest.approx(0.4, abs=1e-6)
    assert drop(field, points + np.array([1.2, 0, 0])) == pytest.approx(0, abs=1e-6)


def test_a_ball_sinks_between_two_boxes_no_deeper_than_it_fits() -> None:
    rng = np.random.default_rng(0)
    field = HeightField.flat(2.0, 256)
    for x in (-0.5, 0.5):
        drop(field, surface_points(rng, box(0.5, 2.0, 0.5), 40000) + np.array([x, 0, 0]))
    shift = drop(field, surface_points(rng, sphere(0.4, 32, 64), 40000))
    # gap of 0.5 m: the ball of radius 0.4 touches both rims at height 0.5
    expected = 0.5 - (0.4 - np.sqrt(0.4**2 - 0.25**2))
    assert shift == pytest.approx(expected, abs=0.03)


def test_what_is_borne_on_one_side_only_would_topple() -> None:
    rng = np.random.default_rng(0)
    field = HeightField.flat(2.0)
    drop(field, surface_points(rng, box(0.4, 0.4, 0.5)))
    plank = surface_points(rng, box(1.0, 0.3, 0.05))
    on_its_middle, on_its_end = field.rest(plank), field.rest(plank + np.array([0.6, 0, 0]))
    assert on_its_middle is not None
    assert on_its_end is not None
    assert on_its_middle == (pytest.approx(0.5), True)
    assert on_its_end == (pytest.approx(0.5), False)


def test_what_stands_on_its_tip_would_topple() -> None:
    rng = np.random.default_rng(0)
    cone, field = cylinder(0.4, 0.8, 0.01), HeightField.flat(2.0)
    on_its_base = field.rest(surface_points(rng, cone))
    on_its_tip = field.rest(surface_points(rng, cone) * (1, -1, -1))
    assert on_its_base is not None
    assert on_its_tip is not None
    assert on_its_base[1]
    assert not on_its_tip[1]


def test_what_would_hang_over_the_border_is_refused() -> None:
    field = HeightField.flat(1.0)
    assert field.rest(surface_points(np.random.default_rng(0), box(0.5, 0.5, 0.5)) + np.array([0.9, 0, 0])) is None


def test_points_are_spread_by_area() -> None:
    points = surface_points(np.random.default_rng(0), box(1, 1, 3), 20000)
    lids = ((points[:, 2] < 1e-6) | (points[:, 2] > 3 - 1e-6)).mean()
    assert lids == pytest.approx(2 / 14, abs=0.02)
