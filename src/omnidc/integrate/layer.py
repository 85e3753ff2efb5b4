"""The integrator as a differentiable layer: gradients by the implicit function theorem, one more solve.

With x = A⁻¹ b and an upstream gradient v = ∂L/∂x, let λ = A⁻¹ v. Then, edge by edge and pixel by pixel,

    ∂L/∂g_r = W_r ∇P_r λ          ∂L/∂W_r = (∇P_r λ) (g_r − ∇P_r x)
    ∂L/∂o   = a λ                 ∂L/∂a   = λ (o − x)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from omnidc.errors import InputError
from omnidc.integrate.energy import System, check_shapes, differences, join_edges, pool, split_edges
from omnidc.integrate.solve import Method, SolveInfo, preconditioner, solve

ALPHA = 5.0  # weight of the measurements in the paper


def lower_median(values: Tensor, mask: Tensor) -> Tensor:
    """Median over the masked pixels of each image, the lower middle one; 0 without any. [B, 1, h, w] → [B, 1, 1, 1]."""
    batch = values.shape[0]
    masked = torch.where(mask, values, torch.nan).reshape(batch, -1)
    return torch.nan_to_num(masked.nanmedian(dim=1).values, nan=0.0).reshape(batch, 1, 1, 1)


class _Integrate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, options: dict[str, Any], data_weight: Tensor, sparse_log_depth: Tensor, *maps: Tensor
    ) -> Tensor:
        levels = len(maps) // 2
        gradients = [split_edges(g) for g in maps[:levels]]
        edges = [(wx.contiguous(), wy.contiguous()) for wx, wy in map(split_edges, maps[levels:])]
        system = System(data_weight, edges)
        # Solving for x − log median keeps float32 exact whatever the unit of the measurements.
        shift = lower_median(sparse_log_depth, data_weight > 0)
        b = data_weight * (sparse_log_depth - shift) + system.gradient_rhs(gradients)
        M = preconditioner(system, options["solver"]["method"], options["levels"])
        warm_start = options["warm_start"]
        x, info = solve(
            system,
            b,
            None if warm_start is None else warm_start - shift,
            M=M,
            **options["solver"],
        )
        options["info"] = info
        ctx.system, ctx.M, ctx.solver, ctx.backward = system, M, options["solver"], options["backward"]
        ctx.levels, ctx.constrained = levels, info.is_constrained
        x = torch.where(info.is_constrained.reshape(-1, 1, 1, 1), x + shift, x)
        ctx.save_for_backward(x, sparse_log_depth, *maps[:levels])
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, sparse_log_depth, *gradients = ctx.saved_tensors
        system: System = ctx.system
        if bool(torch.isfinite(upstream).all()):
            lam, _ = solve(system, upstream.contiguous(), M=ctx.M, **{**ctx.solver, **ctx.backward})
        else:  # an overflow downstream, as under mixed precision: NaN lets the optimizer's own check find it
            lam = torch.full_like(upstream, torch.nan)
        constrained = ctx.constrained.reshape(-1, 1, 1, 1)
        d_weight = torch.where(constrained, lam * (sparse_log_depth - x), 0) if ctx.needs_input_grad[1] else None
        d_sparse = torch.where(constrained, lam * system.data_weight, 0) if ctx.needs_input_grad[2] else None
        d_gradients: list[Tensor | None] = []
        d_weights: list[Tensor | None] = []
        for level, ((wx, wy), g) in enumerate(zip(system.edges, gradients, strict=True)):
            lx, ly = differences(pool(lam, level))
            d_gradients.append(join_edges((wx * lx, wy * ly)) if ctx.needs_input_grad[3 + level] else None)
            if ctx.needs_input_grad[3 + ctx.levels + level]:
                (gx, gy), (dx, dy) = split_edges(g), differences(pool(x, level))
                d_weights.append(join_edges((lx * (gx - dx), ly * (gy - dy))))
            else:
                d_weights.append(None)
        return None, d_weight, d_sparse, *d_gradients, *d_weights


def integrate(
    gradients: Sequence[Tensor],  # R × [B, 2, ⌈h / 2^r⌉, ⌈w / 2^r⌉], backward differences of x; channels x, y
    sparse_log_depth: Tensor,  # [B, 1, h, w], o: log depth of the measurements, ignored where mask = 0
    mask: Tensor,  # [B, 1, h, w], m: 1 = measured, 0 = not; bool or float
    confidence: Tensor | None = None,  # [B, 1, h, w] ≥ 0, c: confidence of each measurement; None = 1
    weights: Sequence[Tensor] | None = None,  # like `gradients`, ≥ 0, W_r; None = 1 / R everywhere
    *,
    alpha: float | Tensor = ALPHA,  # α: a number, or a tensor that broadcasts against `mask`
    warm_start: Tensor | None = None,  # [B, 1, h, w], first guess of x, as from the last frame of a video
    rtol: float = 1e-5,
    xtol: float | None = None,
    backward_xtol: float | None = None,
    max_iterations: int | None = None,
    iterations: int | None = None,
    levels: int | None = None,
    method: Method = "multigrid",
    on_failure: Literal["raise", "warn", "ignore"] = "warn",
) -> tuple[Tensor, SolveInfo]:
    """Minimize the multi-resolution energy of `omnidc.integrate.energy`, differentiable in all but `warm_start`.

    Returns log depth x [B, 1, h, w] and how the solve went (see `solve` for the stopping rule). Works for any h, w ≥ 1
    and any number R ≥ 1 of resolutions. An image without any measurement of weight gets the solution of zero mean, and
    its `info.is_constrained` is False. The backward pass stops by the same rule, or at `backward_xtol`: stochastic
    descent gains nothing from gradients that are more exact than its batches are representative. `iterations` and
    `levels` (halvings of the grid, see `multigrid.Multigrid`) fix the sequence of operations, as an exported model has
    it.

    A ramp of one measurement and a slope of 0.1 per column:

    >>> import torch
    >>> from omnidc.integrate import integrate
    >>> slope = torch.zeros(1, 2, 3, 4)  # [B, 2, h, w]: channel 0 is x, channel 1 is y
    >>> slope[:, 0, :, 1:] = 0.1
    >>> sparse_log_depth, mask = torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 4)
    >>> mask[..., 0, 0] = 1  # log depth 0 in the upper left corner
    >>> log_depth, info = integrate([slope], sparse_log_depth, mask)
    >>> [round(float(x), 3) for x in log_depth[0, 0, 0]]
    [0.0, 0.1, 0.2, 0.3]
    """
    for name, value in (("sparse_log_depth", sparse_log_depth), ("mask", mask), ("gradients", [*gradients])):
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, Tensor):
                kind = type(each).__name__
                raise InputError(f"{name} must hold tensors, not {kind}: wrap arrays with torch.from_numpy.")
    if sparse_log_depth.ndim != 4 or sparse_log_depth.shape[1] != 1 or mask.shape != sparse_log_depth.shape:
        raise InputError(
            "sparse_log_depth and mask must both be [B, 1, h, w], "
            f"not {list(sparse_log_depth.shape)} and {list(mask.shape)}."
        )
    if not gradients:
        raise InputError("The integrator needs gradients of at least one resolution.")
    check_shapes(sparse_log_depth, gradients, "The gradients")
    if weights is None:
        weights = [torch.full_like(g, 1 / len(gradients)) for g in gradients]
    elif len(weights) != len(gradients):
        raise InputError(f"{len(gradients)} levels of gradients but {len(weights)} of weights were given.")
    check_shapes(sparse_log_depth, weights, "The weights")
    if any(bool((w < 0).any()) for w in weights) or (confidence is not None and bool((confidence < 0).any())):
        raise InputError("Weights and confidences of the integrator must not be negative.")

    known = mask > 0
    data_weight = (
        mask.to(sparse_log_depth) * alpha if confidence is None else mask.to(sparse_log_depth) * confidence * alpha
    )
    sparse_log_depth = torch.where(known, sparse_log_depth, 0)
    options: dict[str, Any] = {
        "warm_start": warm_start,
        "levels": levels,
        "backward": {} if backward_xtol is None else {"xtol": backward_xtol},
        "solver": {
            "rtol": rtol,
            "xtol": xtol,
            "max_iterations": max_iterations,
            "iterations": iterations,
            "method": method,
            "on_failure": on_failure,
        },
    }
    x: Tensor = _Integrate.apply(options, data_weight, sparse_log_depth, *gradients, *weights)  # type: ignore[no-untyped-call]
    return x, options["info"]
