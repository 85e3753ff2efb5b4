"""The interface of the rasterizers, and which one runs.

All of them composite front to back: w_i = α_i Π_{j<i} (1 − α_j), α_i = o_i exp(−½ dᵀ Σ'⁻¹ d), with Σ' the projected
covariance plus `BLUR` on its diagonal. Image = Σ w_i c_i on black, depth = Σ w_i z_i, alpha = Σ w_i.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from omnidc.errors import ConfigError, MissingExtraError
from omnidc.splatting.camera import Camera

BLUR = 0.3  # px², low-pass filter added to the projected covariance (3DGS)
MIN_ALPHA, MAX_ALPHA = 1.0 / 255.0, 0.99  # a smaller α is skipped, a larger one is clamped (3DGS)
JACOBIAN_LIMIT = 1.3  # x/z in the Jacobian is clamped to this many half fields of view (3DGS)
MIN_COVERAGE = 1e-3  # least alpha that expected depth is divided by


@dataclass(frozen=True)
class Render:
    """One rendered view."""

    image: Tensor  # [H, W, 3], on black
    depth: Tensor  # [H, W], Σ w z, not divided by alpha
    alpha: Tensor  # [H, W], Σ w
    visible: Tensor  # [N], bool: the Gaussian's box touches the picture

    def expected_depth(self) -> Tensor:
        """Return Σ w z / Σ w, [H, W]. Alpha keeps its gradient: detaching it costs 3 to 4 dB."""
        return self.depth / self.alpha.clamp(min=MIN_COVERAGE)


class Rasterizer(Protocol):
    """Render activated Gaussians; differentiable in the five tensors, not in the camera."""

    def __call__(
        self,
        means: Tensor,  # [N, 3], world
        scales: Tensor,  # [N, 3] > 0, standard deviations along the axes
        quats: Tensor,  # [N, 4], w x y z, any length but 0
        opacities: Tensor,  # [N], in (0, 1)
        colors: Tensor,  # [N, 3]
        camera: Camera,
        near: float,  # Gaussians with centers nearer than this are skipped, unit of the means
    ) -> Render: ...


def load_rasterizer(name: str = "auto") -> Rasterizer:
    """Return a backend: "numba" (CPU), "gsplat" (CUDA), or "auto", which takes gsplat where it can run."""
    if name == "auto":
        import torch

        name = "gsplat" if torch.cuda.is_available() and importlib.util.find_spec("gsplat") else "numba"
    if name == "gsplat":
        from omnidc.splatting.gsplat_backend import load_gsplat

        return load_gsplat()
    if name != "numba":
        raise ConfigError(f'There is no rasterizer {name!r}: choose "numba", "gsplat" or "auto".')
    if importlib.util.find_spec("numba") is None:
        raise MissingExtraError("numba", "splat", "Rasterizing Gaussians on the CPU")
    from omnidc.splatting.numba_backend import rasterize

    return rasterize
