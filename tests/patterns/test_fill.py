from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from omnidc.patterns.fill import nnfill, spread


def test_equals_the_released_code(golden: Mapping[str, NDArray[np.float64]]) -> None:
    filled = nnfill(golden["nnfill_in"].astype(np.float32))
    # The median and bilateral filters may differ in the last digits between OpenCV versions.
    assert np.mean(np.abs(filled - golden["nnfill_out"]) > 1e-4) < 0.002


@given(seed=st.integers(0, 100), background=st.booleans())
def test_known_pixels_stay_and_holes_get_depths_that_exist(seed: int, background: bool) -> None:
    rng = np.random.default_rng(seed)
    depth = rng.choice(np.array([1.5, 2.25, 1000], np.float32), (30, 40)) * (rng.random((30, 40)) < rng.uniform(0, 0.3))
    filled = spread(depth.astype(np.float32), background)
    np.testing.assert_array_equal(filled[depth > 0], depth[depth > 0])
    assert set(np.unique(filled)) <= {0, *np.unique(depth)}


def test_hole_filling_takes_one_of_both_surfaces() -> None:
    depth = np.full((40, 60), 3, np.float32)
    depth[:, :29] = 1
    depth[:, 29:32] = 0
    assert np.all(spread(depth, background=False)[:, 29:32] == 1)
    assert np.all(spread(depth, background=True)[:, 29:32] == 3)


def test_crack_in_a_near_surface_shows_nothing_of_the_background() -> None:
    depth = np.full((40, 60), 3, np.float32)
    depth[10:30, 10:50] = 1
    depth[:, 20] = 0
    for background in (False, True):
        assert np.all(spread(depth, background)[10:30, 20] == 1)


def test_large_void_is_filled_only_as_released() -> None:
    depth = np.full((200, 200), 2, np.float32)
    depth[0, 0] = 4
    depth[50:150, 50:150] = 0
    assert spread(depth, background=False)[100, 100] == 0
    assert spread(depth, background=False)[100, 65] == 2
    np.testing.assert_allclose(nnfill(depth)[100, 100], 2, atol=0.05)


def test_empty_map_stays_empty() -> None:
    empty = np.zeros((5, 7), np.float32)
    assert not nnfill(empty).any()
    assert not spread(empty, background=False).any()
