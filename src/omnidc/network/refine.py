"""Stage 4, refine: from the integrator's grid to the output size, guided by colors and measurements.

At half and at full size: convex upsampling, each pixel a learned mean of the nine cells around it, so that a depth edge
needs no slope, then a few steps of anchored propagation (DySPN's idea, with a fixed neighborhood),

    x ← Σ_k a_k x(p + n_k),   x ← x + c (o − x) where measured,

over the nine pixels n_k around p. The affinities a follow from learned guides and, at full size, differences of color;
c is the weight of the measurement o. Last, a median removes deviations of single pixels, and the remaining residuals at
reliable measurements are spread over the surfaces around them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

NEIGHBORHOOD = [(y, x) for y in range(3) for x in range(3)]
COLOR_STEP = 0.1  # of full scale: a clear difference of color
TRUSTED, TRUST_WIDTH = 0.94, 0.025  # confidence at which a residual counts half when it is spread, and how sharply
SPREAD_CELLS = (16, 8, 4, 2)  # pixels along the cells of `spread_residual`
SLOPE_PRIOR = 0.01  # of log depth: residuals of measurements within less have one mean
SAME_SURFACE = 0.04  # of log depth: a pixel this far from all measurements of a window is corrected by 0.6
FADE = 0.15  # weight that must arrive at a cell for half of a residual to be applied
UNUSED = 2e-3  # weight of the cells that bilinear upsampling leaves out: not 0, so that training can use them


def propagate(
    x: Tensor,  # [B, 1, H, W]
    affinity: Tensor,  # [B, 9, H, W] ≥ 0, sums to 1 over the neighborhood
    steps: int,
    measured: Tensor | None = None,  # [B, 1, H, W], x of the measurements, anything where there is none
    anchor: Tensor | None = None,  # [B, 1, H, W] in [0, 1], weight of the measurement, 0 where there is none
) -> Tensor:
    """Propagate x over the neighborhood and pull it to the measurements after each step (module docstring)."""

    def pull(x: Tensor) -> Tensor:
        return x if measured is None or anchor is None else torch.addcmul(x, anchor, measured - x)

    x = pull(x)
    for _ in range(steps):
        x = pull(_mix(x, affinity))
    return x


def median5(x: Tensor) -> Tensor:  # [B, 1, H, W] → [B, 1, H, W]
    """Medians of five pixels along the rows, then along the columns; pixels beyond the border repeat those at it."""
    height, width = x.shape[-2:]
    padded = F.pad(x, (2, 2, 0, 0), mode="replicate")
    x = _median(*(padded[..., k : k + width] for k in range(5)))
    padded = F.pad(x, (0, 0, 2, 2), mode="replicate")
    return _median(*(padded[..., k : k + height, :] for k in range(5)))


def _median(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
    """The larger of two minima and the smaller of two maxima leave a median of three."""
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
    start = x
    weight = torch.sigmoid((confidence - TRUSTED) / TRUST_WIDTH) * given
    for size in SPREAD_CELLS:
        maps = _window_regression(start, measured - x, weight, size)
        maps = F.interpolate(maps, scale_factor=size, mode="bilinear", align_corners=False)[..., :height, :width]
        mx, mr, slope, precision, share = maps.chunk(5, dim=1)
        apart = start - mx
        x = x + share * torch.exp(-apart.square() * precision) * (mr + slope * apart)
    return x


def _window_regression(
    x: Tensor,  # [B, 1, H, W]
    r: Tensor,  # [B, 1, H, W]
    weight: Tensor,  # [B, 1, H, W] ≥ 0
    size: int,  # pixels along a cell
) -> Tensor:  # [B, 5, ⌈H / size⌉, ⌈W / size⌉]
    """x̄, r̄, b, the precision of `spread_residual`'s Gaussian and its share, of each cell and the eight around it.

    Second moments are summed about the means of cells, then of windows: differences of large sums would lose digits.
    """
    height, width = x.shape[-2:]
    end = (0, size - 1, 0, size - 1)  # completes the last cell; pooling drops it where it is complete

    def cell_sums(maps: list[Tensor]) -> list[Tensor]:
        pooled = F.avg_pool2d(F.pad(torch.cat(maps, dim=1), end), size) * size**2
        return list(pooled.chunk(len(maps), dim=1))

    n, sx, sr = cell_sums([weight, weight * x, weight * r])
    mean_x, mean_r = sx / (n + 1e-6), sr / (n + 1e-6)
    means = F.interpolate(torch.cat([mean_x, mean_r], dim=1), scale_factor=size, mode="nearest")[..., :height, :width]
    dx, dr = x - means[:, :1], r - means[:, 1:]
    xx, xr = cell_sums([weight * dx * dx, weight * dx * dr])

    rows, columns = n.shape[-2:]
    padded = F.pad(torch.cat([n, mean_x, mean_r, xx, xr], dim=1), (1, 1, 1, 1))
    around = [
        (0.5 ** (abs(i - 1) + abs(j - 1)), padded[..., i : i + rows, j : j + columns].chunk(5, dim=1))
        for i, j in NEIGHBORHOOD
    ]
    total = _sum(k * c[0] for k, c in around)
    mx = _sum(k * c[0] * c[1] for k, c in around) / (total + 1e-6)
    mr = _sum(k * c[0] * c[2] for k, c in around) / (total + 1e-6)
    variance = _sum(k * (c[3] + c[0] * (c[1] - mx).square()) for k, c in around) / (total + 1e-6)
    covariance = _sum(k * (c[4] + c[0] * (c[1] - mx) * (c[2] - mr)) for k, c in around) / (total + 1e-6)
    slope = covariance / (variance + SLOPE_PRIOR**2)
    precision = 0.5 / (2 * variance + SAME_SURFACE**2)
    return torch.cat([mx, mr, slope, precision, total / (total + FADE)], dim=1)


def _sum(terms: Iterable[Tensor]) -> Tensor:
    first, *others = terms
    for other in others:
        first = first + other
    return first


def _mix(x: Tensor, affinity: Tensor) -> Tensor:
    mixed: Tensor = _Step.apply(x, affinity) if torch.is_grad_enabled() else _step(x, affinity)  # type: ignore[no-untyped-call]
    return mixed


def _step(x: Tensor, affinity: Tensor) -> Tensor:
    """Σ_k a_k x(p + n_k); pixels beyond the border repeat those at it."""
    height, width = x.shape[-2:]
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    out = torch.zeros_like(x)
    for k, (y, x0) in enumerate(NEIGHBORHOOD):
        out = torch.addcmul(out, affinity[:, k : k + 1], padded[..., y : y + height, x0 : x0 + width])
    return out


class _Step(torch.autograd.Function):
    """`_step` with a backward pass that adds up in place; torch's own fills and adds a map per neighbor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, affinity: Tensor) -> Tensor:
        ctx.save_for_backward(x, affinity)
        return _step(x, affinity)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        x, affinity = ctx.saved_tensors
        height, width = x.shape[-2:]
        padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
        d_padded, d_affinity = torch.zeros_like(padded), torch.empty_like(affinity)
        for k, (y, x0) in enumerate(NEIGHBORHOOD):
            rows, columns = slice(y, y + height), slice(x0, x0 + width)
            d_padded[..., rows, columns].addcmul_(affinity[:, k : k + 1], upstream)
            torch.mul(upstream, padded[..., rows, columns], out=d_affinity[:, k : k + 1])
        d_padded[..., 1, :] += d_padded[..., 0, :]
        d_padded[..., -2, :] += d_padded[..., -1, :]
        d_padded[..., 1] += d_padded[..., 0]
        d_padded[..., -2] += d_padded[..., -1]
        return d_padded[..., 1:-1, 1:-1], d_affinity


