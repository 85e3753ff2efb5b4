"""A multigrid V-cycle for the integrator's normal equations, used as a preconditioner.

Why the hierarchy closes on itself: under pooling by two, the level-r term of a grid is the level-(r − 1) term of the
next coarser grid. So a coarse system has the same form with one resolution fewer, and only the finest term has to be
approximated there, by the fine edges that cross from one block to the next (`transfer.coarse_edges`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from omnidc.integrate.energy import System
from omnidc.integrate.transfer import Transfer, coarse_edges, edge_strength, interpolation_weights, sum_pairs

COARSEST_CELLS = 128  # at most so many unknowns are inverted densely
JACOBI_DAMPING = 0.7
SWEEPS = 8  # of the coarsest grid where it is not inverted
CONDITION = 100.0  # ratio of the eigenvalues between which these sweeps damp every error
MAX_EIGENVALUE = 1.45  # of D⁻¹ A, D being the smoother's diagonal


def coarsen(system: System) -> tuple[System, Transfer]:
    """Return the system on the grid of half the size, and the transfer between the two."""
    wx, wy = system.edges[0]
    s = edge_strength(wx, wy, system.data_weight)
    x_share, y_share = interpolation_weights(wx, s), interpolation_weights(wy.mT, s.mT).mT
    edges = [(coarse_edges(wx, x_share), coarse_edges(wy.mT, y_share.mT).mT), *system.edges[2:]]
    if len(system.edges) > 1:
        edges[0] = (edges[0][0] + system.edges[1][0], edges[0][1] + system.edges[1][1])
    data_weight = sum_pairs(sum_pairs(system.data_weight, -1), -2)
    return System(data_weight, edges), Transfer(x_share, y_share)


def smoother_diagonal(system: System) -> Tensor:
    """Return a diagonal D with A ≤ 1.4 D, so that x + D⁻¹ (b − A x) smooths whatever the weights; [B, 1, h, w].

    The finest term is at most twice its diagonal, and 2 · 0.7 = 1.4. The pooled terms have a far smaller diagonal
    than their largest eigenvalue and enter with their row sums.
    """
    return (system.data_weight + system.degree(0)) / JACOBI_DAMPING + system.pooled_row_sums()


def chebyshev(
    apply: Callable[[Tensor], Tensor],  # A
    smoother: Tensor,  # [B, 1, h, w], D⁻¹
    b: Tensor,  # [B, 1, h, w]
) -> Tensor:
    """Apply a polynomial in D⁻¹ A, the same for every b: linear and symmetric, as conjugate gradients require."""
    high, low = MAX_EIGENVALUE, MAX_EIGENVALUE / CONDITION
    middle, half = (high + low) / 2, (high - low) / 2
    rho = half / middle
    step = smoother * b / middle
    x = step
    for _ in range(SWEEPS - 1):
        following = 1 / (2 * middle / half - rho)
        step = following * rho * step + 2 * following / half * (smoother * (b - apply(x)))
        x, rho = x + step, following
    return x


class Multigrid:
    """M⁻¹ ≈ A⁻¹ by one symmetric V(1, 1)-cycle with damped Jacobi smoothing.

    By default grids are halved down to `COARSEST_CELLS`, which are inverted densely. With `levels` they are halved that
    often, and the coarsest gets Chebyshev sweeps: exported models have no inverse, and run the same operations.
    """

    def __init__(self, system: System, levels: int | None = None) -> None:
        self.systems = [system]
        self.transfers: list[Transfer] = []

        def is_coarsest() -> bool:
            height, width = self.systems[-1].size
            return height * width <= COARSEST_CELLS if levels is None else len(self.transfers) == levels

        while not is_coarsest():
            coarse, transfer = coarsen(self.systems[-1])
            self.systems.append(coarse)
            self.transfers.append(transfer)
        tiny = torch.finfo(system.data_weight.dtype).tiny
        self.smoothers = [1 / smoother_diagonal(s).clamp_min(tiny) for s in self.systems]
        self.coarse_inverse = _dense_inverse(self.systems[-1]) if levels is None else None

    def __call__(self, residual: Tensor) -> Tensor:
        return self._cycle(0, residual)

    def _cycle(self, level: int, b: Tensor) -> Tensor:
        system, smoother = self.systems[level], self.smoothers[level]
        if level == len(self.transfers):
            if self.coarse_inverse is None:
                return chebyshev(system.apply, smoother, b)
            return torch.bmm(self.coarse_inverse, b.reshape(b.shape[0], -1, 1)).reshape(b.shape)
        transfer = self.transfers[level]
        x = smoother * b
        x += transfer.prolong(self._cycle(level + 1, transfer.restrict(b - system.apply(x))))
        x += (b - system.apply(x)).mul_(smoother)
        return x


def _dense_inverse(system: System) -> Tensor:
    """Return A⁻¹ as [B, n, n], from float64, because faint data weights make A nearly singular.

    Where no measurement has weight, A + mean(diag) 11ᵀ/n is inverted instead: the same on vectors of zero mean.
    """
    height, width = system.size
    n = height * width
    on_cpu = System(
        system.data_weight.double().cpu() if system.data_weight.device.type == "mps" else system.data_weight.double(),
        [],
    )
    device = on_cpu.data_weight.device
    on_cpu.edges = [(wx.to(device).double(), wy.to(device).double()) for wx, wy in system.edges]
    identity = torch.eye(n, dtype=torch.float64, device=device).reshape(1, n, height, width)
    matrix = on_cpu.apply(identity.expand(system.data_weight.shape[0], -1, -1, -1)).reshape(-1, n, n)
    size = matrix.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(torch.finfo(torch.float32).tiny)
    floating = ~is_constrained(system)
    matrix = matrix + (size * floating.to(size))[:, None, None] / n
    # Zero-weight edges may cut cells off from every measurement; the shift keeps the inverse finite there.
    matrix = matrix + (1e-12 * size)[:, None, None] * torch.eye(n, dtype=torch.float64, device=device)
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix)).to(system.data_weight)


def is_constrained(system: System) -> Tensor:
    """Return [B] bool: whether the measurements of an image fix its scale (total weight above 1e-6 mean edges)."""
    wx, wy = system.edges[0]
    count = max(wx.shape[-1] * wx.shape[-2] + wy.shape[-1] * wy.shape[-2], 1)
    mean_edge = (wx.sum((1, 2, 3)) + wy.sum((1, 2, 3))) / count
    return system.data_weight.sum((1, 2, 3)) > 1e-6 * mean_edge
