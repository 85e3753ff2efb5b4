from __future__ import annotations

import cv2
import numpy as np

from omnidc.patterns import SparseSample, dropout, jitter, outliers, parse, speckle, spikes
from omnidc.patterns.noise import depth_range
from omnidc.patterns.sample import Depth, Image, is_outlier, sample_at


def test_outlier_range_ignores_unknown_unless_released() -> None:
    depth = np.zeros((10, 20), np.float32)
    depth[5:] = np.linspace(1, 2, 100).reshape(5, 20)
    np.testing.assert_allclose(depth_range(depth), (1.05, 1.95), atol=1e-6)
    low, high = depth_range(depth, released=True)
    assert low == 0
    assert 1.7 < high < 1.9


def test_outliers_have_the_rate_asked_for(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    rng = np.random.default_rng(0)
    full = sample_at(depth, depth > 0)
    sample = outliers(0.2)(full, depth, image, rng)
    changed = sample.sparse != full.sparse
    assert abs(changed.sum() / (depth > 0).sum() - 0.2) < 0.02
    low, high = depth_range(depth)
    assert sample.sparse[changed].min() >= low
    assert sample.sparse[changed].max() <= high
    assert not (changed & (depth == 0)).any()


def test_flags_are_two_sided_and_those_of_the_release_are_not() -> None:
    depth = np.full((1, 5), 2, np.float32)
    depth[0, 4] = 0
    sparse = np.array([[2.5, 1.5, 2.1, 0, 3]], np.float32)
    np.testing.assert_array_equal(is_outlier(sparse, depth), [[True, True, False, False, True]])
    np.testing.assert_array_equal(is_outlier(sparse, depth, released=True), [[True, False, False, False, True]])


def test_rate_is_drawn_per_frame(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    rng = np.random.default_rng(1)
    noisy = parse("dense & noise(0~0.5)")
    rates = [(noisy(depth, image, rng).sparse != depth).sum() / (depth > 0).sum() for _ in range(40)]
    assert min(rates) < 0.1
    assert max(rates) > 0.4


def test_jitter_is_proportional_to_depth(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    sample = jitter(0.01)(sample_at(depth, depth > 0), depth, image, np.random.default_rng(0))
    known = depth > 0
    for part in (known & (depth < 2), known & (depth > 4)):
        assert 0.009 < np.std(np.log(sample.sparse[part] / depth[part])) < 0.011
    assert not sample.outlier_mask.any()


def test_dropout_loses_its_share_but_not_all(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    flags = np.zeros(depth.shape, np.bool_)
    flags[50] = True
    sample = dropout(0.3)(SparseSample(depth, flags), depth, image, np.random.default_rng(0))
    assert abs((sample.sparse > 0).sum() / (depth > 0).sum() - 0.7) < 0.02
    np.testing.assert_array_equal(sample.outlier_mask, flags & (sample.sparse > 0))
    assert (dropout(1.0)(sample_at(depth, depth > 0), depth, image, np.random.default_rng(0)).sparse > 0).sum() == 1


def test_spikes_are_few_far_off_and_flagged(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    before = parse("5%")(depth, image, np.random.default_rng(1))
    sample = spikes(4)(before, depth, image, np.random.default_rng(0))
    changed = sample.sparse != before.sparse
    assert changed.sum() == 4
    ratio = sample.sparse[changed] / depth[changed]
    assert np.all((ratio > 1.49) | (ratio < 1 / 1.49))
    np.testing.assert_array_equal(sample.outlier_mask, changed)
    one = SparseSample(np.where(np.arange(depth.size).reshape(depth.shape) == 5000, depth, 0), depth < 0)
    np.testing.assert_array_equal(spikes(4)(one, depth, image, np.random.default_rng(0)).sparse, one.sparse)


def test_speckle_comes_in_spots_at_its_rate() -> None:
    depth = np.tile(np.linspace(1, 9, 200, dtype=np.float32), (200, 1))
    image = np.zeros((200, 200, 3), np.uint8)
    rates, sizes = [], []
    for seed in range(20):
        sample = speckle(0.05)(SparseSample(depth, depth < 0), depth, image, np.random.default_rng(seed))
        changed = sample.sparse != depth
        rates.append(changed.mean())
        sizes.append(changed.sum() / max(cv2.connectedComponents(changed.astype(np.uint8))[0] - 1, 1))
        assert not sample.outlier_mask[~changed].any()
        assert sample.outlier_mask[changed].mean() > 0.5
    assert 0.03 < np.mean(rates) < 0.06
    assert min(sizes) < 2
    assert max(sizes) > 8