def convex_upsample2x(
    x: Tensor,  # [B, 1, h, w]
    logits: Tensor,  # [B, 36, h, w], of the nine cells around a cell, for each of its four pixels
) -> Tensor:  # [B, 1, 2 h, 2 w]
    """Each pixel a mean of the nine cells around its own; cells beyond the border repeat those at it."""
    batch, _, height, width = x.shape
    weights = logits.reshape(batch, 9, 4, height, width).softmax(dim=1)
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    out = torch.zeros_like(weights[:, 0])
    for k, (y, x0) in enumerate(NEIGHBORHOOD):
        out = torch.addcmul(out, weights[:, k], padded[..., y : y + height, x0 : x0 + width])
    return F.pixel_shuffle(out, 2)


def bilinear_logits() -> list[float]:
    """The 36 logits with which `convex_upsample2x` is nearly bilinear."""
    near = ((0.25, 0.75, 0.0), (0.0, 0.75, 0.25))  # of the cells before, at and after, for a cell's two pixels
    return [
        math.log(near[row][y] * near[column][x] + UNUSED)
        for y, x in NEIGHBORHOOD
        for row in range(2)
        for column in range(2)
    ]


def pixel_color_distance(image: Tensor) -> Tensor:  # [B, 3, H, W] → [B, 9, H, W]
    """Distance in color, in units of `COLOR_STEP`, of every pixel from each of its neighborhood; 0 from itself.

    Pixels beyond the border repeat those at it. A distance serves both of its ends, so that four are computed.
    """
    height, width = image.shape[-2:]
    padded = F.pad(image.contiguous() / COLOR_STEP, (1, 1, 1, 1), mode="replicate")
    parts = [torch.zeros_like(image[:, :1])] * 9
    for k in range(4):
        y, x = NEIGHBORHOOD[k]
        # of the padded pixels p and p + (1 − y, 1 − x)
        near = padded[..., : height + 2 - (1 - y), max(0, x - 1) : width + 2 - max(0, 1 - x)]
        far = padded[..., 1 - y :, max(0, 1 - x) : width + 2 - max(0, x - 1)]
        distance = ((near - far).square().sum(dim=1, keepdim=True) + 1e-4).sqrt()
        top, left = 1 - (1 - y), 1 - max(0, 1 - x)
        parts[k] = distance[..., top : top + height, left : left + width]
        parts[8 - k] = distance[..., 1 : 1 + height, 1 - max(0, x - 1) : 1 - max(0, x - 1) + width]
    return torch.cat(parts, dim=1)
