"""Rasterizer on CUDA: gsplat's `rasterization`, written against its documented interface (1.4 and later).

The authors have no GPU: this file is tested with a stand-in that checks the call, and has not run on a device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.splatting.camera import Camera
from omnidc.splatting.rasterizer import BLUR, Rasterizer, Render


def load_gsplat() -> Rasterizer:
    """Return the backend, or say why it cannot run."""
    try:
        import gsplat
    except ImportError as error:
        raise ConfigError(
            'The rasterizer "gsplat" needs the package gsplat and a CUDA device: pip install gsplat, or use "numba".'
        ) from error

    def rasterize(
        means: Tensor, scales: Tensor, quats: Tensor, opacities: Tensor, colors: Tensor, camera: Camera, near: float
    ) -> Render:
        K = camera.intrinsics
        K[:2, 2] += 0.5  # gsplat puts pixel centers at +0.5
        out, alpha, info = gsplat.rasterization(
            means=means,
            quats=quats,
            scales=scales,
            opacities=opacities,
            colors=colors,
            viewmats=torch.as_tensor(camera.view, dtype=means.dtype, device=means.device)[None],
            Ks=torch.as_tensor(K, dtype=means.dtype, device=means.device)[None],
            width=camera.width,
            height=camera.height,
            near_plane=near,
            eps2d=BLUR,
            packed=False,
            render_mode="RGB+D",
        )
        return Render(out[0, ..., :3], out[0, ..., 3], alpha[0, ..., 0], _is_visible(info["radii"]))

    return rasterize


def _is_visible(radii: Any) -> Tensor:
    """Return which Gaussians are on screen; radii are [1, N] in gsplat 1.4, [1, N, 2] from 1.5 on; 0 = off screen."""
    seen: Tensor = radii[0] > 0
    return seen if seen.ndim == 1 else seen.all(dim=-1)
