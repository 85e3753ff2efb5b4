"""The energy of the multi-resolution depth integrator and its normal equations.

For the unknown log depth x on an h × w grid, measurements o with weights a = α m c, and at each resolution r < R
gradients g_r with edge weights W_r,

    E(x) = Σ a (x − o)² + Σ_r Σ W_r (∇ P_r x − g_r)²

where P_r is average pooling by 2^r and ∇ takes backward differences (docs/conventions.md). Its minimum solves

    A x = b,   A = diag(a) + Σ_r P_rᵀ ∇ᵀ W_r ∇ P_r,   b = a o + Σ_r P_rᵀ ∇ᵀ W_r g_r.

Nothing here builds a matrix: A is applied by pooling, differencing, weighting and the transposes of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from omnidc.errors import InputError

Edges = tuple[Tensor, Tensor]  # x-edges [B, 1, h, w - 1] and y-edges [B, 1, h - 1, w]


def level_size(height: int, width: int, level: int) -> tuple[int, int]:
    """Return the size of the grid pooled by 2^level; a last partial cell counts."""
    scale = 2**level
    return -(-height // scale), -(-width // scale)


def pool(x: Tensor, level: int) -> Tensor:
    """Apply P_r: the mean over the pixels that exist in each 2^r × 2^r block."""  # x: [B, C, h, w]
    if level == 0:
        return x
    scale = 2**level
    return F.avg_pool2d(x, scale, ceil_mode=True, count_include_pad=False)


def pool_transpose(y: Tensor, level: int, size: tuple[int, int]) -> Tensor:
    """Apply P_rᵀ: spread each cell's value over its pixels, divided by their number."""  # y: [B, C, h_r, w_r]
    if level == 0:
        return y
    scale, (height, width) = 2**level, size
    if height % scale == 0 and width % scale == 0:
        return F.interpolate(y, scale_factor=scale, mode="nearest").div_(scale * scale)
    like = y.new_empty(()).expand(*y.shape[:2], height, width)
    spread: Tensor = torch.ops.aten.avg_pool2d_backward(
        y.contiguous(), like, [scale, scale], [scale, scale], [0, 0], True, False, None
    )
    return spread


def add_pairs(x: Tensor, dim: int) -> Tensor:
    """Sum neighboring pairs along `dim` (−1 or −2), of an even length.

    Written out, since reductions over two elements, `sum` and `avg_pool2d`, take five to ten times as long on a CPU.
    """
    return x[..., ::2] + x[..., 1::2] if dim == -1 else x[..., ::2, :] + x[..., 1::2, :]


def differences(x: Tensor) -> Edges:
    """Apply ∇ on the edges of a grid."""  # x: [B, C, h, w]
    return x[..., :, 1:] - x[..., :, :-1], x[..., 1:, :] - x[..., :-1, :]


def add_differences_transpose(out: Tensor, fx: Tensor, fy: Tensor) -> Tensor:
    """Add ∇ᵀ f to `out` in place: the value of an edge is added at its far end and subtracted at its near one."""
    out[..., :, 1:] += fx
    out[..., :, :-1] -= fx
    out[..., 1:, :] += fy
    out[..., :-1, :] -= fy
    return out


def add_laplacian(out: Tensor, x: Tensor, edges: Edges) -> Tensor:
    """Add ∇ᵀ W ∇ x to `out` in place."""
    fx, fy = differences(x)
    fx *= edges[0]
    fy *= edges[1]
    return add_differences_transpose(out, fx, fy)


def split_edges(maps: Tensor) -> Edges:
    """Split a [B, 2, h, w] map in the gradient convention into edges: column 0 of x and row 0 of y are dropped."""
    return maps[:, 0:1, :, 1:], maps[:, 1:2, 1:, :]


def join_edges(edges: Edges) -> Tensor:
    """Invert `split_edges`, with zeros in the dropped column and row."""
    ex, ey = edges
    return torch.cat([F.pad(ex, (1, 0, 0, 0)), F.pad(ey, (0, 0, 1, 0))], dim=1)


