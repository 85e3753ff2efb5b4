"""Metrics of novel views. Pictures are [H, W, 3] in [0, 1]; PSNR and SSIM have a data range of 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.splatting.losses import K1, K2, SIGMA, WINDOW

Picture = npt.NDArray[np.float32]  # [H, W, 3], in [0, 1]


@dataclass(frozen=True)
class ViewMetrics:
    """Metrics of one held-out view; None = not measured."""

    psnr: float  # dB
    ssim: float
    lpips: float | None
    depth_rmse: float | None  # unit of the poses
    depth_rel: float | None  # median of |error| / truth


def psnr(image: Picture, target: Picture) -> float:
    """Return −10 log₁₀ of the mean squared error over pixels and channels, dB."""
    error = float(np.mean((image.astype(np.float64) - target) ** 2))
    return math.inf if error == 0 else -10 * math.log10(error)


def ssim(image: Picture, target: Picture) -> float:
    """Return mean SSIM (Wang et al. 2004): Gaussian window, σ = 1.5, 11×11, borders of 5 pixels left out, 3 channels.

    Equal to scikit-image with gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1.
    """
    a, b = image.astype(np.float64), target.astype(np.float64)

    def blur(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(cv2.GaussianBlur(x, (WINDOW, WINDOW), SIGMA, borderType=cv2.BORDER_REFLECT))

    mean_a, mean_b = blur(a), blur(b)
    var_a, var_b, cov = blur(a * a) - mean_a**2, blur(b * b) - mean_b**2, blur(a * b) - mean_a * mean_b
    top = (2 * mean_a * mean_b + K1) * (2 * cov + K2)
    full = top / ((mean_a**2 + mean_b**2 + K1) * (var_a + var_b + K2))
    border = WINDOW // 2
    return float(full[border:-border, border:-border].mean())


def depth_errors(
    depth: npt.NDArray[np.float32],  # [H, W]
    gt_depth: npt.NDArray[np.float32],  # [H, W], 0 = unknown
    max_depth: float | None = None,  # truth beyond is left out
) -> tuple[float, float] | None:
    """Return RMSE and median relative error where the truth is known; None where it is not known at all."""
    known = (gt_depth > 0) & (gt_depth < (max_depth or math.inf))
    if not known.any():
        return None
    true_depth = gt_depth[known].astype(np.float64)
    error = depth[known] - true_depth
    return float(np.sqrt(np.mean(error**2))), float(np.median(np.abs(error) / true_depth))
