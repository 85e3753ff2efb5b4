"""A dense first guess from the measurements alone: a pull-push pyramid.

Pull: sums of confidence and of confidence times log depth, from pixels to cells of twice the size, level by level.
Push: from the coarsest level on, the guess of the coarser level is corrected by the residuals of the measurements,
spread over the cells between them by a few steps of normalized diffusion,

    u_l = up(u_{l+1}) + diffuse(t (o − up(u_{l+1}))) / diffuse(t),   t = n / (n + PRIOR),

n being the confidence in a cell and o the mean of its measurements, each at its place in the cell (`cells`). A single
fine level would be flat away from measurements; the coarser ones keep the slope at large scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate.energy import add_pairs
from omnidc.network.cells import Cells, central_slope, pixel_cells

LEVELS = 8  # from cells of 2 pixels to cells of 256
DENSE_LEVELS = 5  # of these, the finest that `density` counts
RESIDUAL_LEVELS = 4  # of `push_residual`
PRIOR = 0.1  # measurements that the coarser guess counts for
STEPS, FINEST_STEPS = 4, 2  # of the diffusion; the finest level has the most cells and the shortest gaps
FADE = 0.03  # diffused weight at which half of a residual is applied


@dataclass(frozen=True)
class Prefill:
    """The guess, and how much was measured; h × w are cells of 2 × 2 pixels."""

    log_depth: Tensor  # [B, 1, h, w], dense
    density: Tensor  # [B, 1, h, w] in [0, 1], share of the levels up to 1/32 whose cell here has measurements
    levels: tuple[Cells, ...]  # the measurements in cells of 1/2, 1/4, … 1/32


def prefill(
    log_depth: Tensor,  # [B, 1, H, W], 0 where not measured; H and W multiples of 32
    confidence: Tensor,  # [B, 1, H, W] in [0, 1], 0 where not measured
) -> Prefill:
    """Fill cells of 2 × 2 pixels. Without any measurement: 0."""
    height, width = log_depth.shape[-2:]
    cells = pixel_cells(log_depth, confidence)
    cells = Cells(F.pad(cells.sums, (0, -width % 2**LEVELS, 0, -height % 2**LEVELS)), None)
    levels = [cells.coarser()]
    while len(levels) < LEVELS:
        levels.append(levels[-1].coarser())
    total = levels[-1].sums.sum((2, 3), keepdim=True)
    start = (total[:, 1:] / (total[:, :1] + 1e-6)).expand_as(levels[-1].weight)
    filled = _push(levels, start)
    rows, columns = height // 2, width // 2
    cropped = tuple(one.crop(rows >> k, columns >> k) for k, one in enumerate(levels[:DENSE_LEVELS]))
    return Prefill(filled[..., :rows, :columns], _density(cropped), cropped)


def push_residual(
    weight: Tensor,  # [B, 1, h, w] ≥ 0; h and w multiples of 8
    residual: Tensor,  # [B, 1, h, w], weight times the residual of a cell's measurements
) -> Tensor:  # [B, 1, h, w]
    """Return residuals in the cells between measurements, by the same pyramid; 0 where none is near."""
    sums = [torch.cat([weight, residual], dim=1)]
    while len(sums) < RESIDUAL_LEVELS:
        sums.append(add_pairs(add_pairs(sums[-1], -1), -2))
    return _push([Cells(one, None) for one in sums], torch.zeros_like(sums[-1][:, :1]))


def _push(
    levels: Sequence[Cells],  # finest first
    start: Tensor,  # [B, 1, h, w] of the coarsest level, constant
) -> Tensor:  # [B, 1, h, w] of the finest level
    filled = start
    for level in range(len(levels) - 1, -1, -1):
        cells, slope = levels[level], None
        if level < len(levels) - 1:
            filled = upsample2x(filled)
            slope = None if cells.offset is None else central_slope(filled)
        residual = cells.residual(filled, slope) / (cells.weight + PRIOR)
        filled = filled + _diffuse(residual, presence(cells.weight), STEPS if level else FINEST_STEPS)
    return filled


def presence(weight: Tensor) -> Tensor:  # [B, 1, h, w] ≥ 0 → [B, 1, h, w] in [0, 1)
    """Return t: 0 where nothing was measured, near 1 where a measurement counts in full."""
    return weight / (weight + PRIOR)


def _density(levels: Sequence[Cells]) -> Tensor:  # → [B, 1, h, w] of the finest level
    """Return the mean over the levels of t."""
    density = torch.zeros_like(levels[-1].weight)
    for level in range(len(levels) - 1, -1, -1):
        if level < len(levels) - 1:
            density = F.interpolate(density, scale_factor=2, mode="nearest")
        density = density + presence(levels[level].weight) / len(levels)
    return density


def _diffuse(
    residual: Tensor,  # [B, 1, h, w], t times the residual of a cell's measurements
    t: Tensor,  # [B, 1, h, w] in [0, 1), 0 where nothing was measured
    steps: int,
) -> Tensor:
    """Return residuals in the cells between measurements: quotients of two diffused maps, which gaps do not weaken."""
    given = torch.cat([residual, t], dim=1)
    x, free = given, 1 - t
    for _ in range(steps):
        x = given + free * F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return x[:, :1] / (x[:, 1:] + FADE)


def upsample2x(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
