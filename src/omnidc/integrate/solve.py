"""Preconditioned conjugate gradients for the integrator, image by image within a batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from omnidc.errors import ConvergenceError, InputError
from omnidc.integrate.energy import System
from omnidc.integrate.multigrid import Multigrid, is_constrained

Method = Literal["multigrid", "jacobi", "cg"]
Preconditioner = Callable[[Tensor], Tensor]


class ConvergenceWarning(UserWarning):
    """The solver stopped at its iteration limit before reaching the tolerance."""


@dataclass(frozen=True)
class SolveInfo:
    """How a solve went; one entry per image of the batch.

    >>> from omnidc.integrate import integrate
    >>> zero = torch.zeros(1, 1, 8, 8)
    >>> _, info = integrate([torch.zeros(1, 2, 8, 8)], zero, zero)  # nothing is measured
    >>> bool(info.is_constrained), bool(info.converged)
    (False, True)
    """

    iterations: Tensor  # [B] int64
    residuals: Tensor  # [K + 1, B], ‖r_k‖ / ‖b‖ after k iterations; constant from an image's own end on
    converged: Tensor  # [B] bool
    is_constrained: Tensor  # [B] bool, False = no measurement had weight, the solution is the one of zero mean


def preconditioner(system: System, method: Method = "multigrid", levels: int | None = None) -> Preconditioner:
    """Make M⁻¹ by name: "multigrid" (a V-cycle; `levels`: see `Multigrid`), "jacobi" (the diagonal), "cg" (none)."""
    if method == "multigrid":
        return Multigrid(system, levels)
    if method == "jacobi":
        inverse = 1 / system.diagonal().clamp_min(torch.finfo(system.data_weight.dtype).tiny)
        return lambda residual: inverse * residual
    if method == "cg":
        return lambda residual: residual
    raise InputError(f'Unknown solver {method!r}: choose "multigrid", "jacobi" or "cg".')


def _dot(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner product of each image: [B, 1, h, w] × 2 → [B, 1, 1, 1]."""
    batch = x.shape[0]
    return torch.bmm(x.reshape(batch, 1, -1), y.reshape(batch, -1, 1)).reshape(batch, 1, 1, 1)


def _not_converged(z: Tensor, x: Tensor, xtol: float) -> Tensor:
    """Return [B, 1, 1, 1] bool: whether the correction z is still more than `xtol` of x."""
    return _dot(z, z) > xtol**2 * _dot(x, x)


