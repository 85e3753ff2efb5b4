"""Stage 4, refine: from the integrator's grid to the output size, guided by colors and measurements.

At half and at full size: convex upsampling, each pixel a learned mean of the nine cells around it, so that a depth edge
needs no slope, then a few steps of propagation (as DySPN, with a fixed neighborhood),

    x ← Σ_k a_k x(p + n_k),   x ← x + c (o − x) where measured,

over the nine pixels n_k around p. The affinities a follow from learned guides and, at full size, differences of color;
c is the weight of the measurement o. Then a median removes deviations of single pixels, and the remaining residuals at
reliable measurements are spread over the surfaces around them. Last, a pixel whose own measurement was rejected is put
on one of the surfaces that reliable measurements within two pixels lie on: a dense map has no other depth there. The
residuals after the median also show how noisy the measurements are, which the uncertainty must include.

Affinities are nine maps, not one map of nine channels: every join and split of channels would be a copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from omnidc.network.neighborhood import NEIGHBORHOOD, neighbor_pairs
from omnidc.network.resize import enlarge

COLOR_STEP = 0.1  # of full scale: a clear difference of color
RELIABLE_CONFIDENCE = 0.94  # of a measurement whose residual is spread with half of its weight
CONFIDENCE_WIDTH = 0.025  # of the sigmoid from weight 0 to 1 around it
SPREAD_CELLS = (16, 8, 4, 2)  # pixels along the cells of `spread_residual`
SLOPE_PRIOR = 0.01  # of log depth: residuals of measurements within less have one mean
SAME_SURFACE = 0.04  # of log depth: a pixel this far from all measurements of a window is corrected by 0.6
FADE = 0.15  # weight that must arrive at a cell for half of a residual to be applied
NO_WEIGHT = 1e-10  # of a window without measurements
SURFACE_REACH = 2  # pixels to each side whose measurements `snap_to_surface` uses
WEIGHT_PENALTY = 0.1  # of log depth: shift of a measurement with a weight of 1 / e, so that it is no extreme there
ABSENT_PENALTY = 1e4  # of log depth: where there is no measurement
EDGE_STEP = 0.1  # of log depth between the two extremes: half of the way from one surface to two
NOISE_CELL = 32  # pixels along the cells of `noise_variance`
NOISE_FACTOR = 0.8  # Laplace scale of the result's error for a mean absolute residual of 1
DENSE_SCALE = 0.004  # Laplace scale of a depth camera's errors that all pixels around share, relative to depth
UNUSED = 2e-3  # weight of the cells that bilinear upsampling leaves out: not 0, so that training can use them


def propagate(
    x: Tensor,  # [B, 1, H, W]
    affinity: Sequence[Tensor],  # 9 × [B, 1, H, W] ≥ 0, with a sum of 1
    steps: int,
    measured: Tensor | None = None,  # [B, 1, H, W], x of the measurements, anything where there is none
    pull: Tensor | None = None,  # [B, 1, H, W] in [0, 1], c: weight of the measurement, 0 where there is none
) -> Tensor:
    """Propagate x over the neighborhood and pull it to the measurements after each step (module docstring)."""

    def constrain(x: Tensor) -> Tensor:
        return x if measured is None or pull is None else torch.addcmul(x, pull, measured - x)

    x = constrain(x)
    for _ in range(steps):
        x = constrain(_mix(x, affinity))
    return x


def softmax(logits: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the softmax over maps of one shape."""
    powers, inverse = _powers(logits)
    return tuple(one * inverse for one in powers)


