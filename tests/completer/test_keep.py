from __future__ import annotations

import numpy as np
import pytest

from omnidc.completer.keep import pass_through


def measured(depth: np.ndarray, count: int, factor: float | np.ndarray = 1.0) -> np.ndarray:
    index = np.random.default_rng(0).choice(depth.size, count, replace=False)
    sparse = np.zeros_like(depth)
    sparse.flat[index] = depth.flat[index] * factor
    return sparse


@pytest.fixture
def depth() -> np.ndarray:
    v, u = np.mgrid[:96, :128]
    return (3 + np.sin(u / 20) + np.cos(v / 15)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 50, 96 * 128])
def test_result_equals_every_measurement(depth: np.ndarray, count: int) -> None:
    sparse = measured(depth, count, np.random.default_rng(1).uniform(0.8, 1.2, count))
    result = pass_through(depth, sparse)
    assert (result[sparse > 0] == sparse[sparse > 0]).all()
    assert (result > 0).all()


def test_a_result_that_already_fits_is_not_changed(depth: np.ndarray) -> None:
    np.testing.assert_allclose(pass_through(depth, measured(depth, 200)), depth, rtol=1e-6)
    assert (pass_through(depth, np.zeros_like(depth)) == depth).all()


def test_a_common_error_is_corrected_everywhere_between_the_points(depth: np.ndarray) -> None:
    result = pass_through(depth, measured(depth, 400, 1.1))
    inner = (slice(8, -8), slice(8, -8))
    np.testing.assert_allclose(result[inner], 1.1 * depth[inner], rtol=0.02)


def test_a_lonely_measurement_makes_a_hill_not_a_spike() -> None:
    depth = np.full((256, 256), 2.0, np.float32)
    sparse = np.zeros_like(depth)
    sparse[128, 128] = 2.4
    result = np.log(pass_through(depth, sparse) / 2)
    top = result.max()
    assert result[128, 128] == pytest.approx(top) == pytest.approx(np.log(1.2))
    assert np.abs(np.diff(result, axis=0)).max() < 0.03 * top  # falls by little from pixel to pixel
    assert np.abs(result[0]).max() < 0.1 * top  # and is gone far away


def test_scale_of_the_input_does_not_matter(depth: np.ndarray) -> None:
    sparse = measured(depth, 60, np.random.default_rng(1).uniform(0.8, 1.2, 60))
    np.testing.assert_allclose(pass_through(depth * 1e3, sparse * 1e3), 1e3 * pass_through(depth, sparse), rtol=1e-5)
