"""Stage 1: the features of a measurement's neighborhood, and the classifier on top of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from omnidc.network.screen import (
    BLOCK,
    CANDIDATES,
    FEATURES,
    GRIDS,
    LEAST_EVIDENCE,
    MOST_EVIDENCE,
    REACH,
    SCATTER,
    SUPPORT,
    SUPPORT_SLOPE,
    WINDOWS,
    OutlierClassifier,
    _agreement,
    _block_positions,
    _block_sums,
    _leave_one_out,
    local_features,
    neighbor_evidence,
    neighborhood_features,
)


def random_candidates(density: float, height: int = 12, width: int = 20) -> tuple[Tensor, Tensor]:
    """z and valid, [1, 8, h, w], of a slanted plane with noise."""
    generator = torch.Generator().manual_seed(0)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    plane = (0.05 * x - 0.1 * y).double()
    z = plane + 0.1 * torch.randn(1, CANDIDATES, height, width, generator=generator, dtype=torch.float64)
    valid = (torch.rand(z.shape, generator=generator) < density).double()
    return z * valid, valid


def explicit_residual(z: Tensor, weight: Tensor, window: int, index: tuple[int, int, int]) -> float:
    """The slow twin of `_leave_one_out`: a ridge regression on all others of the window, without tricks."""
    x, y = (p.numpy().ravel() for p in _block_positions(z))
    c, row, column = index
    height, width = z.shape[-2:]
    first = [max(0, (i // window - 1) * window) for i in (row, column)]
    last = [(i // window + 2) * window for i in (row, column)]
    rows, values, weights = [], [], []
    for i in range(first[0], min(last[0], height)):
        for j in range(first[1], min(last[1], width)):
            for k in range(z.shape[1]):
                if weight[0, k, i, j] > 0 and (k, i, j) != index:
                    rows.append([1.0, x[j], y[i]])
                    values.append(float(z[0, k, i, j]))
                    weights.append(float(weight[0, k, i, j]))
    A, b, w = np.array(rows), np.array(values), np.array(weights)
    ridge = np.diag([0.0, 1.0, 1.0]) * (window / WINDOWS[-1]) ** 2
    solution = np.linalg.solve(A.T @ (w[:, None] * A) + ridge, A.T @ (w * b))
    plane = float(solution @ [1.0, x[column], y[row]])
    others = w.sum()
    return (float(z[0, c, row, column]) - plane) * others / (others + 0.5)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("density", [0.05, 0.6])
def test_leave_one_out_equals_explicit_regression(window: int, density: float) -> None:
    z, valid = random_candidates(density)
    generator = torch.Generator().manual_seed(1)
    weight = valid * (0.2 + 0.8 * torch.rand(valid.shape, generator=generator, dtype=torch.float64))
    fit = _leave_one_out(z, weight, _block_sums(z, weight), _block_positions(z), window)
    checked = 0
    for _, c, row, column in valid.nonzero()[::7].tolist():
        if float(fit.others[0, c, row, column]) < 2:
            continue
        expected = explicit_residual(z, weight, window, (c, row, column))
        assert float(fit.residual[0, c, row, column]) == pytest.approx(expected, rel=1e-6, abs=1e-9)
        checked += 1
    assert checked > 3


def test_features_of_lonely_measurement_are_zero() -> None:
    z, valid = torch.zeros(1, CANDIDATES, 8, 8), torch.zeros(1, CANDIDATES, 8, 8)
    z[0, 0, 3, 3], valid[0, 0, 3, 3] = 2.0, 1.0
    features = neighborhood_features(z, valid)
    assert all(row.shape == (1, CANDIDATES, 8, 8) for row in features)
    assert max(float(row[0, 0, 3, 3].abs()) for row in features[:-2]) < 1e-5  # but the two shares of the image
    near_and_far = (torch.full((1, 2, 16, 16), 2.0), torch.zeros(1, 2, 16, 16))
    near_and_far[1][0, 0, 5, 5] = 1.0
    assert all(float(row[0, 0, 5, 5]) == 0 for row in local_features(*near_and_far))
    assert len(features) + len(local_features(*near_and_far)) == FEATURES


def test_features_of_outlier_exceed_those_of_its_neighbors() -> None:
    z, valid = random_candidates(0.3)
    row, column = (int(i) for i in valid[0, 0].nonzero()[20])
    z[0, 0, row, column] += 3.0
    scaled = neighborhood_features(z, valid)[1][0]  # |residual| in scatters, finest window
    typical = scaled[valid[0] > 0].median()
    assert scaled[0, row, column] > 5.9  # clipped at 6
    assert typical < 2


def test_share_of_isolated_measurements_ignores_a_depth_edge() -> None:
    """Both images have measurements far from the plane; only outliers are far from the others on their side, too."""
    generator = torch.Generator().manual_seed(0)
    valid = (torch.rand(1, CANDIDATES, 32, 32, generator=generator) < 0.1).float()
    step = 0.01 * torch.randn(1, CANDIDATES, 32, 32, generator=generator)
    step[..., 16:, :] += 3.0
    outliers = 0.01 * torch.randn(1, CANDIDATES, 32, 32, generator=generator)
    wrong = torch.rand(1, CANDIDATES, 32, 32, generator=generator) < 0.1
    outliers = outliers + 4 * wrong * torch.randn(1, CANDIDATES, 32, 32, generator=generator)
    share_of_edge, share_of_outliers = (
        float(neighborhood_features(z * valid, valid)[-1].max()) for z in (step, outliers)
    )
    assert share_of_outliers > math.log(0.02)
    assert share_of_edge < share_of_outliers - 1


def test_local_features_equal_slow_twin() -> None:
    generator = torch.Generator().manual_seed(0)
    z = 0.1 * torch.randn(1, 2, 6, 7, generator=generator, dtype=torch.float64)
    valid = (torch.rand(1, 2, 6, 7, generator=generator) < 0.6).double()
    share, count = local_features(z, valid)
    for c, row, column in ((0, 0, 0), (1, 3, 4), (0, 5, 6), (1, 2, 0)):
        others = [
            float(z[0, k, row + dy, column + dx])
            for dy, dx in ((-1, 0), (0, -1), (0, 1), (1, 0))
            for k in (0, 1)
            if 0 <= row + dy < 6 and 0 <= column + dx < 7 and valid[0, k, row + dy, column + dx]
        ]
        agreeing = sum(1 / (1 + ((float(z[0, c, row, column]) - other) / SCATTER) ** 2) for other in others)
        assert float(share[0, c, row, column]) == pytest.approx(agreeing / (len(others) + 0.5))
        assert float(count[0, c, row, column]) == pytest.approx(math.log1p(len(others)))


def explicit_agreement(
    z: Tensor, valid: Tensor, slope: tuple[float, float], grid: int, index: tuple[int, ...]
) -> list[float]:
    """The slow twin of `_agreement` for one measurement and one slope."""
    c, row, column = index
    shares, count = [0.0, 0.0], 0
    for i in range(-REACH, REACH + 1):
        for j in range(-REACH, REACH + 1):
            top, left = (row // grid + i) * grid, (column // grid + j) * grid
            if (i, j) == (0, 0) or top < 0 or left < 0:
                continue
            cell = z[0, :, top : top + grid, left : left + grid], valid[0, :, top : top + grid, left : left + grid]
            values = cell[0][cell[1] > 0].tolist()
            rise = (slope[0] * j + slope[1] * i) * grid / WINDOWS[-1]
            for value in {min(values), max(values)} if values else ():
                apart = z[0, c, row, column].item() - value
                shares[0] += 1 / (1 + (apart / SCATTER) ** 2)
                shares[1] += 1 / (1 + ((apart + rise) / SCATTER) ** 2)
                count += 1
    return [shares[0] / (count + 0.5), shares[1] / (count + 0.5), math.log1p(count)]


@pytest.mark.parametrize("density", [0.03, 0.4])
@pytest.mark.parametrize("grid", GRIDS)
def test_agreement_equals_slow_twin(grid: int, density: float) -> None:
    z, valid = random_candidates(density, height=14, width=22)  # no multiples of the cells
    slope = 0.8, -1.6  # of the plane: 0.05 and −0.1 a block
    maps = torch.full_like(z[:, :1], slope[0]), torch.full_like(z[:, :1], slope[1])
    features = _agreement(z, valid, maps, grid)
    for index in [tuple(i) for i in valid[0].nonzero().tolist()][::7]:
        expected = explicit_agreement(z, valid, slope, grid, index)
        assert [float(one[0][index]) for one in features] == pytest.approx(expected, rel=1e-9)


def test_agreement_of_a_slanted_plane_is_seen_along_its_slope() -> None:
    z, valid = random_candidates(0.2)
    y, x = torch.meshgrid(torch.arange(12), torch.arange(20), indexing="ij")
    z = (0.05 * x - 0.1 * y).double().expand_as(z) * valid
    maps = torch.full_like(z[:, :1], 0.8), torch.full_like(z[:, :1], -1.6)
    flat, sloped, _ = (one[valid > 0] for one in _agreement(z, valid, maps, 2))
    assert (sloped > flat).all()
    assert sloped.mean() > 1.5 * flat.mean()


def test_screen_shifted_measurements_give_equal_logits() -> None:
    torch.manual_seed(0)
    screen = OutlierClassifier().double()
    torch.nn.init.normal_(screen.layer3.weight)
    valid = (torch.rand(1, 1, 32, 48) < 0.2).double()
    z = torch.randn(1, 1, 32, 48, dtype=torch.float64)
    for one, other in zip(screen(z * valid, valid), screen((z + 3) * valid, valid), strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=0)


def test_screen_without_measurements_is_zero() -> None:
    logit, agreement = OutlierClassifier()(torch.zeros(2, 1, 32, 32), torch.zeros(2, 1, 32, 32))
    assert torch.equal(logit, torch.zeros(2, 1, 32, 32))
    assert torch.equal(agreement, torch.zeros(2, 1, 32, 32))


def test_screen_agreement_is_that_of_dense_neighbors() -> None:
    screen, (y, x) = OutlierClassifier(), torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    z = (0.01 * x + 0.02 * y)[None, None]
    z[..., 10:14, 8:24] += 2  # a gap through which another surface is seen
    z[..., 20, 20] -= 1  # a speckle
    agreement = screen(z, torch.ones_like(z))[1][0, 0]
    assert (agreement[11:13, 10:22] > 0.9).all()
    assert agreement[20, 20] < 0.01
    sparse = torch.zeros_like(z)
    sparse[..., ::2, ::3] = 1
    assert screen(z * sparse, sparse)[1].abs().max() == 0


def test_screen_judges_two_measurements_of_a_cell_apart() -> None:
    torch.manual_seed(0)
    screen = OutlierClassifier()
    torch.nn.init.normal_(screen.layer3.weight)
    z, valid = 0.01 * torch.randn(1, 1, 32, 32), torch.ones(1, 1, 32, 32)
    z[0, 0, 16, 16] = 4.0
    logit = screen(z, valid)[0][0, 0]
    around = logit[16:18, 16:18].clone()
    assert (around[0, 0] - around[1, 1]).abs() > 0.5
    assert (around[1, 1] - logit[24, 24]).abs() < (around[0, 0] - logit[24, 24]).abs()


def test_screen_block_divides_windows() -> None:
    assert BLOCK == 4
    assert all(WINDOWS[-1] % window == 0 for window in WINDOWS)


@pytest.mark.parametrize("density", [0.5, 0.8, 1.0])
def test_neighbor_evidence_equals_slow_twin(density: float) -> None:
    generator = torch.Generator().manual_seed(0)
    z = 0.1 * torch.randn(1, 1, 7, 9, generator=generator, dtype=torch.float64)
    valid = (torch.rand(z.shape, generator=generator) < density).double()
    result = neighbor_evidence(z * valid, valid)
    for _, _, row, column in valid.nonzero().tolist():
        places = [(row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        others = [(i, j) for i, j in places if 0 <= i < 7 and 0 <= j < 9 and valid[0, 0, i, j] > 0]
        apart = [float(z[0, 0, row, column] - z[0, 0, i, j]) for i, j in others]
        agreeing = sum(1 / (1 + (d / SCATTER) ** 2) for d in apart)
        evidence = SUPPORT_SLOPE * (8 * agreeing / max(1, len(others)) - SUPPORT)
        dense = min(max(len(others) - 4, 0), 4) / 4
        expected = dense * min(max(evidence, LEAST_EVIDENCE), MOST_EVIDENCE)
        assert float(result[0, 0, row, column]) == pytest.approx(expected, abs=1e-9)


def test_neighbor_evidence_separates_edges_from_flying_pixels() -> None:
    z = torch.zeros(1, 1, 12, 16)
    z[..., 8:] = 2.0
    z[..., 6, 7], z[..., 3, 3] = 1.0, -1.5  # a flying pixel beside the edge, a speckle
    evidence = neighbor_evidence(z, torch.ones_like(z))[0, 0, 1:-1, 1:-1]
    expected = torch.full_like(evidence, MOST_EVIDENCE)
    wrong = [(5, 6), (2, 2)]
    for place in wrong:
        assert evidence[place] < -5
        expected[place] = evidence[place]
    torch.testing.assert_close(evidence, expected)


def test_neighbor_evidence_of_sparse_measurements_is_zero() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(1, 1, 32, 32, generator=generator)
    valid = (torch.rand(z.shape, generator=generator) < 0.05).float()
    valid[..., 16, :] = 1  # a scan line
    assert not (neighbor_evidence(z * valid, valid) * valid).any()
