"""Our integrator without a network: flat log depth between the points, or flat except across edges of the picture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.errors import require_torch
from omnidc.evaluation.sample import Depth, Image, Intrinsics

EDGE_SCALE = 0.03  # change of color (0 to 1) across which an edge's weight falls to 1/e
EDGE_FLOOR = 1e-3  # least weight, so that no region is cut off from the points
RTOL = 1e-4  # measured: mean change of log depth < 5e-4 against 1e-6, which no score of a baseline shows


def harmonic(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
    """Compute the smoothest log depth through the points: gradients of zero, equal weights."""
    return _integrate(sparse, None)


def edge_aware(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
    """Integrate gradients of zero with weights exp(−|ΔI| / σ): depth may jump where the color does."""
    color = image.astype(np.float64) / 255
    weights = np.ones((2, *sparse.shape), np.float32)
    weights[0, :, 1:] = np.exp(-np.linalg.norm(np.diff(color, axis=1), axis=2) / EDGE_SCALE)
    weights[1, 1:] = np.exp(-np.linalg.norm(np.diff(color, axis=0), axis=2) / EDGE_SCALE)
    return _integrate(sparse, np.maximum(weights, EDGE_FLOOR))


def _integrate(
    sparse: Depth,
    weights: npt.NDArray[np.float32] | None,  # [2, H, W]
) -> Depth:
    # Here, since the other baselines and the doctor run without torch.
    require_torch("A baseline with the integrator")
    import torch

    from omnidc.integrate import integrate

    measured = torch.from_numpy(sparse > 0)[None, None]
    observed = torch.from_numpy(np.log(np.where(sparse > 0, sparse, 1.0)).astype(np.float32))[None, None]
    flat = torch.zeros(1, 2, *sparse.shape)
    with torch.no_grad():
        levels = None if weights is None else [torch.from_numpy(weights)[None]]
        log_depth, _ = integrate([flat], observed, measured, weights=levels, rtol=RTOL, max_iterations=500)
    return np.asarray(np.exp(log_depth[0, 0].numpy()), np.float32)
