from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.patterns import parse, scatter
from omnidc.patterns.numbers import Span, span
from omnidc.patterns.sample import Depth, Image
from omnidc.patterns.scatter import matched


@given(count=st.integers(0, 200), seed=st.integers(0, 100), unknown=st.floats(0, 1))
def test_points_are_true_and_as_many_as_asked_for(count: int, seed: int, unknown: float) -> None:
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.1, 5, (12, 15)).astype(np.float32) * (rng.random((12, 15)) >= unknown)
    sample = scatter(depth.astype(np.float32), count, rng)
    at = sample.sparse > 0
    assert at.sum() == min(count, (depth > 0).sum())
    np.testing.assert_array_equal(sample.sparse[at], depth[at].astype(np.float32))
    assert not sample.outlier_mask.any()


def test_count_is_matched_to_the_known_part_of_the_picture(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    known = (depth > 0).mean()
    assert known < 1
    sample = parse("1000")(depth, image, np.random.default_rng(0))
    assert (sample.sparse > 0).sum() == round(1000 * known)


def test_few_points_stay_few_but_the_release_draws_five() -> None:
    assert [matched(n, 10, 1000) for n in (0, 1, 4, 5, 400)] == [0, 1, 4, 5, 5]
    assert [matched(n, 10, 1000, released=True) for n in (1, 4, 5, 600)] == [5, 5, 5, 6]


def test_density_is_of_known_pixels(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    sample = parse("10%")(depth, image, np.random.default_rng(0))
    assert (sample.sparse > 0).sum() == int((depth > 0).sum() * 0.1)


def test_points_cover_known_pixels_evenly() -> None:
    depth = np.ones((4, 6), np.float32)
    depth[0] = 0
    rng = np.random.default_rng(0)
    hits = sum((parse("6")(depth, np.zeros((4, 6, 3), np.uint8), rng).sparse > 0) for _ in range(4000))
    # Five of eighteen known pixels (6 · 18/24, rounded half to even = 4, but never fewer than 5) are hit per draw.
    expected = 4000 * 5 / 18
    assert np.all(hits[0] == 0)
    assert np.all(np.abs(hits[1:] - expected) < 5 * np.sqrt(expected))


@given(low=st.integers(1, 50), extra=st.integers(0, 50), log=st.booleans(), seed=st.integers(0, 50))
def test_whole_numbers_stay_within_their_range(low: int, extra: int, log: bool, seed: int) -> None:
    assert low <= Span(low, low + extra, log=log).integer(np.random.default_rng(seed)) <= low + extra


@pytest.mark.parametrize("log", [False, True])
def test_range_draw_includes_both_ends_unless_released(log: bool) -> None:
    rng = np.random.default_rng(0)
    assert {Span(1, 4, log=log).integer(rng) for _ in range(300)} == {1, 2, 3, 4}
    assert {span((1, 4)).integer(rng, released=True) for _ in range(300)} == {1, 2, 3}


def test_logarithmic_range_has_as_many_draws_per_decade() -> None:
    rng = np.random.default_rng(0)
    draws = np.array([Span(1, 1000, log=True).integer(rng) for _ in range(6000)])
    share = [np.mean(draws < 10), np.mean((draws >= 10) & (draws < 100)), np.mean(draws >= 100)]
    np.testing.assert_allclose(share, 1 / 3, atol=0.1)
