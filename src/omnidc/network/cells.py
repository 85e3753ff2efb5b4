"""Measurements in the cells of a grid: their sums, and where in the cell they lie.

A value of the grid belongs to the middle of its cell, a measurement to its pixel. On a slanted surface the mean of a
cell's measurements is the depth of another place; the functions here take that out to first order,

    o − x(p) ≈ o − x − s · (p − middle),

s being the slope of x. Without it, planes come out with a pattern of the measurements' places.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate.energy import add_pairs, differences, join_edges, split_edges


@dataclass(frozen=True)
class Cells:
    """Sums over the measurements of each cell."""

    sums: Tensor  # [B, 2, h, w]: weight, weight · log depth
    offset: Tensor | None  # [B, 2, h, w], weight · (x, y) from the cell's middle, in cells; None = all in the middle

    @property
    def weight(self) -> Tensor:
        return self.sums[:, :1]

    @property
    def log_depth(self) -> Tensor:
        return self.sums[:, 1:]

    def coarser(self) -> Cells:
        """Return the same measurements in cells of twice the size; h and w are even."""
        left, right = self.sums[..., ::2], self.sums[..., 1::2]
        x = (right[:, :1] - left[:, :1]) / 4
        sums = left + right
        above, below = sums[..., ::2, :], sums[..., 1::2, :]
        y = (below[:, :1] - above[:, :1]) / 4
        offset = torch.cat([add_pairs(x, -2), y], dim=1)
        if self.offset is not None:
            offset = offset + add_pairs(add_pairs(self.offset, -1), -2) / 2
        return Cells(above + below, offset)

    def residual(
        self,
        x: Tensor,  # [B, 1, h, w], log depth in the middle of each cell
        slope: Tensor | None,  # [B, 2, h, w], of x along columns and rows, per cell; None = flat
    ) -> Tensor:  # [B, 1, h, w]
        """Return Σ weight · (log depth − x at its place)."""
        flat = self.log_depth - self.weight * x
        if slope is None or self.offset is None:
            return flat
        return flat - (slope * self.offset).sum(1, keepdim=True)

    def crop(self, height: int, width: int) -> Cells:
        sums, offset = self.sums[..., :height, :width], self.offset
        return Cells(sums, offset if offset is None else offset[..., :height, :width])


def pixel_cells(
    log_depth: Tensor,  # [B, 1, H, W], anything where the weight is 0
    weight: Tensor,  # [B, 1, H, W] ≥ 0, 0 where nothing was measured
) -> Cells:
    """Make one cell for each pixel."""
    return Cells(torch.cat([weight, weight * log_depth], dim=1), None)


def central_slope(x: Tensor) -> Tensor:  # [B, 1, h, w] → [B, 2, h, w], h and w at least 2
    """Return the mean of the two differences at a cell along columns and rows; at the border there is one."""
    dx, dy = differences(x)
    dx = F.pad(dx, (1, 1, 0, 0), mode="replicate")
    dy = F.pad(dy, (0, 0, 1, 1), mode="replicate")
    return torch.cat([dx[..., 1:] + dx[..., :-1], dy[..., 1:, :] + dy[..., :-1, :]], dim=1) / 2


def edge_slope(
    gradients: Tensor,  # [B, 2, h, w], differences from the cell before along columns and rows
    weights: Tensor,  # [B, 2, h, w] > 0
) -> Tensor:  # [B, 2, h, w]
    """Return the weighted mean of the two gradients at a cell; one that crosses an outline has little weight."""
    products = _add_ends(gradients * weights)
    return products / _add_ends(weights)


def _add_ends(edges: Tensor) -> Tensor:  # [B, 2, h, w] → [B, 2, h, w]
    """Return for each cell the sum of the two edges at it along columns and rows."""
    x, y = split_edges(edges)
    return join_edges((x, y)) + torch.cat([F.pad(x, (0, 1, 0, 0)), F.pad(y, (0, 0, 0, 1))], dim=1)
