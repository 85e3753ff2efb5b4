"""What outliers are told by."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from omnidc.network.legacy.trust import DEPTH_STEP, FEATURES, FITS, WINDOWS, Surroundings, Trust, surroundings


def scene(height: int = 40, width: int = 56, share: float = 0.3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.rand(1, 1, height, width, generator=generator) < share).float()
    return torch.randn(1, 1, height, width, generator=generator) * mask, mask


def slow_surroundings(values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Point by point, with the least-squares routine of NumPy."""
    points = np.argwhere(known)
    z = values[known].astype(np.float64)
    places = (points - [known.shape[0] / 2, known.shape[1] / 2]) / 16
    blocks = {size: points // size for size in WINDOWS}
    weight = np.ones(len(z))

    def others(i: int, size: int) -> np.ndarray:
        near = (np.abs(blocks[size] - blocks[size][i]) <= 1).all(axis=1)
        near[i] = False
        return near

    def first_that_tells(rows: list[np.ndarray], counts: list[np.ndarray]) -> np.ndarray:
        return np.array(
            [
                next((row[i] for row, count in zip(rows, counts, strict=True) if count[i] >= 3), rows[-1][i])
                for i in range(len(z))
            ]
        )

    for _ in range(FITS):
        apart, scatters, totals = ([np.zeros(len(z)) for _ in WINDOWS] for _ in range(3))
        for k, size in enumerate(WINDOWS):
            for i in range(len(z)):
                near = others(i, size)
                total = weight[near].sum()
                totals[k][i] = total
                if total <= 0.05:
                    continue
                w = weight[near] / total
                centre, mean = w @ places[near], w @ z[near]
                offsets, heights = places[near] - centre, z[near] - mean
                covariance = offsets.T @ (w[:, None] * offsets)
                slope = np.linalg.solve(covariance + (size / 32) ** 2 / total * np.eye(2), offsets.T @ (w * heights))
                scatter = np.sqrt(w @ np.square(heights - offsets @ slope))
                apart[k][i] = z[i] - mean - (places[i] - centre) @ slope
                scatters[k][i] = apart[k][i] / (scatter + 0.02)
        weight = 1 / (1 + (first_that_tells(scatters[1:], totals[1:]) / 2) ** 2) ** 2
    steps = np.clip(np.round(values[known] / np.float32(DEPTH_STEP)), -40, 40)
    same = [np.array([(np.abs(steps[others(i, s)] - steps[i]) <= 1).sum() for i in range(len(z))]) for s in WINDOWS]
    count = [np.array([others(i, s).sum() for i in range(len(z))]) for s in WINDOWS]
    features = np.zeros((FEATURES, *known.shape))
    for k in range(len(WINDOWS)):
        rows = [apart[k].clip(-6, 6), scatters[k].clip(-6, 6), np.log1p(count[k]), (same[k] + 0.5) / (count[k] + 1)]
        for j, row in enumerate(rows):
            features[4 * k + j][known] = row
    far = np.abs(first_that_tells(scatters, count))
    alone = first_that_tells([s / np.maximum(n, 1) for s, n in zip(same, count, strict=True)], count) < 0.15
    told = np.zeros_like(known)
    told[known] = count[-1] >= 6
    wrong = told[known] & ((far > 6) | ((far > 3) & alone))
    features[-1][known] = np.log((wrong.sum() + 0.05) / (len(z) + 1))
    return features, told


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_surroundings_are_those_of_a_plain_loop_over_the_other_measurements(share: float) -> None:
    log_depth, mask = scene(share=share)
    fast = surroundings(log_depth, mask)
    features, told = slow_surroundings(log_depth[0, 0].numpy(), mask[0, 0].numpy() > 0)
    for feature, expected in zip(fast.features.unbind(1), features, strict=True):
        np.testing.assert_allclose(fast.points.on_map(feature)[0, 0].numpy(), expected, atol=5e-3)
    assert np.array_equal(fast.points.on_map(fast.told)[0, 0].numpy(), told)


def plainly_wrong(around: Surroundings) -> float:
    """Their number, from the feature of all measurements that holds the logarithm of their share."""
    return float(around.features[:, -1].unique().exp()) * (len(around.features) + 1) - 0.05


@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_an_outlier_stands_out_and_its_neighbours_do_not(slope: float) -> None:
    _, mask = scene()
    noise = 0.05 * torch.randn(mask.shape, generator=torch.Generator().manual_seed(1))
    mask[..., 20, 28] = 1
    log_depth = (noise + slope * torch.linspace(0, 1, mask.shape[-1])) * mask
    log_depth[..., 20, 28] += 2.0
    around = surroundings(log_depth, mask)
    assert plainly_wrong(around) == pytest.approx(1, abs=0.01)
    apart = around.points.on_map(around.features[:, 0].abs())
    assert int(apart.argmax()) == 20 * mask.shape[-1] + 28
    assert float(apart.flatten().sort().values[-2]) < 0.7


def test_nobody_at_a_depth_edge_is_doubted() -> None:
    _, mask = scene()
    step = (torch.arange(mask.shape[-1]) > 28).float() * mask
    assert plainly_wrong(surroundings(step, mask)) == pytest.approx(0, abs=0.01)


def test_images_of_a_batch_do_not_share_their_wrong_measurements() -> None:
    _, mask = scene()
    flat = torch.zeros_like(mask)
    bad = flat.clone()
    bad[..., 10:30:4, 10:40:6] = 3.0
    pair = surroundings(torch.cat([flat, bad * mask]), torch.cat([mask, mask]))
    first, second = (pair.features[pair.points.image == image] for image in (0, 1))
    alone = surroundings(flat, mask).features
    torch.testing.assert_close(first, alone)
    assert float(second[:, -1].min()) > float(alone[:, -1].max())


def test_trust_starts_by_believing_every_measurement_alike() -> None:
    around = surroundings(*scene())
    assert around.features.shape[1] == FEATURES
    assert torch.equal(Trust()(around), torch.full_like(around.features[:, 0], 3.0))


def test_without_measurements_there_is_nothing_to_judge() -> None:
    nothing = torch.zeros(2, 1, 8, 8)
    assert Trust()(surroundings(nothing, nothing)).shape == (0,)
