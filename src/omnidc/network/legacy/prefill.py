"""A dense first guess from the measurements alone: harmonic interpolation, told from coarse to fine.

One harmonic solve on a fine grid hangs a tent on every point: far from its poles it is flat, whatever slope they stand
on. Here the coarsest grid is filled first, where a cell has a measurement more often than not, and every finer grid
fills only what the coarser one missed,

    u_l = up(u_{l+1}) + harmonic(o_l − up(u_{l+1})),

so slopes between points survive, at the scale at which the points lie. It looks at no photograph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate import integrate

COARSEST = 64  # pixels of a cell
SPREAD = 0.4  # log depth: what the relief of a scene is taken for before anything was measured
SPREAD_VOTES = 3.0  # measurements that this first guess counts for
SPREAD_LEAST, SPREAD_MOST = 0.03, 1.2
_NORMAL_DECILES = 2.563  # distance of the first and last decile of a normal distribution, in standard deviations


@dataclass
class Prefill:
    """What is guessed, and how far from measurements."""

    log_depth: Tensor  # [B, 1, h, w], dense
    support: Tensor  # [B, 1, h, w] in [0, 1], share of the grids whose cell here was measured: 1 at a point, 0 far away
    spread: Tensor  # [B, 1, 1, 1] > 0, relief of the scene: about the standard deviation of its log depth


@torch.no_grad()
def prefill(
    log_depth: Tensor,  # [B, 1, H, W], relative to some typical depth; 0 where there is no measurement
    valid: Tensor,  # [B, 1, H, W], 0 or 1
    factor: int = 2,
) -> Prefill:
    """Fill the cells of `factor` × `factor` pixels; H and W are multiples of it. Without any measurement: 0."""
    filled: Tensor | None = None
    support = torch.zeros_like(log_depth)
    cell, grids = COARSEST, 0
    while cell >= factor:
        share = F.avg_pool2d(valid, cell, ceil_mode=True)
        observed = F.avg_pool2d(log_depth * valid, cell, ceil_mode=True) / share.clamp_min(1e-9)
        mask = (share > 0).to(log_depth.dtype)
        base, known = torch.zeros_like(observed), mask
        if filled is not None:
            height, width = observed.shape[-2:]
            base = F.interpolate(filled, scale_factor=2, mode="bilinear")[..., :height, :width]
            known = known + F.interpolate(support, scale_factor=2)[..., :height, :width]
        flat = observed.new_zeros(len(observed), 2, *observed.shape[-2:])
        missing, _ = integrate([flat], (observed - base) * mask, mask, rtol=3e-2, on_failure="ignore")
        filled, support = base + missing, known
        cell, grids = cell // 2, grids + 1
    assert filled is not None
    return Prefill(filled, support / grids, _spread(filled, valid))


def _spread(filled: Tensor, valid: Tensor) -> Tensor:
    """Deciles of the filled map, so that clusters of points and outliers count little; few points, little trust."""
    low, high = torch.quantile(filled.flatten(1), filled.new_tensor([0.1, 0.9]), dim=1)
    count = valid.flatten(1).sum(1)
    variance = ((high - low) / _NORMAL_DECILES).square()
    mixed = (count * variance + SPREAD_VOTES * SPREAD**2) / (count + SPREAD_VOTES)
    spread: Tensor = mixed.sqrt().clamp(SPREAD_LEAST, SPREAD_MOST)
    return spread.view(-1, 1, 1, 1)
