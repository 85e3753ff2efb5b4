from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.viz.colormap import Scale, colorize
from omnidc.viz.points import draw_points
from omnidc.viz.preview import preview


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


def test_near_is_warm_and_far_is_cold_and_missing_is_gray() -> None:
    near, middle, far, none = colorize(np.array([[1.0, 1.5, 2.0, 0.0]]), Scale(1, 2))[0].astype(int)
    assert near[0] > near[2]
    assert far[2] > far[0]
    assert none[0] == none[1] == none[2]
    assert middle[1] > 150


def test_points_are_drawn_in_the_color_of_depth() -> None:
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


def contrast(picture: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Largest difference of a channel within seven pixels of each place."""
    square = np.ones((15, 15), np.uint8)
    return (cv2.dilate(picture, square).astype(int) - cv2.erode(picture, square)).max(axis=2)[rows, columns]


@pytest.mark.parametrize("shade", [0, 90, 160, 255], ids=["black", "dark", "light", "white"])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
def test_points_stand_out_from_every_photograph(shade: int, share: float) -> None:
    rng = np.random.default_rng(0)
    sparse = np.where(rng.random((240, 320)) < share, rng.uniform(1, 9, (240, 320)), 0).astype(np.float32)
    drawn = draw_points(np.full((480, 640, 3), shade, np.uint8), sparse, Scale.of(sparse))
    rows, columns = np.nonzero(sparse)
    inside = (rows > 3) & (rows < 236) & (columns > 3) & (columns < 316)
    assert contrast(drawn, 2 * rows[inside], 2 * columns[inside]).min() > 60


def test_points_are_larger_where_there_are_fewer() -> None:
    sparse = np.zeros((200, 200), np.float32)
    sparse[::4, :100:4] = 1
    sparse[100, 150] = 1
    drawn = (draw_points(np.full((400, 400, 3), 128, np.uint8), sparse, Scale(0.5, 2)) != 128).any(axis=2)
    lone = drawn[180:220, 280:320].sum()
    crowded = drawn[:, :190].sum() / (sparse[:, :95] > 0).sum()
    assert lone > 2 * crowded


@pytest.mark.parametrize("share", [0.01, 0.04])
def test_scale_ignores_a_few_wild_depths(share: float) -> None:
    rng = np.random.default_rng(0)
    depth = rng.uniform(2, 4, 10_000)
    depth[: int(share * 10_000)] = 500
    assert Scale.of(depth).high < 5
    depth[: int(share * 10_000)] = 0.001
    assert Scale.of(depth).low > 1.5


def test_scale_keeps_a_background_of_a_tenth() -> None:
    depth = np.concatenate([np.linspace(1.0, 1.1, 900), np.linspace(20, 21, 100)])
    assert Scale.of(depth).high > 20


def test_sky_lies_outside_the_color_bar() -> None:
    depth = np.tile(np.linspace(2, 6, 64, dtype=np.float32), (48, 1))
    depth[:10] = 900
    sky = np.zeros(depth.shape, bool)
    sky[:10] = True
    image = np.full((48, 64, 3), 30, np.uint8)
    with_sky = preview(image, depth, sky=sky)
    masked = np.where(sky, 0, depth)
    legend = np.s_[:, -100:]  # color bar, numbers and key
    assert (preview(image, masked, sky=sky) == with_sky).all()
    assert (with_sky[legend] != preview(image, depth)[legend]).any()
    assert (with_sky[legend] == 225).all(axis=2).sum() > 200
    assert not (preview(image, depth)[legend] == 225).all(axis=2).sum() > 200


def test_preview_counts_returns_as_the_sensor_does() -> None:
    from omnidc.viz.preview import _count

    sparse = np.zeros((4, 4), np.float32)
    assert _count(sparse, None) == _count(None, None) == "no points"
    sparse[0] = 1
    assert _count(sparse, None) == _count(sparse, 4) == "4 points"
    assert _count(sparse, 12_345) == "12,345 returns on 4 pixels"