def solve(
    system: System,
    b: Tensor,  # [B, 1, h, w]
    x0: Tensor | None = None,  # [B, 1, h, w]
    *,
    rtol: float = 1e-5,
    xtol: float | None = None,
    max_iterations: int | None = None,
    iterations: int | None = None,
    method: Method = "multigrid",
    M: Preconditioner | None = None,
    on_failure: Literal["raise", "warn", "ignore"] = "warn",
    callback: Callable[[int, Tensor], None] | None = None,
) -> tuple[Tensor, SolveInfo]:
    """Solve A x = b.

    Stopping rule: an image is done when ‖r‖₂ ≤ rtol ‖b‖₂, r being the residual that conjugate gradients carry along
    (in float32 the true residual of a rounded x cannot fall much below 1e-7 ‖A‖ ‖x‖). Each image stops for itself, and
    its result does not depend on the others of the batch. b = 0 gives x = 0 without an iteration.

    With `xtol` the rule is ‖M⁻¹ r‖₂ ≤ xtol ‖x‖₂ instead: M⁻¹ r estimates the error of x where M is the multigrid cycle
    (too low by up to ten times on hard systems, two or three on usual ones).
    It asks for the same accuracy whatever the weights; measurements that weigh a thousand edges dominate b, and the
    residual is small beside it long before the gradients between them are integrated.

    With `iterations` exactly that many are made, whatever the residual, which `info.residuals` reports.

    max_iterations defaults to 100 with multigrid, 5000 otherwise. An image that is not done by then raises
    `ConvergenceError` or warns `ConvergenceWarning`, by `on_failure`; `info.converged` says which.

    Images without a measurement of weight have a singular A; for them the solution of zero mean is returned and
    `info.is_constrained` is False. `M` reuses a preconditioner made before for the same system; `callback(k, x)` is
    called with every iterate.

    >>> from omnidc.integrate import System
    >>> edges = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 4)  # weights of the x- and of the y-edges
    >>> system = System(torch.ones(1, 1, 3, 4), [edges])  # each pixel measured with weight 1
    >>> x, info = solve(system, torch.ones(1, 1, 3, 4))
    >>> bool(info.converged.all()), round(float(x.mean()), 3)
    (True, 1.0)
    """
    batch = b.shape[0]
    if iterations is not None:
        rtol, xtol, max_iterations, on_failure = 0.0, None, iterations, "ignore"
    limit = max_iterations if max_iterations is not None else (100 if method == "multigrid" else 5000)
    M = M or preconditioner(system, method)
    constrained = is_constrained(system)
    floating = (~constrained).reshape(batch, 1, 1, 1).to(b) if not bool(constrained.all()) else None

    def project(r: Tensor) -> Tensor:
        return r if floating is None else r - floating * r.mean((1, 2, 3), keepdim=True)

    b = project(b)
    norm = _dot(b, b).sqrt()
    if not bool(torch.isfinite(norm).all()):
        raise InputError("The integrator was given NaN or infinite gradients, weights or depths; check its inputs.")
    if x0 is None:
        x, r = torch.zeros_like(b), b.clone()
    else:
        x = project(x0.to(b)).clone()
        r = project(b - system.apply(x))
    # An image whose b is zero has the solution zero, whatever the warm start.
    null = norm == 0
    if bool(null.any()):
        x, r = torch.where(null, 0, x), torch.where(null, 0, r)
    scale = torch.where(null, 1, norm)
    relative = _dot(r, r).sqrt() / scale
    history = [relative.flatten()]
    counts = torch.zeros(batch, dtype=torch.int64, device=b.device)
    active = relative > (rtol if xtol is None else 0.0)
    if bool(active.any()):
        z = project(M(r))
        p, rz = z.clone(), _dot(r, z)
        if xtol is not None:
            active = active & _not_converged(z, x, xtol)
    for k in range(1, limit + 1):
        if not bool(active.any()):
            break
        Ap = system.apply(p)
        pAp = _dot(p, Ap)
        step = torch.where(active & (pAp > 0), rz / pAp, 0)
        x.addcmul_(step, p)
        r.addcmul_(step, Ap, value=-1)
        if floating is not None:
            r = project(r)
        counts += active.flatten()
        relative = torch.where(active, _dot(r, r).sqrt() / scale, relative)
        history.append(relative.flatten())
        if callback is not None:
            callback(k, x)
        if xtol is None:
            active = active & (relative > rtol)
        if k == iterations or not bool(active.any()):
            break
        z = project(M(r))
        if xtol is not None:
            active = active & _not_converged(z, x, xtol)
        rz_next = _dot(r, z)
        p = torch.where(rz != 0, rz_next / rz, 0) * p + z
        rz = rz_next
    if floating is not None:
        x = project(x)

    info = SolveInfo(counts, torch.stack(history), ~active.flatten(), constrained)
    if bool(active.any()) and on_failure != "ignore":
        worst = float(relative[active].max())
        wanted = f"rtol {rtol:.0e}" if xtol is None else f"xtol {xtol:.0e}"
        message = (
            f"The depth integrator stopped after {limit} iterations at a relative residual of {worst:.1e} "
            f"(wanted: {wanted}) in {int(active.sum())} of {batch} images; allow more iterations or a larger tolerance."
        )
        if on_failure == "raise":
            raise ConvergenceError(message)
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return x, info
