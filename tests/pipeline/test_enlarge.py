"""Back to the size of the photograph."""

from __future__ import annotations

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnidc.pipeline.enlarge import enlarge, enlarge_depth


def gray(height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), 128, np.uint8)


def test_a_map_of_the_same_size_is_left_alone() -> None:
    values = np.random.default_rng(0).uniform(1, 2, (6, 8)).astype(np.float32)
    assert enlarge_depth(values, gray(6, 8)) is values
    assert enlarge(values, (6, 8)) is values


def test_surfaces_are_interpolated_in_the_logarithm() -> None:
    values = np.exp(np.linspace(0, 0.1, 12, dtype=np.float32))[None].repeat(9, 0)
    photograph = np.random.default_rng(0).integers(0, 255, (36, 48, 3), dtype=np.uint8)
    expected = np.exp(cv2.resize(np.log(values), (48, 36), interpolation=cv2.INTER_LINEAR))
    np.testing.assert_allclose(enlarge(values, (36, 48)), expected, rtol=1e-6)
    np.testing.assert_allclose(enlarge_depth(values, photograph), expected, rtol=1e-6)


def test_an_edge_follows_the_photograph_and_has_no_ramp() -> None:
    """A near thing whose outline lies inside a cell of the small map."""
    outline, height, width = 50, 48, 96
    truth = np.where(np.arange(width) < outline, 1.0, 3.0).astype(np.float32)[None].repeat(height, 0)
    photograph = np.where(np.arange(width) < outline, 60, 200).astype(np.uint8)[None, :, None].repeat(height, 0)
    photograph = photograph.repeat(3, 2)
    small = np.exp(cv2.resize(np.log(truth), (24, 12), interpolation=cv2.INTER_AREA))
    large, plain = enlarge_depth(small, photograph), enlarge(small, (height, width))
    between = (large > 1.1) & (large < 2.7)
    assert between[0].sum() <= 4  # the one cell that holds both; the ramp is nine pixels wide
    assert np.abs(np.log(large / truth)).mean() < 0.6 * np.abs(np.log(plain / truth)).mean()


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 4), st.integers(0, 9))
def test_values_stay_between_those_of_the_small_map(h: int, w: int, factor: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 5, (h, w)).astype(np.float32)
    photograph = rng.integers(0, 255, (h * factor + seed % 2, w * factor, 3), dtype=np.uint8)
    large = enlarge_depth(values, photograph)
    assert large.shape == photograph.shape[:2]
    assert large.min() >= values.min() * (1 - 1e-5)
    assert large.max() <= values.max() * (1 + 1e-5)
