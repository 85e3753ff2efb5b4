from __future__ import annotations

import numpy as np

from omnidc.patterns import mixed
from omnidc.patterns.boundary import near_and_far
from omnidc.patterns.sample import SparseSample, sample_at

DEPTH = np.full((60, 80), 4, np.float32)
DEPTH[:, 30:50] = 1
IMAGE = np.zeros((60, 80, 3), np.uint8)


def test_near_and_far_are_those_of_the_window_and_skip_unknown() -> None:
    depth = np.array([[0, 2, 3, 9]], np.float32)
    near, far = near_and_far(depth, 1)
    assert near.tolist() == [[2, 2, 2, 3]]
    assert far.tolist() == [[2, 3, 9, 9]]
    assert not near_and_far(np.zeros((3, 3), np.float32), 1)[0].any()


def test_mixed_changes_only_measurements_at_edges() -> None:
    dense = sample_at(DEPTH, DEPTH > 0)
    samples = [mixed(0.5, second=0)(dense, DEPTH, IMAGE, np.random.default_rng(seed)) for seed in range(10)]
    for sample in samples:
        changed = np.nonzero(sample.sparse != DEPTH)[1]
        assert changed.size > 20
        assert np.all((np.abs(changed - 29.5) <= 3) | (np.abs(changed - 49.5) <= 3))
        assert sample.sparse.min() >= 1
        assert sample.sparse.max() <= 4
    values = np.concatenate([sample.sparse[sample.outlier_mask] for sample in samples])
    between = (values > 1.01) & (values < 3.99)
    assert 0.2 < between.mean() < 0.8  # flying pixels, and whole surfaces


def test_mixed_second_returns_are_the_other_surface_beside() -> None:
    one = np.zeros_like(DEPTH, bool)
    one[::2, 28:52:2] = True
    before = sample_at(DEPTH, one)
    added = 0
    for seed in range(10):
        sample = mixed(0, second=1)(before, DEPTH, IMAGE, np.random.default_rng(seed))
        np.testing.assert_array_equal(sample.sparse[one], before.sparse[one])
        rows, columns = np.nonzero((sample.sparse > 0) & ~one)
        added += rows.size
        for row, column in zip(rows, columns, strict=True):
            beside = {before.sparse[row, column - 1], before.sparse[row, column + 1]} - {0}
            assert 5 - sample.sparse[row, column] in beside  # 1 beside 4, or 4 beside 1
    assert added > 50


def test_mixed_on_a_plane_changes_nothing() -> None:
    depth = np.full((40, 40), 3, np.float32)
    before = SparseSample(depth.copy(), np.zeros(depth.shape, bool))
    sample = mixed(1, second=1)(before, depth, np.zeros((40, 40, 3), np.uint8), np.random.default_rng(0))
    np.testing.assert_array_equal(sample.sparse, depth)
    assert not sample.outlier_mask.any()
