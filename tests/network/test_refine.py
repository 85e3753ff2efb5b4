"""Stage 4: propagation, convex upsampling and the last correction, with slow twins."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.network.neighborhood import NEIGHBORHOOD
from omnidc.network.refine import (
    COLOR_STEP,
    CONFIDENCE_WIDTH,
    DENSE_SCALE,
    EDGE_STEP,
    FADE,
    NO_WEIGHT,
    NOISE_CELL,
    NOISE_FACTOR,
    RELIABLE_CONFIDENCE,
    SAME_SURFACE,
    SLOPE_PRIOR,
    SPREAD_CELLS,
    SURFACE_REACH,
    WEIGHT_PENALTY,
    affinity_logits,
    bilinear_logits,
    convex_upsample2x,
    dense_scale,
    median5,
    noise_variance,
    propagate,
    snap_to_surface,
    softmax,
    spread_residual,
)


def slow_step(x: Tensor, affinity: Tensor, measured: Tensor, pull: Tensor) -> Tensor:
    """The slow twin of one step: pixel by pixel, neighbor by neighbor."""
    height, width = x.shape[-2:]
    out = torch.zeros_like(x)
    for row in range(height):
        for column in range(width):
            for k, (dy, dx) in enumerate(NEIGHBORHOOD):
                i, j = min(max(row + dy - 1, 0), height - 1), min(max(column + dx - 1, 0), width - 1)
                out[..., row, column] += affinity[:, k : k + 1, row, column] * x[..., i, j]
    return out + pull * (measured - out)


def problem() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 1, 5, 7, generator=generator, dtype=torch.float64)
    affinity = torch.randn(2, 9, 5, 7, generator=generator, dtype=torch.float64).softmax(dim=1)
    measured = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    pull = torch.rand(x.shape, generator=generator, dtype=torch.float64)
    return x, affinity, measured, pull * (pull > 0.7)


def test_propagate_equals_slow_twin() -> None:
    x, affinity, measured, pull = problem()
    expected = x + pull * (measured - x)
    for _ in range(3):
        expected = slow_step(expected, affinity, measured, pull)
    torch.testing.assert_close(propagate(x, affinity.split(1, dim=1), 3, measured, pull), expected)


def test_propagate_gradients_equal_finite_differences() -> None:
    inputs = [value.requires_grad_() for value in problem()]

    def run(x: Tensor, affinity: Tensor, measured: Tensor, pull: Tensor) -> Tensor:
        return propagate(x, affinity.split(1, dim=1), 2, measured, pull)

    assert torch.autograd.gradcheck(run, inputs)


def test_propagate_with_full_anchor_passes_through_measurements() -> None:
    x, affinity, measured, pull = problem()
    out = propagate(x, affinity.split(1, dim=1), 2, measured, (pull > 0).double())
    torch.testing.assert_close(out[pull > 0], measured[pull > 0])


def test_propagate_constant_stays_constant() -> None:
    _, affinity, _, _ = problem()
    out = propagate(torch.full((2, 1, 5, 7), 3.0, dtype=torch.float64), affinity.split(1, dim=1), 4)
    torch.testing.assert_close(out, torch.full_like(out, 3.0))


def test_softmax_over_maps_equals_that_over_channels_with_gradients() -> None:
    logits = (50 * torch.randn(2, 9, 3, 4, dtype=torch.float64)).requires_grad_()
    upstream = torch.randn(2, 9, 3, 4, dtype=torch.float64)
    expected = logits.softmax(dim=1)
    result = torch.cat(softmax(logits.split(1, dim=1)), dim=1)
    torch.testing.assert_close(result, expected)
    gradients = [torch.autograd.grad(one, logits, upstream)[0] for one in (result, expected)]
    torch.testing.assert_close(*gradients)


def test_affinity_logits_equal_slow_twin() -> None:
    image = torch.rand(2, 3, 6, 8, dtype=torch.float64)
    guide = torch.randn(9, 2, 1, 6, 8, dtype=torch.float64)
    padded = F.pad(image, (1, 1, 1, 1), mode="replicate")
    logits = affinity_logits(list(guide), image, torch.full((1, 1, 1, 1), 0.7, dtype=torch.float64))
    for k, (y, x) in enumerate(NEIGHBORHOOD):
        other = padded[..., y : y + 6, x : x + 8]
        distance = (((image - other) / COLOR_STEP).square().sum(dim=1) + 1e-4).sqrt() * (k != 4)
        torch.testing.assert_close(logits[k][:, 0], guide[k, :, 0] - 0.7 * distance)


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


def measurements(height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log depth, measured log depth, confidence and mask."""
    generator = torch.Generator().manual_seed(1)
    x, measured, chance, confidence = torch.rand(4, 1, 1, height, width, generator=generator, dtype=torch.float64)
    given = (chance < 0.3).double()
    return x, measured, (0.8 + 0.2 * confidence) * given, given


