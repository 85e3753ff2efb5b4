"""The dense first guess."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from omnidc.integrate import integrate
from omnidc.network.legacy.prefill import SPREAD, prefill


def points_of(log_depth: Tensor, share: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    valid = (torch.rand(log_depth.shape, generator=generator) < share).to(log_depth.dtype)
    return log_depth * valid, valid


def plane(height: int = 128, width: int = 192, slope: float = 1.0) -> Tensor:
    y, x = torch.linspace(-0.5, 0.5, height)[:, None], torch.linspace(-0.5, 0.5, width)
    return (slope * (0.7 * x + y)).expand(1, 1, height, width)


def rough(seed: int, height: int = 128, width: int = 192) -> Tensor:
    """Hills of all sizes, the smaller the lower."""
    generator = torch.Generator().manual_seed(seed)
    octaves = (2.0**-k * torch.randn(1, 1, 2 ** (k + 1), 2 ** (k + 1), generator=generator) for k in range(5))
    layers = [F.interpolate(octave, size=(height, width), mode="bilinear") for octave in octaves]
    return torch.stack(layers).sum(0)


@pytest.mark.parametrize("share", [0.002, 0.01])
def test_hills_are_guessed_better_than_by_one_harmonic_solve(share: float) -> None:
    truth = torch.cat([rough(seed) for seed in range(6)])
    log_depth, valid = points_of(truth, share)
    filled = F.avg_pool2d(valid, 4)
    tents, _ = integrate(
        [torch.zeros(6, 2, 32, 48)], F.avg_pool2d(log_depth, 4) / filled.clamp_min(1e-9), (filled > 0).float()
    )
    target = F.avg_pool2d(truth, 4)
    ours = prefill(log_depth, valid, 4).log_depth
    assert (ours - target).abs().mean() < 0.85 * (tents - target).abs().mean()


@pytest.mark.parametrize("share", [0.002, 0.01, 0.1])
def test_slopes_between_points_survive(share: float) -> None:
    truth = plane()
    error = (prefill(*points_of(truth, share), 4).log_depth - F.avg_pool2d(truth, 4)).abs()
    assert float(error[..., 4:-4, 4:-4].mean()) < 0.03


@settings(max_examples=20, deadline=None)
@given(shift=st.floats(-3, 3), seed=st.integers(0, 99), share=st.sampled_from([0.001, 0.01, 0.2]))
def test_a_common_factor_of_all_depths_shifts_the_guess_and_nothing_else(shift: float, seed: int, share: float) -> None:
    log_depth, valid = points_of(plane(64, 96), share, seed)
    one, other = prefill(log_depth, valid), prefill(log_depth + shift * valid, valid)
    if valid.any():
        torch.testing.assert_close(other.log_depth, one.log_depth + shift, rtol=0, atol=2e-3)
    torch.testing.assert_close(other.spread, one.spread, rtol=1e-2, atol=0)
    torch.testing.assert_close(other.support, one.support)


def test_without_a_measurement_the_guess_is_zero_and_the_spread_the_usual_one() -> None:
    nothing = torch.zeros(2, 1, 64, 96)
    guess = prefill(nothing, nothing)
    assert not guess.log_depth.any()
    assert not guess.support.any()
    torch.testing.assert_close(guess.spread, torch.full((2, 1, 1, 1), SPREAD))


@pytest.mark.parametrize("slope", [0.2, 0.5, 2.0])
def test_spread_follows_the_relief_of_the_scene(slope: float) -> None:
    log_depth, valid = points_of(plane(slope=slope), 0.2)
    expected = slope * math.sqrt((0.7**2 + 1) / 12)  # standard deviation of the plane
    assert float(prefill(log_depth, valid).spread) == pytest.approx(expected, rel=0.15)


def test_one_point_says_little_about_the_spread() -> None:
    log_depth, valid = torch.zeros(1, 1, 64, 64), torch.zeros(1, 1, 64, 64)
    valid[..., 20, 30] = 1
    assert float(prefill(log_depth, valid).spread) == pytest.approx(SPREAD, rel=0.2)


def test_support_is_full_at_points_and_fades_with_distance() -> None:
    valid = torch.zeros(1, 1, 256, 256)
    valid[..., 1, 1] = 1
    support = prefill(torch.zeros_like(valid), valid).support[0, 0]
    assert support[0, 0] == 1
    along = support[0, [0, 2, 5, 12, 24, 80]]
    assert bool((along.diff() < 0).all())
    assert along[-1] == 0


def test_any_size_that_is_a_multiple_of_the_cell_will_do() -> None:
    log_depth, valid = points_of(plane(36, 100), 0.05)
    assert prefill(log_depth, valid, 4).log_depth.shape == (1, 1, 9, 25)
