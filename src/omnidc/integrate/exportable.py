"""The integrator with a fixed number of iterations and of grids, in tensor operations that export to ONNX.

The equations are those of `energy`, `multigrid` and `solve`. What differs: no branch on a value, no writes into slices,
no dense inverse on the coarsest grid (a fixed number of Chebyshev steps instead, which are linear, so that conjugate
gradients stay valid), and the iterations are one `scan`, so that a graph holds a single one. Maps of edges are
[B, 2, h, w] in the gradient convention; their first column (x) and row (y) must be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate.multigrid import JACOBI_DAMPING

COARSENINGS = 5
CHEBYSHEV_STEPS = 8
LARGEST_EIGENVALUE, CONDITION = 1.45, 100.0  # of the smoothed coarsest system: A ≤ 1.4 D
TINY = 1e-30


def integrate_fixed(
    gradients: Sequence[Tensor],  # R × [B, 2, h / 2^r, w / 2^r], backward differences of x
    observed: Tensor,  # [B, 1, h, w], o; h and w multiples of 2^(R − 1)
    data_weight: Tensor,  # [B, 1, h, w] ≥ 0, a = α m c
    edge_weights: Sequence[Tensor],  # like `gradients`, ≥ 0
    start: Tensor,  # [B, 1, h, w]
    iterations: int,
) -> tuple[Tensor, Tensor]:
    """Return x [B, 1, h, w] after `iterations` of preconditioned conjugate gradients, and ‖r‖ / ‖b‖ [B].

    Differentiable through its operations; meant for inference.
    """
    edges = [_inner_edges(w) for w in edge_weights]
    b = data_weight * observed
    for level, (w, g) in enumerate(zip(edges, gradients, strict=True)):
        b = b + _spread(_transpose_differences(w * g), level)
    grids = _coarsen(data_weight, edges)
    r = b - _apply(grids[0], start)

    def iterate(
        carry: tuple[Tensor, Tensor, Tensor, Tensor], _: Tensor
    ) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
        x, r, p, rz = carry
        z = _cycle(grids, 0, r)
        rz_next = _dot(r, z)
        p = z + rz_next / rz * p
        Ap = _apply(grids[0], p)
        step = rz_next / _dot(p, Ap).clamp_min(TINY)
        x, r = x + step * p, r - step * Ap
        return (x, r, p, rz_next.clamp_min(TINY)), _dot(r, r)

    # p = 0 and a large rz make the first direction the preconditioned residual itself.
    carry = (start, r, torch.zeros_like(r), torch.full_like(_dot(r, r), 1e30))
    if torch.compiler.is_exporting():
        from torch._higher_order_ops.scan import scan

        carry, squares = scan(iterate, carry, torch.zeros(iterations, 1, dtype=b.dtype, device=b.device))
        last = squares[-1]
    else:
        for _ in range(iterations):
            carry, last = iterate(carry, b)
    return carry[0], (last / _dot(b, b).clamp_min(TINY)).sqrt().flatten()


@dataclass(frozen=True)
class _Grid:
    """One grid of the hierarchy: its system, its smoother and the way to the next coarser one."""

    data_weight: Tensor  # [B, 1, h, w]
    edges: list[Tensor]  # [B, 2, h / 2^r, w / 2^r]
    smoother: Tensor  # [B, 1, h, w], inverse of `multigrid.majorant`
    interpolation: tuple[Tensor, Tensor, Tensor, Tensor] | None = None  # w_c, w_x, w_y, w_xy, [B, 1, h/2, 2, w/2, 2]


def _coarsen(data_weight: Tensor, edges: list[Tensor]) -> list[_Grid]:
    """Build the hierarchy; a grid of odd size gets an empty last row or column."""
    grids = []
    for _ in range(COARSENINGS):
        if len(edges) == 1:  # sizes of grids with pooled terms are even
            data_weight, edges = _pad_even(data_weight), [_pad_even(edges[0])]
        wx, wy = edges[0].split(1, dim=1)
        share_x = _neighbor_share(wx, _left(wx), data_weight, -1)
        share_y = _neighbor_share(wy, _up(wy), data_weight, -2)
        batch, _, height, width = data_weight.shape

        def blocks(w: Tensor, shape: tuple[int, ...] = (batch, 1, height // 2, 2, width // 2, 2)) -> Tensor:
            return w.reshape(shape)

        parts = (
            blocks((1 - share_x) * (1 - share_y)),
            blocks(share_x * (1 - share_y)),
            blocks((1 - share_x) * share_y),
            blocks(share_x * share_y),
        )
        grids.append(_Grid(data_weight, edges, _smoother(data_weight, edges), parts))
        cx = wx[..., ::2] * (1 - share_x[..., ::2] - _right(share_x[..., 1::2]))
        cy = wy[..., ::2, :] * (1 - share_y[..., ::2, :] - _down(share_y[..., 1::2, :]))
        coarse = torch.cat([cx[..., ::2, :] + cx[..., 1::2, :], cy[..., ::2] + cy[..., 1::2]], dim=1)
        data_weight = 4 * F.avg_pool2d(data_weight, 2)
        edges = [coarse + edges[1], *edges[2:]] if len(edges) > 1 else [coarse]
    grids.append(_Grid(data_weight, edges, _smoother(data_weight, edges)))
    return grids


def _cycle(grids: list[_Grid], level: int, b: Tensor) -> Tensor:
    """One V(1, 1)-cycle."""
    grid = grids[level]
    if grid.interpolation is None:
        return _chebyshev(grid, b)
    height, width = b.shape[-2:]
    if len(grid.edges) == 1:
        b = _pad_even(b)
    x = grid.smoother * b
    x = x + _prolong(grid, _cycle(grids, level + 1, _restrict(grid, b - _apply(grid, x))))
    x = x + grid.smoother * (b - _apply(grid, x))
    return x[..., :height, :width]


def _chebyshev(grid: _Grid, b: Tensor) -> Tensor:
    """A fixed number of Chebyshev steps for A x = b."""
    low = LARGEST_EIGENVALUE / CONDITION
    middle, half = (LARGEST_EIGENVALUE + low) / 2, (LARGEST_EIGENVALUE - low) / 2
    sigma = middle / half
    rho = 1 / sigma
    direction = grid.smoother * b / middle
    x = direction
    for _ in range(CHEBYSHEV_STEPS - 1):
        rho_next = 1 / (2 * sigma - rho)
        residual = grid.smoother * (b - _apply(grid, x))
        direction = rho_next * rho * direction + 2 * rho_next / half * residual
        x, rho = x + direction, rho_next
    return x


def _apply(grid: _Grid, x: Tensor) -> Tensor:
    """A x."""
    edges = grid.edges
    out = grid.data_weight * x + _laplacian(x, edges[0])
    if len(edges) == 1:
        return out
    pooled = [x]
    for _ in edges[1:]:
        pooled.append(F.avg_pool2d(pooled[-1], 2))
    flow = _laplacian(pooled[-1], edges[-1])
    for level in range(len(edges) - 2, 0, -1):
        flow = 0.25 * _double(flow) + _laplacian(pooled[level], edges[level])
    return out + 0.25 * _double(flow)


def _smoother(data_weight: Tensor, edges: list[Tensor]) -> Tensor:
    total = (data_weight + _degree(edges[0])) / JACOBI_DAMPING
    for level in range(1, len(edges)):
        total = total + 2 * _spread(_degree(edges[level]), level)
    return 1 / total.clamp_min(TINY)


def _prolong(grid: _Grid, coarse: Tensor) -> Tensor:  # [B, 1, H, W] → [B, 1, 2 H, 2 W]
    assert grid.interpolation is not None
    w_c, w_x, w_y, w_xy = grid.interpolation
    batch, _, height, width = coarse.shape
    above, below = _down(coarse), _up(coarse)
    beside = torch.stack([_right(coarse), _left(coarse)], dim=-1).unsqueeze(3)
    vertical = torch.stack([above, below], dim=3).unsqueeze(-1)
    corners = [torch.stack([_right(row), _left(row)], dim=-1) for row in (above, below)]
    fine = w_c * coarse[:, :, :, None, :, None] + w_x * beside + w_y * vertical + w_xy * torch.stack(corners, dim=3)
    return fine.reshape(batch, 1, 2 * height, 2 * width)


def _restrict(grid: _Grid, fine: Tensor) -> Tensor:  # [B, 1, 2 H, 2 W] → [B, 1, H, W]
    assert grid.interpolation is not None
    w_c, w_x, w_y, w_xy = grid.interpolation
    batch, _, height, width = fine.shape
    r = fine.reshape(batch, 1, height // 2, 2, width // 2, 2)
    own = (w_c * r).sum((3, 5))
    beside, vertical, corner = (w_x * r).sum(3), (w_y * r).sum(5), w_xy * r
    above = vertical[:, :, :, 0] + _left(corner[:, :, :, 0, :, 0]) + _right(corner[:, :, :, 0, :, 1])
    below = vertical[:, :, :, 1] + _left(corner[:, :, :, 1, :, 0]) + _right(corner[:, :, :, 1, :, 1])
    return own + _left(beside[..., 0]) + _right(beside[..., 1]) + _up(above) + _down(below)


def _laplacian(x: Tensor, w: Tensor) -> Tensor:
    """∇ᵀ W ∇ x."""
    return _transpose_differences(w * torch.cat([x - _right(x), x - _down(x)], dim=1))


def _transpose_differences(f: Tensor) -> Tensor:  # [B, 2, h, w] → [B, 1, h, w]
    fx, fy = f.split(1, dim=1)
    return fx - _left(fx) + fy - _up(fy)


def _degree(w: Tensor) -> Tensor:
    wx, wy = w.split(1, dim=1)
    return wx + _left(wx) + wy + _up(wy)


def _neighbor_share(before: Tensor, after: Tensor, data_weight: Tensor, dim: int) -> Tensor:
    """`transfer.neighbour_share` along one axis, from the edges before and after each pixel."""
    length = data_weight.shape[dim]
    first = torch.arange(length, device=before.device) % 2 == 0
    first = first if dim == -1 else first[:, None]
    cross, inner = torch.where(first, before, after), torch.where(first, after, before)
    return 0.5 * cross / (cross + inner + data_weight).clamp_min(TINY)


def _inner_edges(w: Tensor) -> Tensor:  # [B, 2, h, w]
    """The same weights without the edges that lead out of the grid."""
    height, width = w.shape[-2:]
    x = (torch.arange(width, device=w.device) > 0).to(w.dtype).view(1, 1, 1, -1)
    y = (torch.arange(height, device=w.device) > 0).to(w.dtype).view(1, 1, -1, 1)
    return torch.cat([w[:, :1] * x, w[:, 1:] * y], dim=1)


def _spread(y: Tensor, level: int) -> Tensor:
    """P_rᵀ."""
    for _ in range(level):
        y = 0.25 * _double(y)
    return y


def _double(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def _pad_even(x: Tensor) -> Tensor:
    height, width = x.shape[-2:]
    return F.pad(x, (0, width % 2, 0, height % 2))


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum((1, 2, 3), keepdim=True)


# Maps moved by one pixel, 0 where nothing comes in; a negative pad is a single node of a graph.
def _right(x: Tensor) -> Tensor:
    return F.pad(x, (1, -1))


def _left(x: Tensor) -> Tensor:
    return F.pad(x, (-1, 1))


def _down(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, 1, -1))


def _up(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, -1, 1))
