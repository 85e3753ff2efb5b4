"""A monocular prior from anywhere, fused with the points in the integrator. Nothing is learnt here.

The prior, relative or metric, depth or disparity, is first fitted to the points (`alignment.best_line`). Its log
gradients then enter one least-squares problem with the points and, where there is one, the result of a network:

    E(x) = Σ_points c_p (x_p − ln o_p)² / σ_o² + Σ_edges (∇x − ∇ ln prior)² / σ_g² + Σ_pixels (x − ln d)² / (L σ_d)²

σ_g is the error of a gradient of the prior, read off the points: between two points at a distance of r pixels, the
errors of the fitted prior differ by about σ_g √r. A prior that disagrees with the points therefore counts little. c_p
falls where a point disagrees with its neighbours' errors: such a point is an outlier rather than the prior's fault. σ_d
is the network's own uncertainty; its errors are alike over L pixels, so that a pixel counts as 1 / L² of a measurement.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.spatial import cKDTree

from omnidc.errors import InputError
from omnidc.integrate import integrate
from omnidc.pipeline.alignment import Depth, Space, apply_line, best_line

POINT_STD = 0.01  # σ_o, log depth: what a good sensor leaves
GRADIENT_STD = 0.02  # σ_g where fewer than MIN_POINTS points can tell
GRADIENT_FLOOR = 1e-3  # a prior made from the truth fits exactly; the system must stay well conditioned
CORRELATION = 24.0  # L, pixels
NO_UNCERTAINTY = 0.05  # σ_d of a method that gives none, log depth
NEIGHBORS = 4  # of a point, whose errors are compared with its own
MIN_POINTS = 8
RTOL = 1e-4  # as for the baselines: no score shows a smaller one
MEDIAN_OF_SQUARE = 0.455  # of a standard normal variable


def fuse(
    sparse: Depth,  # [H, W], 0 = none
    prior: npt.NDArray[np.floating],  # [H, W], relative or metric, depth or disparity; NaN = unknown
    depth: npt.NDArray[np.floating] | None = None,  # [H, W] > 0, a result to fuse with
    uncertainty: npt.NDArray[np.floating] | None = None,  # [H, W] > 0, Laplace scale of `depth`
    space: Space | None = None,  # what the prior holds; None = what fits the points better
) -> Depth:
    """Dense depth [H, W] > 0 in the unit of `sparse`."""
    aligned = align_prior(sparse, prior, space)
    log_prior = np.log(aligned.astype(np.float64))
    known = np.isfinite(prior)
    points = sparse > 0
    errors = np.log(sparse[points].astype(np.float64)) - log_prior[points]
    positions = np.argwhere(points).astype(np.float64)
    sigma = gradient_std(positions, errors)
    confidence = point_confidence(positions, errors, sigma)

    weights = np.zeros(sparse.shape)  # of the data term, times σ_g²: edges have weight 1
    target = log_prior.copy()
    if depth is not None:
        usable = np.isfinite(depth) & (np.asarray(depth) > 0)
        target = np.where(usable, np.log(np.where(usable, depth, 1.0)), target)
        std = np.full(sparse.shape, NO_UNCERTAINTY)
        if uncertainty is not None:
            std = np.maximum(np.sqrt(2) * np.asarray(uncertainty, np.float64) / np.where(usable, depth, 1.0), POINT_STD)
        weights = np.where(usable, (sigma / (CORRELATION * std)) ** 2, 0.0)
    target[points] = np.log(sparse[points])
    weights[points] = confidence * (sigma / POINT_STD) ** 2

    edges = np.zeros((2, *sparse.shape))
    gradients = np.zeros((2, *sparse.shape))
    for channel, axis in ((0, 1), (1, 0)):
        both = np.logical_and(np.delete(known, 0, axis), np.delete(known, -1, axis))
        inner = (slice(None), slice(1, None)) if axis == 1 else (slice(1, None), slice(None))
        gradients[(channel, *inner)] = np.where(both, np.diff(log_prior, axis=axis), 0.0)
        edges[(channel, *inner)] = np.where(both, 1.0, 0.1)  # smooth where the prior is unknown
    with torch.no_grad():
        x, _ = integrate(
            [_tensor(gradients)[0]],
            _tensor(target),
            _tensor(weights > 0),
            _tensor(weights),
            [_tensor(edges)[0]],
            alpha=1.0,
            rtol=RTOL,
            max_iterations=500,
            on_failure="ignore",
        )
    return np.asarray(np.exp(x[0, 0].double().numpy()), np.float32)


def fuse_completion(result: Any, sparse: Depth, prior: npt.NDArray[np.floating], space: Space | None = None) -> Any:
    """`fuse` for what a method returned: an array, or a record with `depth` and `uncertainty` such as `Completion`.

    The uncertainty stays the network's.
    """
    depth, uncertainty = getattr(result, "depth", result), getattr(result, "uncertainty", None)
    fused = fuse(sparse, prior, np.asarray(depth), uncertainty, space)
    return replace(result, depth=fused) if is_dataclass(result) and not isinstance(result, type) else fused


def align_prior(sparse: Depth, prior: npt.NDArray[np.floating], space: Space | None = None) -> Depth:
    """The prior as depth [H, W] in the unit of the points, by the best robust line."""
    if prior.shape != sparse.shape:
        raise InputError(
            f"The prior is {list(prior.shape)}, the sparse depth {list(sparse.shape)}: resize one of them."
        )
    usable = (sparse > 0) & np.isfinite(prior)
    if not usable.any():
        raise InputError("No measurement lies on a known pixel of the prior: there is nothing to align it to.")
    depth = sparse[usable].astype(np.float64)
    line = best_line(np.asarray(prior, np.float64)[usable], depth, space)
    return apply_line(np.asarray(prior), line, float(depth.min()), float(depth.max()))


def gradient_std(
    positions: npt.NDArray[np.float64],  # [N, 2], pixels
    errors: npt.NDArray[np.float64],  # [N], ln o − ln prior
) -> float:
    """σ_g, log depth per √pixel: robust, over pairs of near points."""
    if len(positions) < MIN_POINTS:
        return GRADIENT_STD
    distance, index = cKDTree(positions).query(positions, k=NEIGHBORS + 1)
    squares = (errors[:, None] - errors[index[:, 1:]]) ** 2 / np.maximum(distance[:, 1:], 1.0)
    return max(float(np.sqrt(np.median(squares) / MEDIAN_OF_SQUARE)), GRADIENT_FLOOR)


def point_confidence(
    positions: npt.NDArray[np.float64],  # [N, 2], pixels
    errors: npt.NDArray[np.float64],  # [N]
    sigma: float,
) -> npt.NDArray[np.float64]:
    """c_p = 1 / (1 + z²)² in (0, 1], z the distance from the neighbours' median error in units of what is usual."""
    if len(positions) < MIN_POINTS:
        return np.ones(len(positions))
    distance, index = cKDTree(positions).query(positions, k=2 * NEIGHBORS + 1)
    deviation = errors - np.median(errors[index[:, 1:]], axis=1)
    usual = 3 * np.hypot(sigma * np.sqrt(np.median(distance[:, 1:], axis=1)), POINT_STD)
    return np.asarray(1.0 / (1.0 + (deviation / usual) ** 2) ** 2)


def _tensor(values: npt.NDArray[Any]) -> torch.Tensor:
    """[1, 1, …] in float32."""
    return torch.from_numpy(values.astype(np.float32))[None, None]
