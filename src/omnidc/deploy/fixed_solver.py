"""The integrator in a form that exports: a fixed number of iterations and grids, and no branch on a value.

Multigrid-preconditioned conjugate gradients on the equations of `omnidc.integrate.energy`, with the same interpolation
between grids and the same sweeps of the coarsest one as `omnidc.integrate.multigrid` with `levels`: the results agree
after any number of iterations. Two things differ. Maps of edges keep the size of their grid, with 0 in the dropped
column and row. And the way between two grids is a convolution with a constant kernel, or its transpose. Differences
are not, on large grids: onnxruntime pads the channels of a convolution's output to 16, so that one of a single channel
takes four times as long as a shift and a subtraction. Grids with one resolution are small, and there A is a stencil.

`prepare` makes everything that the iterations share, `iterate` is one of them. In the exported file `iterate` is the
body of a loop (`omnidc.deploy.loop`), so that the file has one iteration, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate.multigrid import JACOBI_DAMPING, chebyshev
from omnidc.integrate.transfer import MAX_SHARE

TINY = 1e-30
NO_WEIGHT = 1e-10  # of a cell that neither measurements nor edges hold

# Of the edges that lead into a cell along x and y, [B, 1, h, w] each: 0 in column 0 of x and row 0 of y.
Edges = tuple[Tensor, Tensor]

# Kernels as nested lists: a tracer takes these for constants.
Kernel = list[list[list[list[float]]]]  # [outputs, inputs, rows, columns]
SPREAD: Kernel = [[[[0.25, 0.25], [0.25, 0.25]]]]


def _one_hot(height: int, width: int, row: int, column: int) -> list[list[float]]:
    return [[float((y, x) == (row, column)) for x in range(width)] for y in range(height)]


# Of the 16 weights of the interpolation (`Grid.weights`): the pixel of its block that each belongs to, and the block,
# of the 3 × 3 around, that it multiplies. The neighbors of a block's first row or column are those before it.
_PIXELS = [(a, b) for _ in range(4) for a in (0, 1) for b in (0, 1)]
_BLOCKS = [(2 * a if k in (2, 3) else 1, 2 * b if k in (1, 3) else 1) for k in range(4) for a in (0, 1) for b in (0, 1)]
TO_PIXELS: Kernel = [[_one_hot(2, 2, *pixel)] for pixel in _PIXELS]
FROM_BLOCKS: Kernel = [[_one_hot(3, 3, *block)] for block in _BLOCKS]
# A cell and those left, right, above and below, as a stencil of A orders them
CROSS: Kernel = [[_one_hot(3, 3, *place)] for place in ((1, 1), (1, 0), (1, 2), (0, 1), (2, 1))]


def from_left(x: Tensor) -> Tensor:
    """Return x[i − 1] along the last axis, 0 at the border."""
    return F.pad(x, (1, -1))


def from_right(x: Tensor) -> Tensor:
    return F.pad(x, (-1, 1))


def from_above(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, 1, -1))


def from_below(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, -1, 1))


def weighted_gradient(edges: Edges, x: Tensor) -> Edges:
    """Return W ∇ x of [B, 1, h, w]."""
    return edges[0] * (x - from_left(x)), edges[1] * (x - from_above(x))


def divergence(flow: Edges) -> Tensor:
    """Return ∇ᵀ f, [B, 1, h, w]: the value of an edge is added at its far end and subtracted at its near one."""
    return flow[0] - from_right(flow[0]) + (flow[1] - from_below(flow[1]))


def degree(edges: Edges) -> Tensor:
    """Return the sum of the weights of each cell's edges."""
    return edges[0] + from_right(edges[0]) + (edges[1] + from_below(edges[1]))


def spread(x: Tensor) -> Tensor:
    """Apply P₁ᵀ: spread each cell's value over its four pixels."""
    return F.conv_transpose2d(x, x.new_tensor(SPREAD), stride=2)


def spread_sum(maps: Sequence[Tensor]) -> Tensor:
    """Return Σ_r P_rᵀ m_r."""
    total = maps[-1]
    for one in maps[-2::-1]:
        total = spread(total) + one
    return total


def apply(data_weight: Tensor, edges: Sequence[Edges], x: Tensor) -> Tensor:
    """Return A x = a x + Σ_r P_rᵀ ∇ᵀ W_r ∇ P_r x."""
    pooled = [x]
    for _ in edges[1:]:
        pooled.append(F.avg_pool2d(pooled[-1], 2))
    return data_weight * x + spread_sum([divergence(weighted_gradient(w, mean)) for w, mean in zip(edges, pooled)])


def stencil(data_weight: Tensor, edges: Edges) -> Tensor:  # [B, 5, h, w]
    """Return the five coefficients of A in each cell, of one resolution; the order is that of `CROSS`."""
    wx, wy = edges
    return torch.cat([data_weight + degree(edges), -wx, -from_right(wx), -wy, -from_below(wy)], dim=1)


def apply_stencil(coefficients: Tensor, x: Tensor) -> Tensor:
    """Return A x of one resolution in three nodes: on small grids the number of nodes is what takes the time."""
    return (coefficients * F.conv2d(x, x.new_tensor(CROSS), padding=1)).sum(1, keepdim=True)


