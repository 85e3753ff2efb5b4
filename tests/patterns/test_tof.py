from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnidc.patterns import phone, tof
from omnidc.patterns.sample import Depth, Image
from omnidc.patterns.tof import zone_means


@given(rows=st.integers(1, 8), columns=st.integers(1, 8), seed=st.integers(0, 50))
def test_zone_means_equal_their_slow_twin(rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth = rng.uniform(1, 5, (rows * 3, columns * 4)).astype(np.float32)
    depth[rng.random(depth.shape) < 0.5] = 0
    slow = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            zone = depth[3 * i : 3 * i + 3, 4 * j : 4 * j + 4]
            slow[i, j] = zone[zone > 0].mean() if (zone > 0).any() else 0
    np.testing.assert_allclose(zone_means(depth, rows, columns), slow, rtol=1e-5)


def test_grid_is_square_and_its_depths_come_in_steps(scene: tuple[Depth, Image]) -> None:
    _, image = scene
    depth = np.random.default_rng(0).uniform(2, 4, (96, 128)).astype(np.float32)
    for seed in range(6):
        sample = tof(12)(depth, image, np.random.default_rng(seed))
        rows, columns = np.nonzero(sample.sparse)
        np.testing.assert_array_equal(np.unique(rows), np.arange(4, 96, 8))
        np.testing.assert_array_equal(np.unique(columns), np.arange(4, 128, 8))
        values = np.unique(sample.sparse[sample.sparse > 0].astype(np.float64))
        step = np.diff(values).min()
        np.testing.assert_allclose(values / step, np.rint(values / step), atol=0.1)


def test_zones_that_mix_two_surfaces_are_flagged() -> None:
    depth = np.full((64, 64), 4, np.float32)
    depth[:, :36] = 1  # the edge runs through the fifth of eight columns of zones
    image = np.zeros((64, 64, 3), np.uint8)
    samples = [tof(8)(depth, image, np.random.default_rng(seed)) for seed in range(20)]
    mixed = [sample for sample in samples if sample.outlier_mask.any()]
    assert 3 < len(mixed) < 17
    for sample in mixed:
        assert set(np.nonzero(sample.outlier_mask)[1]) == {36}


def test_unknown_centers_measure_nothing(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    assert not tof(48)(depth, image, np.random.default_rng(0)).sparse[:8].any()


def test_phone_is_a_fine_grid_that_is_smooth_at_edges() -> None:
    depth = np.full((192, 256), 4, np.float32)
    depth[:, :100] = 2
    image = np.zeros((192, 256, 3), np.uint8)
    gaps = blurred = 0
    for seed in range(20):
        sample = phone(96)(depth, image, np.random.default_rng(seed))
        rows, columns = np.nonzero(sample.sparse)
        np.testing.assert_array_equal(np.unique(rows), np.arange(1, 192, 2))
        flat = (sample.sparse > 0) & (np.abs(np.arange(256) - 100) > 20)
        np.testing.assert_allclose(sample.sparse[flat], depth[flat], rtol=0.03)
        near_edge = sample.sparse[:, 92:108]
        blurred += int(((near_edge > 2.3) & (near_edge < 3.7)).any())
        gaps += int(not set(range(99, 102)) & set(columns))
    assert blurred > 10
    assert 3 < gaps < 17
