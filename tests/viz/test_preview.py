from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.viz.colormap import Scale, colorize
from omnidc.viz.preview import draw_points, preview


@given(st.floats(1e-5, 1e5), st.floats(1.0, 1e4))
def test_ticks_are_a_handful_and_inside_the_range(low: float, ratio: float) -> None:
    scale = Scale(low, low * ratio)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(scale.low * 0.999 <= tick <= scale.high * 1.001 for tick in ticks)
    assert ticks == sorted(ticks)


@pytest.mark.parametrize("high", [3.0, 100.0], ids=["linear", "logarithmic"])
def test_positions_rise_from_0_to_1(high: float) -> None:
    scale = Scale(1.0, high)
    positions = scale(np.linspace(0.5, 2 * high, 100))
    assert positions[0] == 0
    assert positions[-1] == pytest.approx(1)
    assert (np.diff(positions) >= 0).all()


def test_near_is_warm_and_far_is_cold_and_missing_is_grey() -> None:
    near, middle, far, none = colorize(np.array([[1.0, 1.5, 2.0, 0.0]]), Scale(1, 2))[0].astype(int)
    assert near[0] > near[2]
    assert far[2] > far[0]
    assert none[0] == none[1] == none[2]
    assert middle[1] > 150


def test_points_are_drawn_where_they_are_in_the_colour_of_their_depth() -> None:
    sparse = np.zeros((50, 60), np.float32)
    sparse[10, 20], sparse[40, 50] = 1, 2
    picture = draw_points(np.full((100, 120, 3), 77, np.uint8), sparse, Scale(1, 2))
    colors = colorize(np.array([[1.0, 2.0]]), Scale(1, 2))[0]
    assert (picture[21, 41] == colors[0]).all()
    assert (picture[81, 101] == colors[1]).all()
    assert (picture[60, 10] == 77).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (240, 320), (100, 400), (300, 3)])
def test_previews_of_any_shape_hold_photo_and_depth(shape: tuple[int, int]) -> None:
    image = np.full((*shape, 3), (10, 200, 30), np.uint8)
    picture = preview(image, np.ones(shape, np.float32), np.zeros(shape, np.float32))
    assert picture.dtype == np.uint8
    share = (np.abs(picture.astype(int) - (10, 200, 30)).max(-1) < 3).mean()
    assert 0.1 < share < 0.6