def _smoother(data_weight: Tensor, edges: Sequence[Edges]) -> Tensor:
    """Return the inverse of `omnidc.integrate.multigrid.smoother_diagonal`."""
    diagonal = (data_weight + degree(edges[0])) / JACOBI_DAMPING
    if len(edges) > 1:
        diagonal = diagonal + 2 * spread(spread_sum([degree(w) for w in edges[1:]]))
    # 0 for a grid of one cell without measurements, whose residual is nothing but rounding
    return diagonal / (diagonal.square() + NO_WEIGHT**2)


@dataclass(frozen=True)
class Grid:
    """A of one grid, its smoother, and the weights of the interpolation from the next coarser one."""

    weight: Tensor  # [B, 1, h, w], of the measurements; with one resolution the stencil of A, [B, 5, h, w]
    edges: tuple[Edges, ...]  # per resolution, on a grid of h / 2^r and w / 2^r; empty with one resolution
    smoother: Tensor  # [B, 1, h, w], inverse of the smoother's diagonal
    # [B, 16, h / 2, w / 2]: of the own block, those beside, above and across; by sub-row and sub-column. The coarsest
    # grid has None.
    weights: Tensor | None

    @classmethod
    def make(cls, data_weight: Tensor, edges: tuple[Edges, ...], weights: Tensor | None) -> Grid:
        smoother = _smoother(data_weight, edges)
        if len(edges) == 1:
            return cls(stencil(data_weight, edges[0]), (), smoother, weights)
        return cls(data_weight, edges, smoother, weights)

    def apply(self, x: Tensor) -> Tensor:
        """Return A x."""
        return apply(self.weight, self.edges, x) if self.edges else apply_stencil(self.weight, x)

    def tensors(self) -> list[Tensor]:
        edges = [one for pair in self.edges for one in pair]
        return [self.weight, self.smoother, *edges, *([] if self.weights is None else [self.weights])]


def coarsen(data_weight: Tensor, edges: tuple[Edges, ...]) -> tuple[Grid, Tensor, tuple[Edges, ...]]:
    """Return the grid, and data weights and edges of the one of half its size; height and width are even."""
    wx, wy = edges[0]
    wx_after, wy_after = from_right(wx), from_below(wy)
    strength = torch.maximum(wx + wx_after, wy + wy_after) + data_weight
    x_share, y_share = _neighbor_share(wx, wx_after, strength, -1), _neighbor_share(wy, wy_after, strength, -2)
    x_own, y_own = 1 - x_share, 1 - y_share
    weights = F.pixel_unshuffle(torch.cat([x_own * y_own, x_share * y_own, x_own * y_share, x_share * y_share], 1), 2)
    grid = Grid.make(data_weight, edges, weights)
    # The edge into an even column crosses to the block before it.
    cx = wx[..., ::2] * (1 - x_share[..., ::2] - from_left(x_share[..., 1::2]))
    cy = wy[..., ::2, :] * (1 - y_share[..., ::2, :] - from_above(y_share[..., 1::2, :]))
    finest = cx[..., ::2, :] + cx[..., 1::2, :], cy[..., ::2] + cy[..., 1::2]
    if len(edges) > 1:
        finest = finest[0] + edges[1][0], finest[1] + edges[1][1]
    return grid, 4 * F.avg_pool2d(data_weight, 2), (finest, *edges[2:])


def _neighbor_share(before: Tensor, after: Tensor, strength: Tensor, axis: int) -> Tensor:
    """Return the share of the neighboring block in a pixel's interpolation; see `omnidc.integrate.transfer`."""
    even = torch.arange(strength.shape[axis], device=strength.device) % 2 == 0
    cross = torch.where(even if axis == -1 else even[:, None], before, after)
    return (0.5 * cross / strength.clamp_min(TINY)).clamp_max(MAX_SHARE)


def prolong(weights: Tensor, coarse: Tensor) -> Tensor:  # [B, 1, H, W] → [B, 1, 2 H, 2 W]
    blocks = F.conv2d(coarse, coarse.new_tensor(FROM_BLOCKS), padding=1)
    return F.conv_transpose2d(weights * blocks, coarse.new_tensor(TO_PIXELS), stride=2)


def restrict(weights: Tensor, fine: Tensor) -> Tensor:  # the transpose of `prolong`
    pixels = F.conv2d(fine, fine.new_tensor(TO_PIXELS), stride=2)
    return F.conv_transpose2d(weights * pixels, fine.new_tensor(FROM_BLOCKS), padding=1)


