"""The dense first guess: a pull-push pyramid."""

from __future__ import annotations

import torch
from torch import Tensor

from omnidc.network.prefill import prefill, push_residual


def sparse_map(density: float, height: int = 64, width: int = 96) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    log_depth = torch.randn(2, 1, height, width, generator=generator, dtype=torch.float64)
    mask = (torch.rand(log_depth.shape, generator=generator) < density).double()
    return log_depth * mask, mask


def test_prefill_of_constant_is_constant() -> None:
    _, mask = sparse_map(0.01)
    guess = prefill(1.7 * mask, mask)
    torch.testing.assert_close(guess.log_depth, torch.full_like(guess.log_depth, 1.7), atol=1e-6, rtol=0)


def test_prefill_without_measurements_is_zero() -> None:
    guess = prefill(torch.zeros(1, 1, 32, 64), torch.zeros(1, 1, 32, 64))
    assert torch.equal(guess.log_depth, torch.zeros(1, 1, 16, 32))
    assert torch.equal(guess.density, torch.zeros(1, 1, 16, 32))


def test_prefill_hardly_leaves_the_range_of_measurements() -> None:
    log_depth, mask = sparse_map(0.02)
    filled = prefill(log_depth, mask).log_depth
    for image in range(2):
        values = log_depth[image][mask[image] > 0]
        margin = 0.1 * (values.max() - values.min())
        assert filled[image].min() >= values.min() - margin
        assert filled[image].max() <= values.max() + margin


def test_prefill_of_slanted_plane_keeps_its_slope() -> None:
    plane = 0.01 * torch.arange(96, dtype=torch.float64).expand(1, 1, 64, 96)
    _, mask = sparse_map(0.02)
    filled = prefill(plane * mask[:1], mask[:1]).log_depth
    target = plane[..., ::2, ::2] + 0.005
    assert (filled - target)[..., 4:-4, 4:-4].abs().mean() < 0.02  # the plane spans 0.95


def test_prefill_of_densely_measured_plane_is_the_plane() -> None:
    plane = 0.01 * torch.arange(96, dtype=torch.float64).expand(1, 1, 64, 96)
    _, mask = sparse_map(0.2)
    filled = prefill(plane * mask[:1], mask[:1]).log_depth
    target = plane[..., ::2, ::2] + 0.005
    assert (filled - target)[..., 4:-4, 4:-4].abs().max() < 0.004  # a pixel is 0.01


def test_push_residual_is_that_of_the_measurements_near_them() -> None:
    weight = torch.zeros(1, 1, 64, 64, dtype=torch.float64)
    weight[..., 8, 8] = 1
    weight[..., 8, 40] = 1
    value = torch.zeros_like(weight)
    value[..., 8, 8], value[..., 8, 40] = 0.2, -0.1
    spread = push_residual(weight, value)
    assert abs(float(spread[0, 0, 8, 8]) - 0.2) < 0.03
    assert abs(float(spread[0, 0, 8, 40]) + 0.1) < 0.03
    assert spread[0, 0, 56:, :].abs().max() < 0.02


def test_prefill_shift_commutes() -> None:
    log_depth, mask = sparse_map(0.02)
    shifted = prefill((log_depth + 2) * mask, mask).log_depth
    torch.testing.assert_close(shifted, prefill(log_depth, mask).log_depth + 2, atol=1e-6, rtol=0)


def test_prefill_ignores_measurements_without_confidence() -> None:
    log_depth, mask = sparse_map(0.02)
    keep = mask * (torch.arange(96) % 2)
    torch.testing.assert_close(prefill(log_depth, keep).log_depth, prefill(log_depth * keep, keep).log_depth)


def test_prefill_dense_input_is_nearly_kept() -> None:
    log_depth = torch.randn(1, 1, 64, 64).repeat_interleave(2, 2).repeat_interleave(2, 3)
    filled = prefill(log_depth, torch.ones_like(log_depth)).log_depth
    assert (filled - log_depth[..., ::2, ::2]).abs().mean() < 0.1


def test_prefill_density_of_dense_input_is_one() -> None:
    guess = prefill(torch.zeros(1, 1, 32, 32), torch.ones(1, 1, 32, 32))
    assert guess.density.min() > 0.97
