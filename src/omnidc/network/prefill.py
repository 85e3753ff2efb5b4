"""A dense first guess from the measurements alone: a pull-push pyramid.

Pull: sums of confidence and of confidence times log depth, from pixels to cells of twice the size, level by level.
Push: from the coarsest level on, the guess of the coarser level is corrected by the residuals of the measurements,
spread over the cells between them by a few steps of normalized diffusion,

    u_l = up(u_{l+1}) + diffuse(t (o − up(u_{l+1}))) / diffuse(t),   t = n / (n + PRIOR),

n being the confidence in a cell and o the mean of its measurements. A single fine level would be flat away from
measurements; the coarser ones keep the slope at large scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate.energy import add_pairs

LEVELS = 8  # from cells of 2 pixels to cells of 256
DENSE_LEVELS = 5  # of these, the finest that `density` counts
PRIOR = 0.1  # measurements that the coarser guess counts for
STEPS, FINEST_STEPS = 4, 2  # of the diffusion; the finest level has the most cells and the shortest gaps
FADE = 0.03  # diffused weight at which half of a residual is applied


@dataclass(frozen=True)
class Prefill:
    """The guess, and how much was measured; h × w are cells of 2 × 2 pixels."""

    log_depth: Tensor  # [B, 1, h, w], dense
    density: Tensor  # [B, 1, h, w] in [0, 1], share of the levels up to 1/32 whose cell here has measurements
    sums: tuple[tuple[Tensor, Tensor], ...]  # per level from 1/2 to 1/32: Σ confidence, Σ confidence · log depth


def prefill(
    log_depth: Tensor,  # [B, 1, H, W], 0 where not measured; H and W multiples of 32
    confidence: Tensor,  # [B, 1, H, W] in [0, 1], 0 where not measured
) -> Prefill:
    """Fill cells of 2 × 2 pixels. Without any measurement: 0."""
    height, width = log_depth.shape[-2:]
    sums = torch.cat([confidence, confidence * log_depth], dim=1)
    sums = F.pad(sums, (0, -width % 2**LEVELS, 0, -height % 2**LEVELS))
    levels = []
    for _ in range(LEVELS):
        sums = add_pairs(add_pairs(sums, -2), -1)
        levels.append(sums)
    total = levels[-1].sum((2, 3), keepdim=True)
    filled = (total[:, 1:] / (total[:, :1] + 1e-6)).expand_as(levels[-1][:, 1:])
    density = torch.zeros_like(filled)
    for level in range(LEVELS - 1, -1, -1):
        n, s = levels[level].chunk(2, dim=1)
        if level < LEVELS - 1:
            filled = upsample2x(filled)
            density = F.interpolate(density, scale_factor=2, mode="nearest")
        t = n / (n + PRIOR)
        filled = filled + _diffuse((s - n * filled) / (n + PRIOR), t, STEPS if level else FINEST_STEPS)
        if level < DENSE_LEVELS:
            density = density + t / DENSE_LEVELS
    rows, columns = height // 2, width // 2
    cropped = [one[..., : rows // 2**k, : columns // 2**k] for k, one in enumerate(levels[:DENSE_LEVELS])]
    sums_of_levels = tuple((one[:, :1], one[:, 1:]) for one in cropped)
    return Prefill(filled[..., :rows, :columns], density[..., :rows, :columns], sums_of_levels)


def _diffuse(
    residual: Tensor,  # [B, 1, h, w], t times the residual of a cell's measurements
    t: Tensor,  # [B, 1, h, w] in [0, 1), 0 where nothing was measured
    steps: int,
) -> Tensor:
    """Residuals in the cells between measurements: a quotient of two diffused maps, so that gaps do not weaken them."""
    given = torch.cat([residual, t], dim=1)
    x, free = given, 1 - t
    for _ in range(steps):
        x = given + free * F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return x[:, :1] / (x[:, 1:] + FADE)


def upsample2x(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