@dataclass(frozen=True)
class FixedMultigrid:
    """M⁻¹ ≈ A⁻¹ by one symmetric V(1, 1)-cycle over the grids, finest first."""

    grids: tuple[Grid, ...]

    @classmethod
    def build(cls, data_weight: Tensor, edges: tuple[Edges, ...], levels: int) -> FixedMultigrid:
        """Coarsen `levels` times."""
        grids = []
        for _ in range(levels):
            grid, data_weight, edges = coarsen(data_weight, edges)
            grids.append(grid)
        return cls((*grids, Grid.make(data_weight, edges, None)))

    def tensors(self) -> list[Tensor]:
        return [tensor for grid in self.grids for tensor in grid.tensors()]

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor], levels: int, resolutions: int) -> FixedMultigrid:
        """Make the inverse of `tensors`; each coarsening takes one of the resolutions away, down to one."""
        rest = list(tensors)
        grids = []
        for level in range(levels + 1):
            weight, smoother = rest.pop(0), rest.pop(0)
            pairs = resolutions - level if resolutions - level > 1 else 0
            edges = tuple((rest.pop(0), rest.pop(0)) for _ in range(pairs))
            grids.append(Grid(weight, edges, smoother, rest.pop(0) if level < levels else None))
        return cls(tuple(grids))

    def __call__(self, b: Tensor, level: int = 0) -> Tensor:
        grid = self.grids[level]
        if grid.weights is None:
            return chebyshev(grid.apply, grid.smoother, b)
        x = grid.smoother * b
        x = x + prolong(grid.weights, self(restrict(grid.weights, b - grid.apply(x)), level + 1))
        return x + grid.smoother * (b - grid.apply(x))


@dataclass(frozen=True)
class Iterate:
    """What one iteration of conjugate gradients hands to the next."""

    x: Tensor  # [B, 1, h, w]
    r: Tensor  # [B, 1, h, w], residual
    p: Tensor  # [B, 1, h, w], direction; 0 before the first
    rz: Tensor  # [B, 1, 1, 1], rᵀ M⁻¹ r; 1 before the first

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.x, self.r, self.p, self.rz


def iterate(
    last: Iterate,
    multigrid: FixedMultigrid,
    floating: Tensor,  # [B, 1, 1, 1], 1 = the image has no measurements, 0 = it has
) -> Iterate:
    """Make one iteration."""
    z = project(multigrid(last.r), floating)
    rz = _dot(last.r, z)
    p = z + rz / last.rz.clamp_min(TINY) * last.p
    Ap = multigrid.grids[0].apply(p)
    step = rz / _dot(p, Ap).clamp_min(TINY)
    return Iterate(last.x + step * p, project(last.r - step * Ap, floating), p, rz)


def project(r: Tensor, floating: Tensor) -> Tensor:
    """Subtract the mean where there are no measurements: the solution has zero mean there."""
    return r - floating * r.mean((2, 3), keepdim=True)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum((2, 3), keepdim=True)


@dataclass(frozen=True)
class Problem:
    """A x = b, ready to iterate."""

    b: Tensor  # [B, 1, h, w]
    first: Iterate
    multigrid: FixedMultigrid
    floating: Tensor  # [B, 1, 1, 1]

    def result(self, last: Iterate) -> tuple[Tensor, Tensor]:
        """Return log depth [B, 1, h, w] and the relative residual [B]."""
        relative = (_dot(last.r, last.r) / _dot(self.b, self.b).clamp_min(TINY)).sqrt()
        return project(last.x, self.floating), relative.flatten()


def prepare(
    gradients: Sequence[Tensor],  # R × [B, 2, h / 2^r, w / 2^r]
    sparse_log_depth: Tensor,  # [B, 1, h, w]
    data_weight: Tensor,  # [B, 1, h, w] ≥ 0, weight of the measurements
    weights: Sequence[Tensor],  # like `gradients`, ≥ 0
    warm_start: Tensor,  # [B, 1, h, w]
    levels: int,
) -> Problem:
    """Build the equations and their grids; 2^levels divides h and w, and levels ≥ R − 1."""
    edges = tuple((F.pad(w[:, :1, :, 1:], (1, 0)), F.pad(w[:, 1:, 1:], (0, 0, 1, 0))) for w in weights)
    mean_edge = edges[0][0].mean((1, 2, 3), keepdim=True) + edges[0][1].mean((1, 2, 3), keepdim=True)
    floating = (data_weight.sum((1, 2, 3), keepdim=True) <= 1e-6 * mean_edge).to(data_weight)
    flow = spread_sum([divergence((wx * g[:, :1], wy * g[:, 1:])) for (wx, wy), g in zip(edges, gradients)])
    b = project(data_weight * sparse_log_depth + flow, floating)
    x = project(warm_start, floating)
    r = project(b - apply(data_weight, edges, x), floating)
    first = Iterate(x, r, torch.zeros_like(b), torch.ones_like(b[..., :1, :1]))
    return Problem(b, first, FixedMultigrid.build(data_weight, edges, levels), floating)


def integrate_fixed(
    gradients: Sequence[Tensor],
    sparse_log_depth: Tensor,
    data_weight: Tensor,
    weights: Sequence[Tensor],
    warm_start: Tensor,
    iterations: int,
    levels: int,
) -> tuple[Tensor, Tensor]:
    """Return log depth [B, 1, h, w] and the relative residual [B]; arguments as in `prepare`."""
    problem = prepare(gradients, sparse_log_depth, data_weight, weights, warm_start, levels)
    state = problem.first
    for _ in range(iterations):
        state = iterate(state, problem.multigrid, problem.floating)
    return problem.result(state)