@dataclass
class System:
    """A of the normal equations: symmetric, positive definite as soon as one measurement has weight."""

    data_weight: Tensor  # [B, 1, h, w] ≥ 0, a = α m c
    edges: list[Edges]  # R pairs of edge weights ≥ 0, level r on its own grid

    @property
    def size(self) -> tuple[int, int]:
        return int(self.data_weight.shape[-2]), int(self.data_weight.shape[-1])

    def apply(self, x: Tensor) -> Tensor:
        """Return A x."""  # x: [B, C, h, w]; channels are independent right-hand sides
        out = self.data_weight * x
        add_laplacian(out, x, self.edges[0])
        if len(self.edges) > 1:
            out += self._pooled_terms(x)
        return out

    def _pooled_terms(self, x: Tensor) -> Tensor:
        """Return Σ_{r ≥ 1} P_rᵀ ∇ᵀ W_r ∇ P_r x."""
        levels = len(self.edges)
        scale = 2 ** (levels - 1)
        if self.size[0] % scale == 0 and self.size[1] % scale == 0:
            # P_r = P_1 … P_1 when no cell is partial: pool down step by step, add up on the way back.
            pooled = [x]
            for _ in range(1, levels):
                pooled.append(add_pairs(add_pairs(pooled[-1], -2), -1).mul_(0.25))
            flow = add_laplacian(torch.zeros_like(pooled[-1]), pooled[-1], self.edges[-1])
            for level in range(levels - 2, 0, -1):
                flow = F.interpolate(flow, scale_factor=2, mode="nearest").mul_(0.25)
                add_laplacian(flow, pooled[level], self.edges[level])
            return F.interpolate(flow, scale_factor=2, mode="nearest").mul_(0.25)
        out = torch.zeros_like(x)
        for level in range(1, levels):
            mean = pool(x, level)
            flow = add_laplacian(torch.zeros_like(mean), mean, self.edges[level])
            out += pool_transpose(flow, level, self.size)
        return out

    def gradient_rhs(self, gradients: Sequence[Edges]) -> Tensor:
        """Return Σ_r P_rᵀ ∇ᵀ W_r g_r."""
        out = torch.zeros_like(self.data_weight)
        for level, ((wx, wy), (gx, gy)) in enumerate(zip(self.edges, gradients, strict=True)):
            flow = self.data_weight.new_zeros(*self.data_weight.shape[:2], *level_size(*self.size, level))
            add_differences_transpose(flow, wx * gx, wy * gy)
            out += pool_transpose(flow, level, self.size)
        return out

    def degree(self, level: int) -> Tensor:
        """Return the sum of the weights of each cell's edges; [B, 1, h_r, w_r]."""
        wx, wy = self.edges[level]
        degree = self.data_weight.new_zeros(*self.data_weight.shape[:2], *level_size(*self.size, level))
        degree[..., :, 1:] += wx
        degree[..., :, :-1] += wx
        degree[..., 1:, :] += wy
        degree[..., :-1, :] += wy
        return degree

    def diagonal(self) -> Tensor:
        """Return the diagonal of A; [B, 1, h, w]."""
        out = self.data_weight + self.degree(0)
        for level in range(1, len(self.edges)):
            # A pixel of a block of n enters the block's mean with 1/n, and the diagonal with its square.
            degree = self.degree(level)
            share = pool_transpose(torch.ones_like(degree), level, self.size)
            out += pool_transpose(degree, level, self.size) * share
        return out

    def pooled_row_sums(self) -> Tensor:
        """Return row sums of |A| without data term and finest term: by Gershgorin, bounds of the pooled ones."""
        out = torch.zeros_like(self.data_weight)
        for level in range(1, len(self.edges)):
            out += pool_transpose(self.degree(level), level, self.size)
        return out.mul_(2)


def check_shapes(data_weight: Tensor, maps: Sequence[Tensor], what: str) -> None:
    """Raise unless `maps` are the R levels [B, 2, ⌈h / 2^r⌉, ⌈w / 2^r⌉] of the grid of `data_weight`."""
    batch, _, height, width = data_weight.shape
    for level, tensor in enumerate(maps):
        expected = (batch, 2, *level_size(height, width, level))
        if tuple(tensor.shape) != expected:
            raise InputError(
                f"{what} of level {level} must have shape {list(expected)} for a {height}x{width} grid, "
                f"not {list(tensor.shape)}."
            )
