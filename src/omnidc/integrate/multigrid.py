"""A multigrid V-cycle for the integrator's normal equations, used as a preconditioner.

Why the hierarchy closes on itself: under pooling by two, the level-r term of a grid is the level-(r − 1) term of the
next coarser grid. So a coarse system has the same form with one resolution fewer, and only the finest term has to be
approximated there: by half the sum of the fine edges that cross from one block to the next. The half is exact for
smooth functions, which change half as fast from pixel to pixel as from block to block.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from omnidc.integrate.energy import Edges, System

COARSEST_CELLS = 128  # at most so many unknowns are inverted densely
JACOBI_DAMPING = 0.7


def prolong(coarse: Tensor, size: tuple[int, int]) -> Tensor:
    """Bilinear interpolation to twice the size (or one row or column less); constants stay constants."""
    fine: Tensor = torch.ops.aten.upsample_bilinear2d(coarse, list(size), False, 2.0, 2.0)
    return fine


def restrict(fine: Tensor, size: tuple[int, int]) -> Tensor:
    """The exact transpose of `prolong`; `size` is the coarse one."""
    batch, channels, height, width = fine.shape
    coarse: Tensor = torch.ops.aten.upsample_bilinear2d_backward(
        fine, [height, width], [batch, channels, *size], False, 2.0, 2.0
    )
    return coarse


def _sum_pairs(x: Tensor, dim: int) -> Tensor:
    """Sum of neighbouring pairs along `dim` (−1 or −2); an odd last one stays alone."""
    if x.shape[dim] % 2:
        x = F.pad(x, (0, 1) if dim == -1 else (0, 0, 0, 1))
    pairs = x.reshape(*x.shape[:-1], -1, 2) if dim == -1 else x.reshape(*x.shape[:-2], -1, 2, x.shape[-1])
    return pairs.sum(dim)


def coarsen_edges(edges: Edges) -> Edges:
    """The finest term's edges as seen from the grid of half the size."""
    wx, wy = edges
    return 0.5 * _sum_pairs(wx[..., :, 1::2], -2), 0.5 * _sum_pairs(wy[..., 1::2, :], -1)


def coarsen(system: System) -> System:
    """The system on the grid of half the size."""
    first, *rest = coarsen_edges(system.edges[0]), *system.edges[1:]
    if rest:
        first = (first[0] + rest[0][0], first[1] + rest[0][1])
    anchor = _sum_pairs(_sum_pairs(system.anchor, -1), -2)
    return System(anchor, [first, *rest[1:]])


class Multigrid:
    """M⁻¹ ≈ A⁻¹ by one symmetric V(1, 1)-cycle with damped Jacobi smoothing and a dense solve at the bottom."""

    def __init__(self, system: System) -> None:
        self.systems = [system]
        while (size := self.systems[-1].size)[0] * size[1] > COARSEST_CELLS:
            self.systems.append(coarsen(self.systems[-1]))
        tiny = torch.finfo(system.anchor.dtype).tiny
        self.smoothers = [JACOBI_DAMPING / s.diagonal().clamp_min(tiny) for s in self.systems[:-1]]
        self.bottom = _dense_inverse(self.systems[-1])

    def __call__(self, residual: Tensor) -> Tensor:
        return self._cycle(0, residual)

    def _cycle(self, level: int, b: Tensor) -> Tensor:
        if level == len(self.smoothers):
            return torch.bmm(self.bottom, b.reshape(b.shape[0], -1, 1)).reshape(b.shape)
        system, smoother = self.systems[level], self.smoothers[level]
        x = smoother * b
        coarse = restrict(b - system.apply(x), self.systems[level + 1].size)
        x += prolong(self._cycle(level + 1, coarse), system.size)
        x += (b - system.apply(x)).mul_(smoother)
        return x


def _dense_inverse(system: System) -> Tensor:
    """A⁻¹ as [B, n, n], from float64, because a faint anchor makes A nearly singular.

    Where nothing is anchored, A + mean(diag) 11ᵀ/n is inverted instead: the same on vectors of zero mean.
    """
    height, width = system.size
    n = height * width
    on_cpu = System(system.anchor.double().cpu() if system.anchor.device.type == "mps" else system.anchor.double(), [])
    device = on_cpu.anchor.device
    on_cpu.edges = [(wx.to(device).double(), wy.to(device).double()) for wx, wy in system.edges]
    identity = torch.eye(n, dtype=torch.float64, device=device).reshape(1, n, height, width)
    matrix = on_cpu.apply(identity.expand(system.anchor.shape[0], -1, -1, -1)).reshape(-1, n, n)
    size = matrix.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(torch.finfo(torch.float32).tiny)
    loose = ~anchored(system)
    matrix = matrix + (size * loose.to(size))[:, None, None] / n
    # Zero-weight edges may cut cells off from every anchor; the shift keeps the inverse finite there.
    matrix = matrix + (1e-12 * size)[:, None, None] * torch.eye(n, dtype=torch.float64, device=device)
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix)).to(system.anchor)


def anchored(system: System) -> Tensor:
    """[B] bool: whether the measurements of an image fix its scale at all (total weight above 1e-6 mean edges)."""
    wx, wy = system.edges[0]
    count = max(wx.shape[-1] * wx.shape[-2] + wy.shape[-1] * wy.shape[-2], 1)
    mean_edge = (wx.sum((1, 2, 3)) + wy.sum((1, 2, 3))) / count
    return system.anchor.sum((1, 2, 3)) > 1e-6 * mean_edge
