"""The integrator in a form that exports: a fixed number of iterations and grids, and no branch on a value.

Multigrid-preconditioned conjugate gradients on the equations of `omnidc.integrate.energy`, with the same interpolation
between grids as `omnidc.integrate.transfer`. Two things differ. Maps of edges keep the size of their grid, with 0 in
the dropped column and row, so that every shift is one padding. And the coarsest grid gets Chebyshev sweeps instead of
a dense inverse, which ONNX lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate.multigrid import JACOBI_DAMPING

TINY = 1e-30
SWEEPS = 12  # of the coarsest grid
CONDITION = 200.0  # ratio of the eigenvalues between which these sweeps damp every error
MAX_EIGENVALUE = 1.45  # of D⁻¹ A, D being the smoother's diagonal


def from_left(x: Tensor) -> Tensor:
    """x[i − 1] along the last axis, 0 at the border."""
    return F.pad(x, (1, -1))


def from_right(x: Tensor) -> Tensor:
    return F.pad(x, (-1, 1))


def from_above(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, 1, -1))


def from_below(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, -1, 1))


def components(maps: Tensor) -> tuple[Tensor, Tensor]:  # [B, 2, h, w]
    """x and y."""
    return maps[:, :1], maps[:, 1:]


def divergence(fx: Tensor, fy: Tensor) -> Tensor:
    """∇ᵀ f."""
    return fx - from_right(fx) + fy - from_below(fy)


def spread(x: Tensor) -> Tensor:
    """P₁ᵀ: each cell's value over its four pixels."""
    return F.interpolate(x, scale_factor=2.0, mode="nearest") * 0.25


@dataclass(frozen=True)
class Grid:
    """A of one grid, and the weights of the interpolation from the next coarser one."""

    anchor: Tensor  # [B, 1, h, w]
    edges: tuple[Tensor, ...]  # per resolution [B, 2, h / 2^r, w / 2^r], 0 in column 0 of x and row 0 of y
    smoother: Tensor  # [B, 1, h, w], inverse of the smoother's diagonal
    own: Tensor  # [B, 1, h / 2, 2, w / 2, 2], and so are the next three
    beside: Tensor
    above: Tensor
    across: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """A x."""
        return apply(self.anchor, self.edges, x)


def apply(anchor: Tensor, edges: Sequence[Tensor], x: Tensor) -> Tensor:
    """A x = a x + Σ_r P_rᵀ ∇ᵀ W_r ∇ P_r x."""
    pooled = [x]
    for _ in edges[1:]:
        pooled.append(F.avg_pool2d(pooled[-1], 2))
    flow = _laplacian(pooled[-1], edges[-1])
    for level in range(len(edges) - 2, -1, -1):
        flow = spread(flow) + _laplacian(pooled[level], edges[level])
    return anchor * x + flow


def _laplacian(x: Tensor, edges: Tensor) -> Tensor:
    wx, wy = components(edges)
    return divergence(wx * (x - from_left(x)), wy * (x - from_above(x)))


def degree(edges: Tensor) -> Tensor:
    """Sum of the weights of each cell's edges."""
    wx, wy = components(edges)
    return wx + from_right(wx) + wy + from_below(wy)


def _smoother(anchor: Tensor, edges: Sequence[Tensor]) -> Tensor:
    """Inverse of `omnidc.integrate.multigrid.majorant`."""
    pooled = torch.zeros_like(anchor)
    if len(edges) > 1:
        rows = degree(edges[-1])
        for level in range(len(edges) - 2, 0, -1):
            rows = spread(rows) + degree(edges[level])
        pooled = 2 * spread(rows)
    return 1 / ((anchor + degree(edges[0])) / JACOBI_DAMPING + pooled).clamp_min(TINY)


