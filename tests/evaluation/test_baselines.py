from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import InputError
from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.baselines.interpolation import idw, linear, nearest
from omnidc.evaluation.baselines.morphology import ip_basic
from omnidc.evaluation.methods import aligned
from omnidc.integrate.reference import difference_matrix
from omnidc.pipeline.alignment import align, fit, fit_robust


def scene(
    points: int = 60, shape: tuple[int, int] = (40, 56), seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two walls, the right one twice as far and of another color; a few points."""
    rng = np.random.default_rng(seed)
    depth = np.full(shape, 2.0, np.float32)
    depth[:, shape[1] // 2 :] = 4.0
    image = np.where(depth[..., None] > 3, np.uint8(200), np.uint8(40)) * np.ones(3, np.uint8)
    sparse = np.zeros(shape, np.float32)
    chosen = rng.choice(depth.size, points, replace=False)
    sparse.flat[chosen] = depth.flat[chosen]
    return image.astype(np.uint8), sparse, depth


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("points", [1, 3, 5, 60, 40 * 56])
def test_baselines_stay_within_range_of_points(name: str, points: int) -> None:
    image, sparse, _ = scene(points)
    result = BASELINES[name](image, sparse, None)
    assert result.shape == sparse.shape
    assert result.dtype == np.float32
    assert np.isfinite(result).all()
    measured = sparse[sparse > 0]
    assert result.min() >= measured.min() * 0.99
    assert result.max() <= measured.max() * 1.01


@pytest.mark.parametrize("name", BASELINES)
def test_baseline_without_points_returns_zeros(name: str) -> None:
    image, sparse, _ = scene()
    assert not BASELINES[name](image, np.zeros_like(sparse), None).any()


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "ip-basic"])  # made for meters
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_every_baseline_is_scale_equivariant(name: str, unit: float) -> None:
    image, sparse, _ = scene()
    one = BASELINES[name](image, sparse, None)
    other = BASELINES[name](image, sparse * np.float32(unit), None)
    assert np.allclose(other, one * unit, rtol=2e-3)


@pytest.mark.parametrize("name", ["nearest", "linear", "idw", "morphology", "bilateral"])
def test_measured_pixels_are_kept(name: str) -> None:
    image, sparse, _ = scene()
    result = BASELINES[name](image, sparse, None)
    assert np.allclose(result[sparse > 0], sparse[sparse > 0], rtol=1e-5)


@pytest.mark.parametrize("name", ["bilateral", "edge-aware"])
def test_guided_baselines_use_the_photograph(name: str) -> None:
    image, sparse, depth = scene(30)
    blank = np.full_like(image, 128)
    guided = np.abs(BASELINES[name](image, sparse, None) - depth).mean()
    blind = np.abs(BASELINES[name](blank, sparse, None) - depth).mean()
    assert guided < 0.5 * blind


@pytest.mark.parametrize("name", ["nearest", "linear", "idw", "morphology", "harmonic"])
def test_unguided_baselines_do_not(name: str) -> None:
    image, sparse, _ = scene(30)
    blank = np.full_like(image, 128)
    assert np.array_equal(BASELINES[name](image, sparse, None), BASELINES[name](blank, sparse, None))


def test_linear_baseline_reproduces_plane() -> None:
    y, x = np.mgrid[:30, :40]
    depth = np.exp(0.02 * x - 0.01 * y + 1).astype(np.float32)
    sparse = np.zeros_like(depth)
    sparse[::29, ::39] = depth[::29, ::39]  # the four corners
    sparse[11, 23] = depth[11, 23]
    image = np.zeros((*depth.shape, 3), np.uint8)
    assert np.allclose(linear(image, sparse), depth, rtol=1e-4)
    assert not np.allclose(nearest(image, sparse), depth, rtol=0.05)


def test_linear_survives_points_on_one_line() -> None:
    sparse = np.zeros((20, 20), np.float32)
    sparse[5, ::4] = 3.0
    image = np.zeros((20, 20, 3), np.uint8)
    assert np.allclose(linear(image, sparse), 3.0)


def test_idw_equals_its_slow_definition() -> None:
    image, sparse, _ = scene(20, (12, 15))
    points = np.argwhere(sparse > 0)
    logs = np.log(sparse[sparse > 0].astype(np.float64))
    result = idw(image, sparse)
    for pixel in [(0, 0), (11, 14), (6, 7), (3, 9)]:
        if sparse[pixel] > 0:
            continue
        squared = ((points - pixel) ** 2).sum(axis=1).astype(float)
        # The cut at the eighth neighbor is ambiguous where the ninth is as far; those pixels are skipped.
        order = np.argsort(squared)
        if squared[order[7]] == squared[order[8]]:
            continue
        weight = 1 / squared[order[:8]]
        assert result[pixel] == pytest.approx(math.exp((weight @ logs[order[:8]]) / weight.sum()), rel=1e-5)


def test_harmonic_equals_the_direct_solution() -> None:
    image, sparse, _ = scene(25, (16, 20))
    difference = difference_matrix(16, 20).toarray()
    anchor = np.diag(5.0 * (sparse > 0).ravel())
    observed = np.log(np.where(sparse > 0, sparse, 1.0)).ravel()
    exact = np.linalg.solve(difference.T @ difference + anchor, anchor @ observed).reshape(sparse.shape)
    assert np.allclose(np.log(BASELINES["harmonic"](image, sparse, None)), exact, atol=2e-3)


@given(st.floats(0.1, 10), st.floats(-0.5, 5), st.integers(0, 2**32 - 1))
def test_both_fits_recover_an_exact_line(scale: float, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mono = rng.uniform(1, 9, 30)
    target = scale * mono + shift + 1
    for a, b in (fit(mono, target), fit_robust(mono, target, rng)):
        assert a == pytest.approx(scale, rel=1e-6)
        assert b == pytest.approx(shift + 1, abs=1e-5)


def test_only_the_robust_fit_ignores_outliers() -> None:
    rng = np.random.default_rng(0)
    mono = rng.uniform(1, 9, 200)
    target = 2 * mono + 1
    target[:60] = rng.uniform(1, 100, 60)
    # A few outliers lie within 10 % of the line by chance and stay in.
    assert fit_robust(mono, target, rng) == pytest.approx((2, 1), abs=0.05)
    assert fit(mono, target)[1] > 5


def test_weights_decide_what_counts() -> None:
    mono, target = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 90.0])
    assert fit(mono, target, np.array([1.0, 1.0, 0.0])) == pytest.approx((2, 0))


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("space", ["depth", "disparity"])
def test_alignment_recovers_scale_and_shift(space: str, robust: bool) -> None:
    rng = np.random.default_rng(1)
    depth = rng.uniform(1, 8, (20, 30)).astype(np.float32)
    mono = 3 * depth + 2 if space == "depth" else 3 / depth + 2
    sparse = np.where(rng.random(depth.shape) < 0.1, depth, 0).astype(np.float32)
    method = aligned(lambda image: mono, space, robust)  # type: ignore[arg-type]
    assert np.allclose(method(np.zeros((20, 30, 3), np.uint8), sparse, None), depth, rtol=1e-4)


def test_alignment_stays_positive_where_the_line_does_not() -> None:
    mono = np.array([[0.0, 1.0, 2.0, 3.0, 50.0]])
    sparse = np.array([[0.0, 4.0, 3.0, 2.0, 0.0]], np.float32)
    for space in ("depth", "disparity"):
        result = align(mono, sparse, space)  # type: ignore[arg-type]
        assert np.isfinite(result).all()
        assert (result > 0).all()


def test_one_point_fixes_the_scale() -> None:
    mono = np.array([[1.0, 2.0, 4.0]])
    sparse = np.array([[0.0, 6.0, 0.0]], np.float32)
    assert np.allclose(align(mono, sparse), [[3.0, 6.0, 12.0]])


def test_alignment_bad_input_is_explained() -> None:
    with pytest.raises(InputError, match="nothing to align"):
        align(np.ones((3, 3)), np.zeros((3, 3), np.float32))
    with pytest.raises(InputError, match="resize"):
        align(np.ones((3, 4)), np.ones((3, 3), np.float32))


def test_ip_basic_spreads_the_nearer_depth_in_meters() -> None:
    sparse = np.zeros((60, 80), np.float32)
    sparse[30, 30], sparse[30, 33] = 10.0, 20.0
    depth = ip_basic(np.zeros((60, 80, 3), np.uint8), sparse)
    assert depth[30, 31] == pytest.approx(10, abs=0.5)
    assert depth[0, 30] == pytest.approx(10, abs=0.5)  # extended to the top
    assert depth[59, 79] == pytest.approx(20, abs=0.5)  # beyond the largest kernel: the nearest point


def test_ip_basic_is_bound_to_meters_and_ours_is_not() -> None:
    image, sparse, _ = scene(60)
    ours = [BASELINES["morphology"](image, np.float32(unit) * sparse, None) / unit for unit in (1, 1000)]
    theirs = [ip_basic(image, np.float32(unit) * sparse, None) / unit for unit in (1, 1000)]
    np.testing.assert_allclose(ours[0], ours[1], rtol=0.02)
    assert np.abs(theirs[0] - theirs[1]).max() > 0.1
