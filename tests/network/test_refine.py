"""Stage 4: anchored propagation, with slow twins."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.network.refine import (
    COLOR_STEP,
    NEIGHBORHOOD,
    bilinear_logits,
    convex_upsample2x,
    pixel_color_distance,
    propagate,
)


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


def slow_convex_upsample2x(x: Tensor, logits: Tensor) -> Tensor:
    """`convex_upsample2x`, one pixel after the other."""
    batch, _, height, width = x.shape
    out = torch.empty(batch, 1, 2 * height, 2 * width, dtype=x.dtype)
    for b in range(batch):
        for row in range(2 * height):
            for column in range(2 * width):
                i, j, pixel = row // 2, column // 2, row % 2 * 2 + column % 2
                weights = torch.softmax(logits[b, pixel::4, i, j], dim=0)
                places = [
                    (min(max(i + y - 1, 0), height - 1), min(max(j + x - 1, 0), width - 1)) for y, x in NEIGHBORHOOD
                ]
                out[b, 0, row, column] = sum(w * x[b, 0][place] for w, place in zip(weights, places))
    return out


def test_convex_upsample_equals_slow_twin() -> None:
    torch.manual_seed(0)
    x, logits = torch.randn(2, 1, 4, 5).double(), torch.randn(2, 36, 4, 5).double()
    torch.testing.assert_close(convex_upsample2x(x, logits), slow_convex_upsample2x(x, logits))


def test_convex_upsample_gradients_equal_finite_differences() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 1, 3, 4, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(1, 36, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(convex_upsample2x, (x, logits))


def test_convex_upsample_starts_nearly_bilinear() -> None:
    x = torch.randn(1, 1, 6, 8, generator=torch.Generator().manual_seed(0))
    logits = torch.tensor(bilinear_logits()).view(1, 36, 1, 1).expand(1, 36, 6, 8)
    bilinear = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    assert (convex_upsample2x(x, logits) - bilinear).abs().max() < 0.06


def test_convex_upsample_can_keep_a_depth_edge() -> None:
    x = torch.zeros(1, 1, 4, 8)
    x[..., 4:] = 1
    logits = torch.zeros(1, 9, 4, 4, 8)
    logits[:, 4] = 50  # every pixel takes its own cell
    upsampled = convex_upsample2x(x, logits.reshape(1, 36, 4, 8))
    torch.testing.assert_close(upsampled, x.repeat_interleave(2, 2).repeat_interleave(2, 3))
