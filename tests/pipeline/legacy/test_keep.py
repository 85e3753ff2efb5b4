from __future__ import annotations

import numpy as np
import pytest

from omnidc.pipeline.legacy.keep import SAME_DEPTH, _Layers, draw_near, pass_through


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
    assert result[128, 128] == pytest.approx(np.log(1.2)) == pytest.approx(top, rel=0.01)
    assert np.abs(np.diff(result, axis=0)).max() < 0.03 * top  # falls by little from pixel to pixel
    assert np.abs(result[0]).max() < 0.1 * top  # and is gone far away


def test_scale_of_the_input_does_not_matter(depth: np.ndarray) -> None:
    sparse = measured(depth, 60, np.random.default_rng(1).uniform(0.8, 1.2, 60))
    np.testing.assert_allclose(pass_through(depth * 1e3, sparse * 1e3), 1e3 * pass_through(depth, sparse), rtol=1e-5)


def slow_layers(log_depth: np.ndarray, points: np.ndarray, error: np.ndarray, sigma: float) -> list[np.ndarray]:
    """The bilateral grid as a product of small matrices, one per axis and step."""
    low, high = np.quantile(log_depth[::4, ::4], (0.01, 0.99))
    step = max(SAME_DEPTH, (high - low) / 32)
    rows, columns = np.mgrid[: log_depth.shape[0], : log_depth.shape[1]]
    places = [(log_depth.clip(low, high) - low) / step, rows / sigma, columns / sigma]

    def tents(at: np.ndarray, count: int) -> np.ndarray:  # [...] → [..., count]
        return np.maximum(0, 1 - np.abs(at[..., None] - np.arange(count)))

    def blurred(shares: np.ndarray) -> np.ndarray:
        apart = np.abs(np.subtract.outer(np.arange(shares.shape[-1]), np.arange(shares.shape[-1])))
        return shares @ np.where(apart <= 2, np.exp(-0.5 * apart**2), 0)

    counts = [int(one.max()) + 2 for one in places]
    given = [blurred(tents(one[points], count)) for one, count in zip(places, counts, strict=True)]
    read = [tents(one, count) for one, count in zip(places, counts, strict=True)]
    weight = np.prod([np.einsum("hwk,nk->hwn", r, g) for r, g in zip(read, given, strict=True)], axis=0)
    return [weight @ error, weight.sum(-1)]


@pytest.mark.parametrize("sigma", [2.5, 7.0])
def test_the_bilateral_grid_is_that_of_a_plain_product_of_matrices(sigma: float) -> None:
    rng = np.random.default_rng(0)
    log_depth = np.cumsum(rng.normal(0, 0.03, (24, 36)), axis=1).astype(np.float32)
    points = rng.random(log_depth.shape) < 0.05
    error = rng.normal(0, 0.1, points.sum()).astype(np.float32)
    fast = _Layers(log_depth, *np.nonzero(points)).spread(error, sigma)
    for mine, theirs in zip(fast, slow_layers(log_depth, points, error, sigma), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


def test_what_is_wrong_with_the_foreground_leaves_the_background_alone() -> None:
    depth = np.full((96, 128), 4.0, np.float32)
    depth[30:60, 40:80] = 2.0
    sparse = measured(depth, 300)
    sparse[30:60, 40:80] *= 1.1
    result = draw_near(depth, sparse)
    near_edge = np.zeros(depth.shape, bool)
    near_edge[20:70, 30:90] = True
    near_edge[26:64, 36:84] = False
    assert np.abs(result[near_edge] / 4 - 1).max() < 0.02
    assert np.abs(result[34:56, 44:76] / 2.2 - 1).mean() < 0.01
