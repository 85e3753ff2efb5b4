"""A dense first guess from the measurements alone: a pull-push pyramid.

Pull: sums of confidence and of confidence times log depth, from pixels to cells of twice the size, level by level.
Push: a cell takes the mean of its own measurements as far as it has any, and the next coarser guess elsewhere,

    u_l = t_l s_l / n_l + (1 − t_l) up(u_{l+1}),   t_l = n_l / (n_l + PRIOR).

The coarsest level is filled by inverse-distance weighting over all of its cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate.energy import add_pairs

LEVELS = 5  # from cells of 2 pixels to cells of 32
PRIOR = 0.1  # measurements that the coarser guess counts for


@dataclass(frozen=True)
class Prefill:
    log_depth: Tensor  # [B, 1, h, w], dense
    density: Tensor  # [B, 1, h, w] in [0, 1], share of the levels whose cell here has measurements
    sums: tuple[tuple[Tensor, Tensor], ...]  # per level from 1/2 on: Σ confidence and Σ confidence · log depth of a cell


def prefill(
    log_depth: Tensor,  # [B, 1, H, W], 0 where not measured; H and W multiples of 32
    confidence: Tensor,  # [B, 1, H, W] in [0, 1], 0 where not measured
) -> Prefill:
    """Fill cells of 2 × 2 pixels. Without any measurement: 0."""
    sums = torch.cat([confidence, confidence * log_depth], dim=1)
    levels: list[tuple[Tensor, Tensor]] = []
    for _ in range(LEVELS):
        sums = add_pairs(add_pairs(sums, -2), -1)
        levels.append((sums[:, :1], sums[:, 1:]))
    n, s = levels[-1]
    filled, density = _inverse_distance(n, s), n / (n + PRIOR)
    for n, s in levels[-2::-1]:
        t = n / (n + PRIOR)
        coarser = upsample2x(filled)
        filled = coarser + (s - n * coarser) / (n + PRIOR)
        density = F.interpolate(density, scale_factor=2, mode="nearest") + t
    return Prefill(filled, density / LEVELS, tuple(levels))


def _inverse_distance(n: Tensor, s: Tensor) -> Tensor:  # [B, 1, h, w] each → [B, 1, h, w]
    """Σ_j k_ij s_j / Σ_j k_ij n_j with k = (distance² + ½)⁻², cells as unit; 0 where there is nothing at all."""
    batch, _, height, width = n.shape
    y = torch.arange(height, dtype=n.dtype, device=n.device).view(-1, 1).expand(height, width).reshape(-1)
    x = torch.arange(width, dtype=n.dtype, device=n.device).expand(height, width).reshape(-1)
    squared = (y[:, None] - y[None, :]).square() + (x[:, None] - x[None, :]).square()
    kernel = (squared + 0.5).pow(-2)
    sums = torch.cat([n, s], dim=1).reshape(batch, 2, height * width) @ kernel
    return (sums[:, 1:] / (sums[:, :1] + 1e-9)).reshape(batch, 1, height, width)


def upsample2x(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
