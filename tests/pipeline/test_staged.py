"""Networks in stages at other sizes than the output's, and through every measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from omnidc.network.interpolate import Interpolator
from omnidc.pipeline.staged import pass_through, run_staged, tile_side


def surface(height: int = 45, width: int = 64) -> tuple[Tensor, Tensor]:
    """A gray image and a smooth depth."""
    y, x = torch.meshgrid(torch.arange(float(height)), torch.arange(float(width)), indexing="ij")
    return torch.full((1, 3, height, width), 0.5), (3 + torch.sin(x / 20) + torch.cos(y / 15))[None, None]


def measure(depth: Tensor, share: float, factor: float | Tensor = 1.0) -> Tensor:
    return depth * factor * (torch.rand(depth.shape, generator=torch.Generator().manual_seed(0)) < share)


@pytest.mark.parametrize("share", [0.001, 0.05, 1.0])
def test_pass_through_equals_every_measurement(share: float) -> None:
    _, depth = surface()
    sparse = measure(depth, share, 0.8 + 0.4 * torch.rand(depth.shape, generator=torch.Generator().manual_seed(1)))
    result = pass_through(depth, sparse)
    assert torch.equal(result[sparse > 0], sparse[sparse > 0])
    assert (result > 0).all()


def test_pass_through_changes_nothing_that_fits() -> None:
    _, depth = surface()
    torch.testing.assert_close(pass_through(depth, measure(depth, 0.1)), depth)
    torch.testing.assert_close(pass_through(depth, torch.zeros_like(depth)), depth)


def test_pass_through_corrects_a_common_error_between_the_points() -> None:
    _, depth = surface()
    error = (pass_through(depth, measure(depth, 0.1, 1.1)) / (1.1 * depth)).log().abs()
    assert error.mean() < 0.2 * torch.log(torch.tensor(1.1))


def test_pass_through_scales_with_depth() -> None:
    _, depth = surface()
    sparse = measure(depth, 0.05, 1.2)
    once = pass_through(depth, sparse)
    torch.testing.assert_close(pass_through(1e3 * depth, 1e3 * sparse), 1e3 * once)


def test_pass_through_does_not_cross_a_depth_edge() -> None:
    depth = torch.full((1, 1, 32, 32), 2.0)
    depth[..., 16:] = 4.0
    sparse = torch.zeros_like(depth)
    sparse[..., :12] = 3.0
    change = pass_through(depth, sparse).log() - depth.log()
    assert change[..., 13].min() > 0.5 * torch.log(torch.tensor(1.5))
    assert change[..., 16:].abs().max() < 1e-3


def test_run_staged_interpolates_the_logarithm() -> None:
    class Ramp(Interpolator):
        """The same log depth for every image, linear from row to row."""

        def refine(self, fields, log_depth, sparse):  # type: ignore[no-untyped-def]
            ramp = torch.linspace(0, 1, sparse.shape[-2]).view(1, 1, -1, 1).expand_as(sparse).exp()
            return ramp, ramp, None

    image, _ = surface(96, 128)
    log_depth = run_staged(Ramp(), image, torch.zeros(1, 1, 96, 128), (48, 64), False, None).depth.log()
    assert log_depth.shape == (1, 1, 96, 128)
    step = log_depth.diff(dim=-2)[..., 1:-1, :]
    torch.testing.assert_close(step, torch.full_like(step, 0.5 / 47), atol=1e-5, rtol=0)


def test_run_staged_confidence_is_that_of_working_pixel(Tiny: Callable[..., Any]) -> None:
    image = torch.rand(2, 3, 96, 128, generator=torch.Generator().manual_seed(0))
    sparse = measure(1 + torch.rand(2, 1, 96, 128, generator=torch.Generator().manual_seed(1)), 0.05)
    out = run_staged(Tiny(), image, sparse, (48, 64), False, None)
    confidence = out.fields.confidence
    assert confidence.shape == sparse.shape
    assert torch.equal(confidence[..., ::2, ::2], confidence[..., 1::2, 1::2])
    assert confidence.unique().numel() > 100


def test_tile_side_auto_starts_above_two_megapixels() -> None:
    assert tile_side("auto", (1080, 1920)) is None
    assert tile_side("auto", (1100, 2000)) == 1024
    assert tile_side(256, (10, 10)) == 256
    assert tile_side(None, (9000, 9000)) is None
