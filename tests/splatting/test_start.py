from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("numba")
from omnidc.errors import ConfigError, InputError
from omnidc.splatting.experiment import split_views
from omnidc.splatting.start import dense_points
from worlds import views


def test_dense_points_lie_on_the_surfaces() -> None:
    cloud = dense_points(views(), 300, np.random.default_rng(0))
    assert 100 < len(cloud) <= 300
    near_plane = np.minimum(np.abs(cloud.points[:, 2] - 3.0), np.abs(cloud.points[:, 2] - 2.0))
    assert np.quantile(near_plane, 0.9) < 0.1


@pytest.mark.parametrize("count", [0, -5])
def test_dense_points_none_wanted_returns_none(count: int) -> None:
    assert len(dense_points(views(), count, np.random.default_rng(0))) == 0


def test_dense_points_wrong_view_is_outvoted() -> None:
    given = views()
    assert given[2].depth is not None
    given[2] = dataclasses.replace(given[2], depth=given[2].depth * np.float32(1.5))
    cloud = dense_points(given, 2000, np.random.default_rng(0))
    assert float((cloud.points[:, 2] > 3.4).mean()) < 0.02


def test_dense_points_uncertain_and_sky_pixels_are_left_out() -> None:
    given = []
    for view in views():
        b = np.full(view.image.shape[:2], 0.01, np.float32)
        b[:, 28:] = 1.0
        sky = np.zeros(view.image.shape[:2], bool)
        sky[:15] = True
        given.append(dataclasses.replace(view, uncertainty=b, sky=sky))
    points = dense_points(given, 5000, np.random.default_rng(0)).points
    plain = dense_points(views(), 5000, np.random.default_rng(0)).points
    assert points[:, 1].min() > plain[:, 1].min() + 0.5
    assert points[:, 0].max() < plain[:, 0].max() - 0.5


def test_dense_points_no_depth_is_empty() -> None:
    assert len(dense_points(views(with_depth=False), 10, np.random.default_rng(0))) == 0


def test_split_views_every_eighth_is_held_out() -> None:
    names = [str(k) for k in range(20)]
    train, test = split_views(names, 8, None)
    assert test == [0, 8, 16]
    assert sorted(train + test) == list(range(20))
    few, same = split_views(names, 8, 4)
    assert same == test
    assert len(few) == 4
    assert set(few) <= set(train)
    assert split_views(names, 0, None) == (list(range(20)), [])


def test_split_views_impossible_splits_are_sentences() -> None:
    with pytest.raises(InputError, match="at least 3 views"):
        split_views(["a", "b", "c"], 2, None)
    with pytest.raises(ConfigError, match="2 or more"):
        split_views(["a"] * 9, 1, None)
