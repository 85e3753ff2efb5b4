from __future__ import annotations

import numpy as np

from omnidc.patterns import SparseSample, dropout, jitter, outliers, parse
from omnidc.patterns.noise import depth_range
from omnidc.patterns.sample import Depth, Image, exact, wrong


def test_range_of_outliers_ignores_unknown_depth_and_the_release_counts_it() -> None:
    depth = np.zeros((10, 20), np.float32)
    depth[5:] = np.linspace(1, 2, 100).reshape(5, 20)
    np.testing.assert_allclose(depth_range(depth), (1.05, 1.95), atol=1e-6)
    low, high = depth_range(depth, released=True)
    assert low == 0
    assert 1.7 < high < 1.9


def test_outliers_come_at_the_rate_asked_for_and_stay_within_the_range(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    rng = np.random.default_rng(0)
    full = exact(depth, depth > 0)
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
    np.testing.assert_array_equal(wrong(sparse, depth), [[True, True, False, False, True]])
    np.testing.assert_array_equal(wrong(sparse, depth, released=True), [[True, False, False, False, True]])


def test_rate_is_drawn_per_frame(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    rng = np.random.default_rng(1)
    noisy = parse("dense & noise(0~0.5)")
    rates = [(noisy(depth, image, rng).sparse != depth).sum() / (depth > 0).sum() for _ in range(40)]
    assert min(rates) < 0.1
    assert max(rates) > 0.4


def test_jitter_is_proportional_to_depth(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    sample = jitter(0.01)(exact(depth, depth > 0), depth, image, np.random.default_rng(0))
    known = depth > 0
    for part in (known & (depth < 2), known & (depth > 4)):
        assert 0.009 < np.std(np.log(sample.sparse[part] / depth[part])) < 0.011
    assert not sample.noise.any()


def test_dropout_loses_that_part_with_its_flags_but_never_everything(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    flags = np.zeros(depth.shape, np.bool_)
    flags[50] = True
    sample = dropout(0.3)(SparseSample(depth, flags), depth, image, np.random.default_rng(0))
    assert abs((sample.sparse > 0).sum() / (depth > 0).sum() - 0.7) < 0.02
    np.testing.assert_array_equal(sample.noise, flags & (sample.sparse > 0))
    assert (dropout(1.0)(exact(depth, depth > 0), depth, image, np.random.default_rng(0)).sparse > 0).sum() == 1
