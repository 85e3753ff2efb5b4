"""Stage 4: anchored propagation, convex upsampling and the last correction, with slow twins."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.network.refine import (
    COLOR_STEP,
    FADE,
    NEIGHBORHOOD,
    SPREAD_COLOR,
    TRUST_WIDTH,
    TRUSTED,
    bilinear_logits,
    convex_upsample2x,
    pixel_color_distance,
    propagate,
    spread_residual,
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


def measurements(height: int, width: int) -> tuple[Tensor, ...]:
    """Log depth, measured log depth, confidence, mask and image."""
    generator = torch.Generator().manual_seed(1)
    x, measured, chance, confidence = torch.rand(4, 1, 1, height, width, generator=generator, dtype=torch.float64)
    image = torch.rand(1, 3, height, width, generator=generator, dtype=torch.float64)
    given = (chance < 0.3).double()
    return x, measured, (0.7 + 0.3 * confidence) * given, given, image


def slow_spread_residual(
    x: Tensor, measured: Tensor, confidence: Tensor, given: Tensor, image: Tensor, steps: int
) -> Tensor:
    """`spread_residual`, one cell after the other."""
    height, width = x.shape[-2:]
    rows, columns = (height + 1) // 2, (width + 1) // 2
    trust, residual = torch.zeros(rows, columns).double(), torch.zeros(rows, columns).double()
    color = torch.zeros(rows, columns, 3).double()
    for row in range(rows):
        for column in range(columns):
            pixels = [(2 * row + i, 2 * column + j) for i in range(2) for j in range(2)]
            total, weighted = 0.0, 0.0
            for i, j in pixels:
                color[row, column] += image[0, :, min(i, height - 1), min(j, width - 1)] / 4
                if i < height and j < width and given[0, 0, i, j]:
                    weight = torch.sigmoid((confidence[0, 0, i, j] - TRUSTED) / TRUST_WIDTH)
                    total, weighted = total + weight, weighted + weight * (measured - x)[0, 0, i, j]
            if total:
                trust[row, column] = 1 - torch.exp(-total)
                residual[row, column] = trust[row, column] * weighted / (total + 1e-6)
    n, d = residual, trust
    for _ in range(steps):
        next_n, next_d = residual.clone(), trust.clone()
        for row in range(rows):
            for column in range(columns):
                places = [
                    (min(max(row + y - 1, 0), rows - 1), min(max(column + z - 1, 0), columns - 1))
                    for y, z in NEIGHBORHOOD
                    if (y, z) != (1, 1)
                ]
                squared = torch.stack([(color[row, column] - color[place]).square().sum() for place in places])
                affinity = torch.softmax(-SPREAD_COLOR * (squared / COLOR_STEP**2 + 1e-4).sqrt(), dim=0)
                free = 1 - trust[row, column]
                next_n[row, column] += free * sum(a * n[place] for a, place in zip(affinity, places))
                next_d[row, column] += free * sum(a * d[place] for a, place in zip(affinity, places))
        n, d = next_n, next_d
    correction = F.interpolate((n / (d + FADE))[None, None], scale_factor=2, mode="bilinear", align_corners=False)
    return x + correction[..., :height, :width]


@pytest.mark.parametrize(("height", "width"), [(8, 10), (7, 9)])
def test_spread_residual_equals_slow_twin(height: int, width: int) -> None:
    inputs = measurements(height, width)
    torch.testing.assert_close(spread_residual(*inputs, 2), slow_spread_residual(*inputs, 2))


def test_spread_residual_gradients_equal_finite_differences() -> None:
    x, measured, confidence, given, image = measurements(5, 6)
    inputs = [one.requires_grad_() for one in (x, confidence, image)]

    def run(x: Tensor, confidence: Tensor, image: Tensor) -> Tensor:
        return spread_residual(x, measured, confidence, given, image, 2)

    assert torch.autograd.gradcheck(run, inputs)


def test_spread_residual_stays_on_its_side_of_a_color_edge() -> None:
    image = torch.zeros(1, 3, 16, 32)
    image[..., 16:] = 1
    x, given = torch.zeros(1, 1, 16, 32), torch.zeros(1, 1, 16, 32)
    given[..., 8, 14] = 1
    corrected = spread_residual(x, torch.ones_like(x), given, given, image, 3)
    assert corrected[..., 8, 14] > 0.5
    assert corrected[..., 8, 10] > 0.2
    assert corrected[..., 8, 18].abs() < 0.01


def test_spread_residual_ignores_measurements_that_are_not_trusted() -> None:
    x, measured, _, given, image = measurements(8, 10)
    corrected = spread_residual(x, measured, 0.5 * given, given, image, 3)
    assert (corrected - x).abs().max() < 1e-2