def slow_spread_residual(x: Tensor, measured: Tensor, confidence: Tensor, given: Tensor) -> Tensor:
    """`spread_residual`, cell by cell, with sums over the measurements around each."""
    height, width = x.shape[-2:]
    start = x[0, 0]
    result = start.clone()
    places = [(int(i), int(j)) for i, j in given[0, 0].nonzero()]
    for size in SPREAD_CELLS:
        rows, columns = (-(-length // SPREAD_CELLS[0]) * SPREAD_CELLS[0] // size for length in (height, width))
        maps = torch.zeros(1, 4, rows, columns, dtype=x.dtype)
        for row in range(rows):
            for column in range(columns):
                total, values = 0.0, []
                for i, j in places:
                    away = abs(i // size - row), abs(j // size - column)
                    if max(away) <= 1:
                        reliable = torch.sigmoid((confidence[0, 0, i, j] - RELIABLE_CONFIDENCE) / CONFIDENCE_WIDTH)
                        weight = float(reliable) * 0.5 ** sum(away)
                        total += weight
                        values.append((weight, float(start[i, j]), float(measured[0, 0, i, j] - result[i, j])))
                mx = sum(w * z for w, z, _ in values) / (total + NO_WEIGHT)
                mr = sum(w * r for w, _, r in values) / (total + NO_WEIGHT)
                variance = sum(w * (z - mx) ** 2 for w, z, _ in values) / (total + NO_WEIGHT)
                covariance = sum(w * (z - mx) * (r - mr) for w, z, r in values) / (total + NO_WEIGHT)
                precision = 0.5 / (2 * variance + SAME_SURFACE**2)
                share = total / (total + FADE)
                one = [mx, share * mr, share * covariance / (variance + SLOPE_PRIOR**2), precision]
                maps[0, :, row, column] = torch.tensor(one, dtype=x.dtype)
        maps = F.interpolate(maps, scale_factor=size, mode="bilinear", align_corners=False)
        mean, residual, slope, precisions = maps[0, :, :height, :width]
        apart = start - mean
        result = result + torch.exp(-(apart**2) * precisions) * (residual + slope * apart)
    return result[None, None]


@pytest.mark.parametrize(("height", "width"), [(32, 48), (19, 21)])
def test_spread_residual_equals_slow_twin(height: int, width: int) -> None:
    inputs = measurements(height, width)
    torch.testing.assert_close(spread_residual(*inputs), slow_spread_residual(*inputs), rtol=1e-4, atol=1e-6)


def test_spread_residual_gradients_equal_finite_differences() -> None:
    x, measured, confidence, given = measurements(9, 10)

    def run(x: Tensor, confidence: Tensor) -> Tensor:
        return spread_residual(x, measured, confidence, given)

    assert torch.autograd.gradcheck(run, [x.requires_grad_(), confidence.requires_grad_()])


def test_spread_residual_corrects_foreground_apart() -> None:
    """One measurement in ten: the background is 2 % too far, the foreground right."""
    x = torch.zeros(1, 1, 64, 64)
    x[..., 32:] = -1.0
    measured = x.clone()
    measured[..., :32] -= 0.02
    given = (torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    error = (spread_residual(x, measured, given, given) - measured).abs()
    assert error.max() < 0.012
    assert error[..., :32].mean() < 0.002
    assert error[..., 32:].mean() < 0.002


def test_spread_residual_leaves_other_surfaces_alone() -> None:
    x = torch.zeros(1, 1, 64, 64)
    x[..., 32:] = -1.0
    given = torch.zeros_like(x)
    given[..., 4::8, 4:32:8] = 1  # on the background only
    corrected = spread_residual(x, x + 0.05, given, given)
    assert (corrected - x)[..., :28].min() > 0.04
    assert (corrected - x)[..., 32:].abs().max() < 1e-3


def test_spread_residual_ignores_low_confidence() -> None:
    x, measured, _, given = measurements(16, 20)
    corrected = spread_residual(x, measured, 0.3 * given, given)
    assert (corrected - x).abs().max() < 1e-2


def test_dense_scale_counts_for_dense_maps_alone() -> None:
    given = torch.ones(1, 1, 9, 12)
    assert torch.allclose(dense_scale(given)[..., 1:-1, 1:-1], torch.tensor(DENSE_SCALE))
    lines = torch.zeros(1, 1, 9, 12)
    lines[..., ::3, :] = 1
    assert dense_scale(lines).max() < 0.02 * DENSE_SCALE
    assert not dense_scale(torch.zeros(1, 1, 9, 12)).any()


def slow_noise_variance(x: Tensor, measured: Tensor, confidence: Tensor) -> Tensor:
    """`noise_variance` at the middle of each cell, one cell after the other; interpolation is torch's."""
    height, width = x.shape[-2:]
    rows, columns = -(-height // NOISE_CELL), -(-width // NOISE_CELL)
    variances = torch.zeros(1, 1, rows, columns, dtype=x.dtype)
    odds = (confidence / (1 - confidence))[0, 0]
    points = [(i, j, 1 - 1 / (1 + float(odds[i, j]) ** 2)) for i in range(height) for j in range(width)]
    for row in range(rows):
        for column in range(columns):
            total, residual = 1.0, 0.0
            for i, j, weight in points:
                down, across = abs(i // NOISE_CELL - row), abs(j // NOISE_CELL - column)
                if max(down, across) <= 1:
                    part = weight / 2 ** (down + across)
                    total += part
                    residual += part * abs(float(measured[0, 0, i, j] - x[0, 0, i, j]))
            variances[0, 0, row, column] = (NOISE_FACTOR * residual / total) ** 2
    full = F.interpolate(variances, scale_factor=NOISE_CELL, mode="bilinear", align_corners=False)
    return full[..., :height, :width]


@pytest.mark.parametrize("size", [(64, 96), (37, 130), (5, 9)])
def test_noise_variance_equals_slow_twin(size: tuple[int, int]) -> None:
    x, measured, confidence, _ = weighted_measurements(*size)
    expected = slow_noise_variance(x, measured, confidence)
    torch.testing.assert_close(noise_variance(x, measured, confidence), expected)


def test_noise_variance_has_its_derivative() -> None:
    x, measured, confidence, _ = (one.requires_grad_() for one in weighted_measurements(8, 40))
    assert torch.autograd.gradcheck(noise_variance, (x, measured, confidence))


def test_noise_variance_is_that_of_the_measurements_and_not_of_outliers() -> None:
    generator = torch.Generator().manual_seed(0)
    given = (torch.rand(1, 1, 96, 128, generator=generator) < 0.05).float()
    x = torch.zeros_like(given)
    noise = 0.1 * torch.randn(x.shape, generator=generator)
    scale = noise_variance(x, noise, given).sqrt() / NOISE_FACTOR
    assert scale.min() > 0.06  # the mean of |N(0, 0.1)| is 0.08
    assert scale.max() < 0.1
    assert not noise_variance(x, x, given).any()
    assert not noise_variance(x, noise, torch.zeros_like(x)).any()
    outlier = given * (torch.rand(x.shape, generator=generator) < 0.1)
    assert noise_variance(x, outlier, given - 0.9 * outlier).max() < 0.002**2


def weighted_measurements(height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log depth, measured log depth, weight and mask: of a third of the pixels, a fourth of these rejected."""
    generator = torch.Generator().manual_seed(2)
    x, measured, chance, rejection, weight = torch.rand(
        5, 1, 1, height, width, generator=generator, dtype=torch.float64
    )
    given = (chance < 0.3).double()
    weight = torch.where(rejection < 0.25, 1e-3 * weight, 0.9 + 0.1 * weight)
    return x, measured, weight * given, given


def slow_snap_to_surface(x: Tensor, measured: Tensor, weight: Tensor, given: Tensor) -> Tensor:
    """`snap_to_surface`, one pixel after the other."""
    result = x.clone()
    for _, _, row, column in given.nonzero().tolist():
        reach = range(-SURFACE_REACH, SURFACE_REACH + 1)
        places = [(row + i, column + j) for i in reach for j in reach]
        inside = [(i, j) for i, j in places if 0 <= i < x.shape[2] and 0 <= j < x.shape[3] and given[0, 0, i, j] > 0]
        penalties = [WEIGHT_PENALTY * math.log(float(weight[0, 0, i, j]) + 1e-7) ** 2 for i, j in inside]
        depths = [float(measured[0, 0, i, j]) for i, j in inside]
        near = min(depth + penalty for depth, penalty in zip(depths, penalties))
        far = max(depth - penalty for depth, penalty in zip(depths, penalties))
        value = float(x[0, 0, row, column])
        target = min(max(value, min(near, far)), max(near, far))
        if far > near:
            t = (target - near) / (far - near)
            edge = (far - near) ** 2 / ((far - near) ** 2 + EDGE_STEP**2)
            target += edge * (far - near) * (t**8 / (t**8 + (1 - t) ** 8) - t)
        share = math.exp(min(0.0, far - near) / WEIGHT_PENALTY) * (1 - float(weight[0, 0, row, column]))
        result[0, 0, row, column] = value + share * (target - value)
    return result


def test_snap_to_surface_equals_slow_twin() -> None:
    inputs = weighted_measurements(12, 15)
    torch.testing.assert_close(snap_to_surface(*inputs), slow_snap_to_surface(*inputs), rtol=0, atol=1e-5)


def test_snap_to_surface_gradients_equal_finite_differences() -> None:
    x, measured, weight, given = weighted_measurements(6, 7)

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return snap_to_surface(x, measured, weight * given, given)

    assert torch.autograd.gradcheck(run, [x.requires_grad_(), weight.requires_grad_()], atol=1e-4)


def test_rejected_pixel_at_an_edge_goes_to_the_nearer_surface() -> None:
    measured = torch.zeros(1, 1, 9, 12)
    measured[..., 6:] = 0.7
    given, weight = torch.ones_like(measured), torch.ones_like(measured)
    x = measured.clone()
    # row, column, what the stages before made of it, and the surface it belongs to
    rejected = [(4, 5, 0.25, 0.0), (4, 6, 0.45, 0.7), (2, 1, 0.3, 0.0), (7, 10, 0.3, 0.7)]
    for row, column, smeared, _ in rejected:
        x[..., row, column], measured[..., row, column], weight[..., row, column] = smeared, 0.35, 0.0
    result = snap_to_surface(x, measured, weight, given)
    for row, column, _, surface in rejected:
        assert float(result[..., row, column]) == pytest.approx(surface, abs=0.02)
    assert torch.equal(result[weight > 0], x[weight > 0])


def test_snap_to_surface_needs_reliable_measurements() -> None:
    """A lone rejected measurement, rejected ones among each other, and pixels without one stay as they are."""
    x, measured, _, given = weighted_measurements(12, 15)
    torch.testing.assert_close(snap_to_surface(x, measured, 1e-4 * given, given), x, rtol=0, atol=1e-9)
    assert torch.equal(snap_to_surface(x, measured, given, given), x)


@pytest.mark.parametrize(("height", "width"), [(7, 9), (1, 5), (2, 2)])
def test_median5_equals_sorting(height: int, width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 1, height, width, generator=generator, requires_grad=True)
    upstream = torch.randn(x.shape, generator=generator)
    rows = F.pad(x, (2, 2, 0, 0), mode="replicate").unfold(3, 5, 1).median(dim=-1).values
    both = F.pad(rows, (0, 0, 2, 2), mode="replicate").unfold(2, 5, 1).median(dim=-1).values
    result = median5(x)
    assert torch.equal(result, both)
    assert torch.equal(median5(x.detach()), both)
    gradients = [torch.autograd.grad(one, x, upstream)[0] for one in (result, both)]
    torch.testing.assert_close(*gradients)
