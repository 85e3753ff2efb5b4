"""Stage 4: anchored propagation, with slow twins."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.network.refine import COLOR_STEP, NEIGHBORHOOD, pixel_color_distance, propagate


def slow_step(x: Tensor, affinity: Tensor, measured: Tensor, anchor: Tensor) -> Tensor:
    """The slow twin of one step: pixel by pixel, neighbor by neighbor."""
    height, width = x.shape[-2:]
    out = torch.zeros_like(x)
    for row in range(height):
        for column in range(width):
            for k, (dy, dx) in enumerate(NEIGHBORHOOD):
                i, j = min(max(row + dy - 1, 0), height - 1), min(max(column + dx - 1, 0), width - 1)
                out[..., row, column] += affinity[:, k : k + 1, row, column] * x[..., i, j]
    return out + anchor * (measured - out)


def problem() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 1, 5, 7, generator=generator, dtype=torch.float64)
    affinity = torch.randn(2, 9, 5, 7, generator=generator, dtype=torch.float64).softmax(dim=1)
    measured = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    anchor = torch.rand(x.shape, generator=generator, dtype=torch.float64)
    return x, affinity, measured, anchor * (anchor > 0.7)


def test_propagate_equals_slow_twin() -> None:
    x, affinity, measured, anchor = problem()
    expected = x + anchor * (measured - x)
    for _ in range(3):
        expected = slow_step(expected, affinity, measured, anchor)
    torch.testing.assert_close(propagate(x, affinity, 3, measured, anchor), expected)


def test_propagate_gradients_equal_finite_differences() -> None:
    inputs = [value.requires_grad_() for value in problem()]

    def run(x: Tensor, affinity: Tensor, measured: Tensor, anchor: Tensor) -> Tensor:
        return propagate(x, affinity, 2, measured, anchor)

    assert torch.autograd.gradcheck(run, inputs)


def test_propagate_with_full_anchor_passes_through_measurements() -> None:
    x, affinity, measured, anchor = problem()
    out = propagate(x, affinity, 2, measured, (anchor > 0).double())
    torch.testing.assert_close(out[anchor > 0], measured[anchor > 0])


def test_propagate_constant_stays_constant() -> None:
    _, affinity, _, _ = problem()
    out = propagate(torch.full((2, 1, 5, 7), 3.0, dtype=torch.float64), affinity, 4)
    torch.testing.assert_close(out, torch.full_like(out, 3.0))


def test_pixel_color_distance_equals_slow_twin() -> None:
    image = torch.rand(2, 3, 6, 8, dtype=torch.float64)
    padded = F.pad(image, (1, 1, 1, 1), mode="replicate")
    distance = pixel_color_distance(image)
    for k, (y, x) in enumerate(NEIGHBORHOOD):
        other = padded[..., y : y + 6, x : x + 8]
        expected = (((image - other) / COLOR_STEP).square().sum(dim=1) + 1e-4).sqrt() * (k != 4)
        torch.testing.assert_close(distance[:, k], expected)
