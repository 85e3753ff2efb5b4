from __future__ import annotations

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import ConfigError
from omnidc.network import normalize


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=24), st.integers(0, 2**31))
def test_median_is_the_lower_middle_measurement(depths: list[float], seed: int) -> None:
    places = torch.randperm(35, generator=torch.Generator().manual_seed(seed))[: len(depths)]
    sparse = torch.zeros(35, dtype=torch.float64)
    sparse[places] = torch.tensor(depths, dtype=torch.float64)
    assert normalize.masked_median(sparse.view(1, 1, 5, 7)).item() == statistics.median_low(depths)


def test_median_is_per_image_and_one_without_measurements() -> None:
    sparse = torch.zeros(3, 1, 4, 4)
    sparse[0, 0, 1, 1] = 7.0
    sparse[2, 0, 0, :2] = torch.tensor([3.0, 5.0])
    assert normalize.masked_median(sparse).flatten().tolist() == [7.0, 1.0, 3.0]


def test_masked_log_is_zero_without_measurement() -> None:
    sparse = torch.tensor([[0.0, 1.0, math.e]], dtype=torch.float64).view(1, 1, 1, 3).requires_grad_()
    log, mask = normalize.masked_log(sparse)
    log.sum().backward()
    torch.testing.assert_close(log.detach().flatten(), torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
    assert mask.flatten().tolist() == [0.0, 1.0, 1.0]
    assert sparse.grad is not None
    torch.testing.assert_close(sparse.grad.flatten(), torch.tensor([0.0, 1.0, 1 / math.e], dtype=torch.float64))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_downsampling_keeps_nearest_in_any_unit(unit: float) -> None:
    generator = torch.Generator().manual_seed(5)
    sparse = torch.rand(2, 1, 12, 16, generator=generator) * unit
    sparse[torch.rand(sparse.shape, generator=generator) < 0.9] = 0
    depth, mask = normalize.downsample_sparse(sparse, 4)
    for b in range(2):
        for i in range(3):
            for j in range(4):
                cell = [v for v in sparse[b, 0, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].flatten().tolist() if v > 0]
                assert depth[b, 0, i, j].item() == min(cell, default=0.0)
                assert mask[b, 0, i, j].item() == bool(cell)
    assert 0 < mask.sum() < mask.numel()


def test_imagenet_maps_the_mean_color_to_zero() -> None:
    color = torch.tensor(normalize.IMAGENET_MEAN).view(1, 3, 1, 1)
    assert normalize.normalize_imagenet(color).abs().max() == 0
    white = normalize.normalize_imagenet(torch.ones(1, 3, 1, 1)).flatten()
    torch.testing.assert_close(white, torch.tensor([0.515 / 0.229, 0.544 / 0.224, 0.594 / 0.225]))


@pytest.mark.parametrize("mode", ["replicate", "mean"])
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (16, 32), (17, 16)])
def test_padding_only_adds_rows_below_and_columns_right(mode: str, size: tuple[int, int]) -> None:
    image, sparse = torch.rand(2, 3, *size), torch.rand(2, 1, *size)
    padded, padded_sparse, original = normalize.pad_to_multiple(image, sparse, 16, mode)
    height, width = size
    assert original == size
    assert padded.shape[-2] % 16 == padded.shape[-1] % 16 == 0
    assert padded.shape[-2] - height < 16
    assert padded.shape[-1] - width < 16
    assert torch.equal(padded[..., :height, :width], image)
    assert torch.equal(padded_sparse[..., :height, :width], sparse)
    assert padded_sparse.count_nonzero() == sparse.count_nonzero()
    outside = padded[..., height:, :]
    if mode == "mean":
        assert normalize.normalize_imagenet(outside).abs().sum() == 0
    elif height % 16:
        assert torch.equal(outside[..., :width], image[..., -1:, :].expand_as(outside[..., :width]))


def test_unknown_padding_is_named() -> None:
    with pytest.raises(ConfigError, match="mirror"):
        normalize.pad_to_multiple(torch.rand(1, 3, 3, 3), torch.rand(1, 1, 3, 3), 2, "mirror")


def test_refine_spread_is_geometric_mean_with_guess() -> None:
    generator = torch.Generator().manual_seed(0)
    norm = normalize.Normalization(torch.ones(2, 1, 1, 1), torch.full((2, 1, 1, 1), 0.2))
    guess = (
        torch.randn(2, 1, 60, 80, generator=generator, dtype=torch.float64)
        * torch.tensor([0.3, 0.8])[:, None, None, None]
    )
    refined = normalize.refine_spread(norm, guess, torch.ones(2, 1, 480, 640))
    expected = [math.sqrt(0.2 * 0.3), math.sqrt(0.2 * 0.8)]
    assert refined.log_std.flatten().tolist() == pytest.approx(expected, rel=0.03)
    assert torch.equal(refined.median, norm.median)


def test_refine_spread_without_measurements_is_the_prior() -> None:
    norm = normalize.normalization(torch.zeros(1, 1, 32, 32))
    refined = normalize.refine_spread(norm, torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 32, 32))
    assert refined.log_std.item() == pytest.approx(normalize.PRIOR_LOG_STD)