def coarsen(anchor: Tensor, edges: tuple[Tensor, ...]) -> tuple[Grid, Tensor, tuple[Tensor, ...]]:
    """The grid, and anchor and edges of the one of half its size; height and width are even."""
    batch, _, height, width = anchor.shape
    wx, wy = components(edges[0])
    x_share = _neighbor_share(wx, from_right(wx), anchor, -1)
    y_share = _neighbor_share(wy, from_below(wy), anchor, -2)

    def blocks(weights: Tensor) -> Tensor:
        return weights.reshape(batch, 1, height // 2, 2, width // 2, 2)

    grid = Grid(
        anchor,
        edges,
        _smoother(anchor, edges),
        blocks((1 - x_share) * (1 - y_share)),
        blocks(x_share * (1 - y_share)),
        blocks((1 - x_share) * y_share),
        blocks(x_share * y_share),
    )
    # The edge into an even column crosses to the block before it.
    cx = wx[..., ::2] * (1 - x_share[..., ::2] - from_left(x_share[..., 1::2]))
    cy = wy[..., ::2, :] * (1 - y_share[..., ::2, :] - from_above(y_share[..., 1::2, :]))
    finest = torch.cat([cx[..., ::2, :] + cx[..., 1::2, :], cy[..., ::2] + cy[..., 1::2]], dim=1)
    if len(edges) > 1:
        finest = finest + edges[1]
    return grid, 4 * F.avg_pool2d(anchor, 2), (finest, *edges[2:])


def _neighbor_share(before: Tensor, after: Tensor, anchor: Tensor, axis: int) -> Tensor:
    """Share of the neighboring block in a pixel's interpolation; see `omnidc.integrate.transfer`."""
    even = torch.arange(anchor.shape[axis], device=anchor.device) % 2 == 0
    even = even if axis == -1 else even[:, None]
    cross, inner = torch.where(even, before, after), torch.where(even, after, before)
    return 0.5 * cross / (cross + inner + anchor).clamp_min(TINY)


def prolong(grid: Grid, coarse: Tensor) -> Tensor:  # [B, 1, H, W] → [B, 1, 2 H, 2 W]
    batch, _, height, width = coarse.shape
    up, down = from_above(coarse), from_below(coarse)
    beside = torch.stack([from_left(coarse), from_right(coarse)], -1)
    above = torch.stack([up, down], -2)
    across = torch.stack([torch.stack([from_left(one), from_right(one)], -1) for one in (up, down)], -3)
    fine = (
        grid.own * coarse[:, :, :, None, :, None]
        + grid.beside * beside[:, :, :, None]
        + grid.above * above.reshape(batch, 1, height, 2, width, 1)
        + grid.across * across
    )
    return fine.reshape(batch, 1, 2 * height, 2 * width)


def restrict(grid: Grid, fine: Tensor) -> Tensor:  # the transpose of `prolong`
    batch, _, height, width = fine.shape
    r = fine.reshape(batch, 1, height // 2, 2, width // 2, 2)
    beside, above, across = (grid.beside * r).sum(3), (grid.above * r).sum(5), grid.across * r
    up = above[:, :, :, 0] + from_right(across[:, :, :, 0, :, 0]) + from_left(across[:, :, :, 0, :, 1])
    down = above[:, :, :, 1] + from_right(across[:, :, :, 1, :, 0]) + from_left(across[:, :, :, 1, :, 1])
    own = (grid.own * r).sum((3, 5))
    return own + from_right(beside[..., 0]) + from_left(beside[..., 1]) + from_below(up) + from_above(down)


class FixedMultigrid:
    """M⁻¹ ≈ A⁻¹ by one symmetric V(1, 1)-cycle over `levels` + 1 grids."""

    def __init__(self, anchor: Tensor, edges: tuple[Tensor, ...], levels: int) -> None:
        self.grids: list[Grid] = []
        for _ in range(levels):
            grid, anchor, edges = coarsen(anchor, edges)
            self.grids.append(grid)
        self.anchor, self.edges = anchor, edges
        self.smoother = _smoother(anchor, edges)

    def __call__(self, b: Tensor, level: int = 0) -> Tensor:
        if level == len(self.grids):
            return self._chebyshev(b)
        grid = self.grids[level]
        x = grid.smoother * b
        x = x + prolong(grid, self(restrict(grid, b - grid.apply(x)), level + 1))
        return x + grid.smoother * (b - grid.apply(x))

    def _chebyshev(self, b: Tensor) -> Tensor:
        """A polynomial in D⁻¹ A, the same for every b: linear and symmetric, as conjugate gradients ask for."""
        high, low = MAX_EIGENVALUE, MAX_EIGENVALUE / CONDITION
        middle, half = (high + low) / 2, (high - low) / 2
        rho = half / middle
        step = self.smoother * b / middle
        x = step
        for _ in range(SWEEPS - 1):
            following = 1 / (2 * middle / half - rho)
            residual = b - apply(self.anchor, self.edges, x)
            step = following * rho * step + 2 * following / half * (self.smoother * residual)
            x, rho = x + step, following
        return x


def integrate_fixed(
    gradients: Sequence[Tensor],  # R × [B, 2, h / 2^r, w / 2^r]
    observed: Tensor,  # [B, 1, h, w]
    anchor: Tensor,  # [B, 1, h, w] ≥ 0, weight of the measurements
    weights: Sequence[Tensor],  # like `gradients`, ≥ 0
    start: Tensor,  # [B, 1, h, w]
    iterations: int,
    levels: int,
) -> tuple[Tensor, Tensor]:
    """Return log depth [B, 1, h, w] and the relative residual [B]; 2^levels divides h and w, and levels ≥ R − 1."""
    edges = tuple(torch.cat([F.pad(w[:, :1, :, 1:], (1, 0)), F.pad(w[:, 1:, 1:], (0, 0, 1, 0))], 1) for w in weights)
    flow = divergence(*components(edges[-1] * gradients[-1]))
    for level in range(len(edges) - 2, -1, -1):
        flow = spread(flow) + divergence(*components(edges[level] * gradients[level]))
    mean_edge = edges[0].mean((1, 2, 3), keepdim=True) * 2
    floating = (anchor.sum((1, 2, 3), keepdim=True) <= 1e-6 * mean_edge).to(anchor)

    def project(r: Tensor) -> Tensor:
        """Without measurements the solution has zero mean."""
        return r - floating * r.mean((2, 3), keepdim=True)

    b = project(anchor * observed + flow)
    x = project(start)
    r = project(b - apply(anchor, edges, x))
    M = FixedMultigrid(anchor, edges, levels)
    p, rz = torch.zeros_like(b), torch.ones_like(b[..., :1, :1])
    for k in range(iterations):
        z = project(M(r))
        product = _dot(r, z)
        p = z + (product / rz.clamp_min(TINY)) * p if k else z
        Ap = apply(anchor, edges, p)
        step = product / _dot(p, Ap).clamp_min(TINY)
        x, r, rz = x + step * p, project(r - step * Ap), product
    return project(x), (_dot(r, r) / _dot(b, b).clamp_min(TINY)).sqrt().flatten()


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum((2, 3), keepdim=True)