def _powers(logits: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Return the softmax over maps of one shape as powers and the inverse of their sum."""
    highest = reduce(torch.maximum, logits).detach()  # cancels out
    powers = [(one - highest).exp() for one in logits]
    return powers, _sum(powers).reciprocal()


def median5(x: Tensor) -> Tensor:  # [B, 1, H, W] → [B, 1, H, W]
    """Take medians of five pixels along rows, then along columns; pixels beyond the border repeat those at it."""
    for axis in (-1, -2):
        x = _MedianOf5.apply(x, axis) if torch.is_grad_enabled() else _median(*_shifted(_pad2(x, axis), axis))  # type: ignore[no-untyped-call]
    return x


def _pad2(x: Tensor, axis: int) -> Tensor:
    """Repeat the values at both ends of an axis twice."""
    return F.pad(x, (2, 2, 0, 0) if axis == -1 else (0, 0, 2, 2), mode="replicate")


def _shifted(padded: Tensor, axis: int) -> list[Tensor]:
    """Return the five views of a padded map in which each pixel has the place of one of its neighbors."""
    return [padded.narrow(axis, k, padded.shape[axis] - 4) for k in range(5)]


class _MedianOf5(torch.autograd.Function):
    """Medians along an axis; the gradient of each goes to the first neighbor that has its value.

    torch's own backward pass of minima and maxima makes three maps for each, and fills one for each neighbor.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> Tensor:
        padded = _pad2(x, axis)
        out = _median(*_shifted(padded, axis))
        ctx.save_for_backward(padded, out)
        ctx.axis = axis
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        padded, out = ctx.saved_tensors
        d_padded, left = torch.zeros_like(padded), upstream.clone()
        for values, gradient in zip(_shifted(padded, ctx.axis), _shifted(d_padded, ctx.axis), strict=True):
            part = left * (values == out)
            gradient += part
            left -= part
        length = out.shape[ctx.axis]
        for end, beyond in ((2, (0, 1)), (length + 1, (length + 2, length + 3))):
            for place in beyond:
                d_padded.select(ctx.axis, end).add_(d_padded.select(ctx.axis, place))
        return d_padded.narrow(ctx.axis, 2, length), None


def _median(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
    """Return the median of five: the larger of two minima and the smaller of two maxima leave a median of three."""
    low = torch.maximum(torch.minimum(a, b), torch.minimum(d, e))
    high = torch.minimum(torch.maximum(a, b), torch.maximum(d, e))
    return torch.maximum(torch.minimum(low, high), torch.minimum(torch.maximum(low, high), c))


def spread_residual(
    x: Tensor,  # [B, 1, H, W], log depth / median
    measured: Tensor,  # [B, 1, H, W], log depth / median of the measurements, anything where there is none
    confidence: Tensor,  # [B, 1, H, W] in [0, 1], 0 where there is no measurement
    given: Tensor,  # [B, 1, H, W], 1 = measured, 0 = not
) -> Tensor:
    """Spread the residuals at reliable measurements over the surfaces around them.

    In windows of cells, the widest first, the residual r of the measurements is a linear function of log depth,

        r(x) = r̄ + b (x − x̄),   b = cov(x, r) / (var(x) + SLOPE_PRIOR²),

    so that foreground and background are corrected apart. It is applied in full only to pixels within the depths of
    the window's measurements, exp(−(x − x̄)² / 2 (2 var(x) + SAME_SURFACE²)), and fades where none is near.
    """
    height, width = x.shape[-2:]
    largest = SPREAD_CELLS[0]
    end = (0, -width % largest, 0, -height % largest)  # completes the last cells
    weight = torch.sigmoid((confidence - RELIABLE_CONFIDENCE) / CONFIDENCE_WIDTH) * given
    x, weight, residual = (F.pad(one, end) for one in (x, weight, measured - x))
    fixed = _pooled((weight, weight * x))
    for size in SPREAD_CELLS:
        mx, mr, slope, exponent = (
            enlarge(one, size) for one in _window_regression(_cell_moments(fixed[size], x, residual, weight, size))
        )
        apart = x - mx
        residual = residual - torch.exp(apart.square() * exponent) * (mr + slope * apart)
    return measured - residual[..., :height, :width]


def _pooled(maps: Sequence[Tensor]) -> dict[int, Tensor]:  # [B, 1, H, W] each → [B, C, H / size, W / size] by size
    """Return the means over the cells of each size."""
    *larger, smallest = SPREAD_CELLS
    means = {smallest: torch.cat([F.avg_pool2d(one, smallest) for one in maps], dim=1)}
    for size in reversed(larger):
        last = max(means)
        means[size] = F.avg_pool2d(means[last], size // last)
    return means


@dataclass(frozen=True)
class _Moments:
    """Weight, means and second moments of the measurements of each cell.

    Moments are about the means of cells, then of windows: differences of large sums would lose digits.
    """

    weight: Tensor  # [B, 1, h, w]
    mean: Tensor  # [B, 2, h, w], of x and r
    moment: Tensor  # [B, 2, h, w], Σ w (x − x̄)², Σ w (x − x̄) (r − r̄)

    def join_pairs(self, axis: int) -> _Moments:
        """Return those of each cell and the next along an axis together; one cell less."""
        cells = self.weight.shape[axis] - 1
        (n, mean, moment), (n2, mean2, moment2) = (
            [one.narrow(axis, start, cells) for one in (self.weight, self.mean, self.moment)] for start in (0, 1)
        )
        weight = n + n2
        share = n2 / (weight + NO_WEIGHT)
        apart = mean2 - mean
        between = n * share * apart[:, :1] * apart
        return _Moments(weight, mean + share * apart, moment + moment2 + between)


def _cell_moments(
    fixed: Tensor,  # [B, 2, H / size, W / size], means of w and w x over each cell
    x: Tensor,  # [B, 1, H, W]
    r: Tensor,  # [B, 1, H, W]
    weight: Tensor,  # [B, 1, H, W] ≥ 0
    size: int,  # pixels along a cell; divides H and W
) -> _Moments:
    mean_weight, mean_x = fixed.chunk(2, dim=1)
    inverse = 1 / (mean_weight + NO_WEIGHT)
    mean_x = mean_x * inverse
    apart = x - F.interpolate(mean_x, scale_factor=size, mode="nearest")
    moment = weight * apart  # its sum is 0, so that r needs no mean
    mean_r, xx, xr = (F.avg_pool2d(one, size) for one in (weight * r, moment * apart, moment * r))
    means = torch.cat([mean_x, mean_r * inverse], dim=1)
    return _Moments(mean_weight * size**2, means, torch.cat([xx, xr], dim=1) * size**2)


def _window_regression(cells: _Moments) -> tuple[Tensor, ...]:  # 4 × [B, 1, h, w]
    """Return x̄, r̄, b and the factor of (x − x̄)² in the exponent of `spread_residual`.

    Windows are each cell and the eight around it, those beside it at half and those across at a quarter of their
    weight. r̄ and b are what is applied: they fade where a window has little weight.
    """
    window = _Moments(*(F.pad(one, (1, 1, 1, 1)) for one in (cells.weight, cells.mean, cells.moment)))
    for axis in (-1, -1, -2, -2):
        window = window.join_pairs(axis)
    total = window.weight / 4
    share = total / (total + FADE)
    mx, mr = window.mean.chunk(2, dim=1)
    variance, covariance = (window.moment / (window.weight + NO_WEIGHT)).chunk(2, dim=1)
    slope = share * covariance / (variance + SLOPE_PRIOR**2)
    return mx, share * mr, slope, -0.5 / (2 * variance + SAME_SURFACE**2)


def snap_to_surface(
    x: Tensor,  # [B, 1, H, W], log depth / median
    measured: Tensor,  # [B, 1, H, W], log depth / median of the measurements, anything where there is none
    weight: Tensor,  # [B, 1, H, W] in [0, 1], of the measurements, 0 where there is none
    given: Tensor,  # [B, 1, H, W], 1 = measured, 0 = not
) -> Tensor:
    """Move pixels with a rejected measurement to a surface that reliable measurements around them lie on.

    A rejected measurement of a dense map is a flying pixel or a speckle, and its pixel belongs to one of the surfaces
    beside it. Of the measurements o within `SURFACE_REACH` pixels, n is the nearest and f the farthest log depth,

        n = min (o + e),   f = max (o − e),   e = WEIGHT_PENALTY (log w)²,

    so that rejected ones are left out, and both are continuous functions of the weights w. x is clamped to [n, f]. At
    a depth edge it then moves to the closer one of the two: t⁸ / (t⁸ + (1 − t)⁸) replaces t = (x − n) / (f − n). If all
    weights are small, then n − f is large and x stays as it is.
    """
    size = 2 * SURFACE_REACH + 1
    penalty = WEIGHT_PENALTY * (weight + 1e-7).log().square()
    nearest, farthest = (
        F.max_pool2d(torch.where(given > 0, one - penalty, -ABSENT_PENALTY), size, stride=1, padding=SURFACE_REACH)
        for one in (-measured, measured)
    )
    overlap = nearest + farthest  # f − n
    low, high = torch.minimum(-nearest, farthest), torch.maximum(-nearest, farthest)
    share = (overlap / WEIGHT_PENALTY).clamp_max(0).exp() * (given - weight)
    gap = overlap.clamp_min(0)
    inside = torch.minimum(torch.maximum(x, low), high)
    t = ((inside - low) / (gap + 1e-6)).clamp(0, 1)
    a, b = (one.square().square().square() for one in (t, 1 - t))
    squared = gap.square()
    edge = squared / (squared + EDGE_STEP**2)
    return torch.addcmul(x, share, inside + edge * gap * (a / (a + b) - t) - x)


def noise_variance(
    x: Tensor,  # [B, 1, H, W], log depth / median, not pulled to single measurements
    measured: Tensor,  # [B, 1, H, W], log depth / median of the measurements, anything where there is none
    confidence: Tensor,  # [B, 1, H, W] in [0, 1], 0 where there is no measurement
) -> Tensor:  # [B, 1, H, W]
    """Return the squared Laplace scale of the errors that noisy measurements cause, in log depth.

    Noise of all measurements, unlike outliers, is not seen by comparing a measurement with others, and the result
    follows it. The scale is proportional to the mean absolute residual of the measurements in a cell and the eight
    around it, those beside it at half and those across at a quarter of their weight. A measurement of confidence c
    counts by c² / (c² + (1 − c)²), so that outliers hardly do, and there is one more without residual: without
    measurements there is no noise.
    """
    height, width = x.shape[-2:]
    squared = confidence.square()
    weight = squared / (squared + (1 - confidence).square())
    end = (0, -width % NOISE_CELL, 0, -height % NOISE_CELL)
    maps = ((measured - x).abs() * weight, weight)
    cells = torch.cat([F.avg_pool2d(F.pad(one, end), NOISE_CELL) for one in maps], dim=1) * NOISE_CELL**2
    kernel = cells.new_tensor([[[[0.25, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 0.25]]]] * 2)
    residual, total = F.conv2d(cells, kernel, padding=1, groups=2).chunk(2, dim=1)
    variance = (NOISE_FACTOR * residual / (total + 1)).square()
    return enlarge(variance, NOISE_CELL)[..., :height, :width]


def dense_scale(given: Tensor) -> Tensor:  # [B, 1, H, W], 1 = measured, 0 = not → [B, 1, H, W]
    """Return what is added to the Laplace scale / depth where most pixels are measured.

    Dense maps come from depth cameras, whose errors of neighboring pixels are alike: that they agree says nothing of
    them. `DENSE_SCALE` is that of a structured-light camera at two to three meters. Lines of a LiDAR get 1 % of it.
    """
    share = F.avg_pool2d(given, 3, stride=1, padding=1)
    return DENSE_SCALE * share.square().square()


def _sum(terms: Iterable[Tensor]) -> Tensor:
    first, *others = terms
    for other in others:
        first = first + other
    return first


def _mix(x: Tensor, affinity: Sequence[Tensor]) -> Tensor:
    mixed: Tensor = _Step.apply(x, *affinity) if torch.is_grad_enabled() else _step(x, affinity)  # type: ignore[no-untyped-call]
    return mixed


def _step(
    x: Tensor,  # [B, 1, H, W]
    affinity: Sequence[Tensor],  # 9 × [B, C, H, W]
) -> Tensor:  # [B, C, H, W]
    """Return Σ_k a_k x(p + n_k); pixels beyond the border repeat those at it."""
    height, width = x.shape[-2:]
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    out = affinity[4] * x
    for k, (y, x0) in enumerate(NEIGHBORHOOD):
        if k != 4:
            out = torch.addcmul(out, affinity[k], padded[..., y : y + height, x0 : x0 + width])
    return out


class _Step(torch.autograd.Function):
    """`_step` with a backward pass that adds up in place; torch's own fills and adds a map per neighbor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *affinity: Tensor) -> Tensor:
        ctx.save_for_backward(x, *affinity)
        return _step(x, affinity)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, ...]:
        x, *affinity = ctx.saved_tensors
        height, width = x.shape[-2:]
        padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
        d_padded, d_affinity = torch.zeros_like(padded), []
        for weight, (y, x0) in zip(affinity, NEIGHBORHOOD, strict=True):
            rows, columns = slice(y, y + height), slice(x0, x0 + width)
            d_padded[..., rows, columns].addcmul_(weight, upstream)
            d_affinity.append(upstream * padded[..., rows, columns])
        d_padded[..., 1, :] += d_padded[..., 0, :]
        d_padded[..., -2, :] += d_padded[..., -1, :]
        d_padded[..., 1] += d_padded[..., 0]
        d_padded[..., -2] += d_padded[..., -1]
        return d_padded[..., 1:-1, 1:-1], *d_affinity


def convex_upsample2x(
    x: Tensor,  # [B, 1, h, w]
    logits: Tensor,  # [B, 36, h, w], of the nine cells around a cell, for each of its four pixels
) -> Tensor:  # [B, 1, 2 h, 2 w]
    """Make each pixel a mean of the nine cells around its own; cells beyond the border repeat those at it."""
    powers, inverse = _powers(torch.split(logits, 4, dim=1))
    return F.pixel_shuffle(_step(x, powers) * inverse, 2)


def bilinear_logits() -> list[float]:
    """Return the 36 logits with which `convex_upsample2x` is nearly bilinear."""
    near = ((0.25, 0.75, 0.0), (0.0, 0.75, 0.25))  # of the cells before, at and after, for a cell's two pixels
    return [
        math.log(near[row][y] * near[column][x] + UNUSED)
        for y, x in NEIGHBORHOOD
        for row in range(2)
        for column in range(2)
    ]


def affinity_logits(
    guide: Sequence[Tensor],  # 9 × [B, 1, H, W]
    image: Tensor,  # [B, 3, H, W]
    factor: Tensor,  # [1, 1, 1, 1] > 0, of the distance
) -> list[Tensor]:  # 9 × [B, 1, H, W]
    """Return the guide less the distance in color of a pixel from each of its neighborhood, in units of `COLOR_STEP`.

    Pixels beyond the border repeat those at it. A distance serves both of its ends, so that four are computed.
    """
    padded = F.pad(image.contiguous() * (factor / COLOR_STEP), (1, 1, 1, 1), mode="replicate")
    channels = torch.split(padded, 1, dim=1)
    least = 1e-4 * factor.square()  # the square root has a finite slope there
    logits = list(guide)
    for k, (near, far, first, second) in enumerate(neighbor_pairs(*image.shape[-2:])):
        squares = ((one[near] - one[far]).square() for one in channels)
        distance = (_sum(squares) + least).sqrt()
        logits[k], logits[8 - k] = guide[k] - distance[first], guide[8 - k] - distance[second]
    return logits
