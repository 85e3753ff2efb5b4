"""Losses of the training: L1 and D-SSIM of 3DGS, and DN-Splatter's edge-aware depth loss with our weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW, SIGMA = 11, 1.5  # of SSIM, pixels
K1, K2 = 0.01**2, 0.03**2  # of SSIM for values in [0, 1]
DSSIM_WEIGHT = 0.2  # 3DGS
RELATIVE_FLOOR = 0.02  # added to b / depth before it is inverted: no pixel weighs more than fifty


class _Blur(torch.autograd.Function):
    """Gaussian window with zeros outside, [H, W, C] on the CPU; it is symmetric, so it is its own adjoint."""

    @staticmethod
    def run(x: Tensor) -> Tensor:
        array = x.detach().contiguous().numpy()
        # OpenCV filters at most four channels at once quickly; more are split by it anyway
        out = cv2.GaussianBlur(array, (WINDOW, WINDOW), SIGMA, borderType=cv2.BORDER_CONSTANT)
        return torch.from_numpy(np.ascontiguousarray(out))

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _Blur.run(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _Blur.run(grad)


def _blur(x: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return _Blur.apply(x)  # type: ignore[no-any-return, no-untyped-call]
    offsets = torch.arange(WINDOW, dtype=x.dtype, device=x.device) - WINDOW // 2
    kernel = torch.exp(-(offsets**2) / (2 * SIGMA**2))
    kernel = kernel / kernel.sum()
    planes = x.permute(2, 0, 1)[:, None]
    planes = F.conv2d(planes, kernel.view(1, 1, 1, -1), padding=(0, WINDOW // 2))
    return F.conv2d(planes, kernel.view(1, 1, -1, 1), padding=(WINDOW // 2, 0))[:, 0].permute(1, 2, 0)


def ssim_map(a: Tensor, b: Tensor) -> Tensor:
    """Return SSIM [H, W, 3] of pictures [H, W, 3] in [0, 1]: Gaussian window 11×11, σ = 1.5, zeros outside (3DGS)."""
    moments = _blur(torch.cat([a, b, a * a, b * b, a * b], 2))
    mean_a, mean_b, aa, bb, ab = torch.split(moments, 3, 2)
    top = (2 * mean_a * mean_b + K1) * (2 * (ab - mean_a * mean_b) + K2)
    bottom = (mean_a**2 + mean_b**2 + K1) * (aa - mean_a**2 + bb - mean_b**2 + K2)
    ratio: Tensor = top / bottom
    return ratio


def photometric_loss(image: Tensor, target: Tensor) -> Tensor:
    """Return (1 − λ) L1 + λ (1 − SSIM), λ = 0.2 (3DGS eq. 7). Both [H, W, 3]."""
    dssim = 1 - ssim_map(image, target).mean()
    return (1 - DSSIM_WEIGHT) * (image - target).abs().mean() + DSSIM_WEIGHT * dssim


@dataclass(frozen=True)
class DepthTarget:
    """What the depth of a view is compared with."""

    depth: Tensor  # [H, W] ≥ 0, 0 = none
    weight: Tensor  # [H, W] ≥ 0, 0 = no loss (no depth, sky)
    edges: tuple[Tensor, Tensor] | None  # [H, W − 1] and [H − 1, W]; None = isolated points, no edge weights


def edge_weights(image: Tensor) -> tuple[Tensor, Tensor]:
    """Return exp(−|∂I|) along x [H, W − 1] and y [H − 1, W]: depth may jump where color does (DN-Splatter eq. 6)."""
    dx, dy = image.diff(dim=1).abs().mean(2), image.diff(dim=0).abs().mean(2)
    return torch.exp(-dx), torch.exp(-dy)


def uncertainty_weights(
    depth: Tensor,  # [H, W], 0 = none
    uncertainty: Tensor,  # [H, W], Laplace scale b, unit of the depth
) -> Tensor:
    """Return the weights ∝ 1 / (b / depth), [H, W], with mean 1 where there is depth and 0 elsewhere."""
    known = depth > 0
    weight = torch.where(known, 1 / (uncertainty / depth.clamp(min=1e-12) + RELATIVE_FLOOR), 0.0)
    return weight * (known.sum() / weight.sum().clamp(min=1e-12))


def depth_loss(depth: Tensor, target: DepthTarget, unit: float) -> Tensor:
    """Return the mean of w · log(1 + |D − D*| / unit), each axis weighted by the picture's edges (DN-Splatter eq. 7).

    depth: [H, W], expected depth of the render. unit: length that counts as one; DN-Splatter's is a meter.
    """
    error = torch.log1p((depth - target.depth).abs() / unit) * target.weight
    if target.edges is None:
        return error.sum() / target.weight.sum().clamp(min=1e-6)
    x, y = error[:, :-1] * target.edges[0], error[:-1] * target.edges[1]
    mass_x, mass_y = target.weight[:, :-1].sum(), target.weight[:-1].sum()
    return x.sum() / mass_x.clamp(min=1e-6) + y.sum() / mass_y.clamp(min=1e-6)
