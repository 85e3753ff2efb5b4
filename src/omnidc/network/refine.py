"""Stage 4, refine: from the integrator's grid to the output size, guided by colors and measurements.

At half and at full size: convex upsampling, each pixel a learned mean of the nine cells around it, so that a depth edge
needs no slope, then a few steps of anchored propagation (DySPN's idea, with a fixed neighborhood),

    x ← Σ_k a_k x(p + n_k),   x ← x + c (o − x) where measured,

over the nine pixels n_k around p. The affinities a follow from learned guides and, at full size, differences of color;
c is the confidence of the measurement o. Last, what the result still differs by from trusted measurements is spread to
the pixels of like color around them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

NEIGHBORHOOD = [(y, x) for y in range(3) for x in range(3)]
COLOR_STEP = 0.1  # of full scale: a clear difference of color
TRUSTED, TRUST_WIDTH = 0.9, 0.04  # confidence at which a residual counts half when it is spread, and how sharply
SPREAD_COLOR = 2.0  # e-foldings of the affinity per `COLOR_STEP`; 4 spreads no better
FADE = 0.1  # weight that must arrive at a cell for half of a residual to be applied
UNUSED = 2e-3  # weight of the cells that bilinear upsampling leaves out: not 0, so that training can use them


def propagate(
    x: Tensor,  # [B, 1, H, W]
    affinity: Tensor,  # [B, 9, H, W] ≥ 0, sums to 1 over the neighborhood
    steps: int,
    measured: Tensor | None = None,  # [B, 1, H, W], x of the measurements, anything where there is none
    anchor: Tensor | None = None,  # [B, 1, H, W] in [0, 1], weight of the measurement, 0 where there is none
) -> Tensor:
    """Propagation, anchored where measurements are given; see the module's text."""

    def pull(x: Tensor) -> Tensor:
        return x if measured is None or anchor is None else torch.addcmul(x, anchor, measured - x)

    x = pull(x)
    for _ in range(steps):
        x = pull(_mix(x, affinity))
    return x


def spread_residual(
    x: Tensor,  # [B, 1, H, W], log depth
    measured: Tensor,  # [B, 1, H, W], log depth of the measurements, anything where there is none
    confidence: Tensor,  # [B, 1, H, W] in [0, 1], 0 where there is no measurement
    given: Tensor,  # [B, 1, H, W], 1 = measured, 0 = not
    image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
    steps: int,
) -> Tensor:
    """Correct x around trusted measurements by what it differs from them, in cells of 2 × 2 pixels and by color.

    With t the trust in a cell and r the mean residual in it, in every step

        n ← t r + (1 − t) Σ_k a_k n(p + n_k),   d ← t + (1 − t) Σ_k a_k d(p + n_k),

    and n / (d + FADE) is added: a quotient of two diffused maps, so that gaps do not weaken it; 0 where none is near.
    """
    height, width = x.shape[-2:]
    end = (0, 1, 0, 1)  # completes the last cell of an odd side; pooling drops it from an even one
    weight = torch.sigmoid((confidence - TRUSTED) / TRUST_WIDTH) * given
    sums = 4 * F.avg_pool2d(F.pad(torch.cat([weight, weight * (measured - x)], dim=1), end), 2)
    t = 1 - torch.exp(-sums[:, :1])
    residual = t * sums[:, 1:] / (sums[:, :1] + 1e-6)
    cells = F.avg_pool2d(F.pad(image, end, mode="replicate"), 2)
    affinity = without_center(-SPREAD_COLOR * pixel_color_distance(cells)).softmax(dim=1)
    n, d = residual, t
    for _ in range(steps):
        n, d = (torch.addcmul(source, 1 - t, _mix(one, affinity)) for source, one in ((residual, n), (t, d)))
    correction = F.interpolate(n / (d + FADE), scale_factor=2, mode="bilinear", align_corners=False)
    return x + correction[..., :height, :width]


def without_center(logits: Tensor) -> Tensor:  # [B, 9, H, W] → the same
    """Logits of affinities to the eight neighbors alone."""
    return torch.cat([logits[:, :4], torch.full_like(logits[:, :1], -1e4), logits[:, 5:]], dim=1)


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
