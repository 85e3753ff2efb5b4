"""One experiment: train on some views, render the held-out ones, measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch

from omnidc.errors import ConfigError, InputError
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.metrics import Picture, ViewMetrics, depth_errors, psnr, ssim
from omnidc.splatting.rasterizer import Rasterizer
from omnidc.splatting.trainer import MIN_VIEWS
from omnidc.splatting.view import SplatView

MIN_ALPHA = 0.5  # of a pixel whose depth is written; the expected depth of nearly nothing is arbitrary

Perceptual = Callable[[Picture, Picture], float]  # LPIPS of two pictures


@dataclass(frozen=True)
class RenderedView:
    """A held-out view as the splat shows it."""

    name: str
    image: npt.NDArray[np.uint8]  # [H, W, 3]
    depth: npt.NDArray[np.float32]  # [H, W], expected depth, 0 where the splat covers less than half of a pixel
    metrics: ViewMetrics


def split_views(names: Sequence[str], holdout: int, count: int | None) -> tuple[list[int], list[int]]:
    """Return indices of training and held-out views: every `holdout`-th is held out (0: none), as 3DGS does.

    count: training views used, spread evenly over the others; None = all.
    """
    if holdout < 0 or holdout == 1:
        raise ConfigError(f"Every n-th view is held out with n of 2 or more, or 0 for none, not {holdout}.")
    test = [k for k in range(len(names)) if holdout and k % holdout == 0]
    train = [k for k in range(len(names)) if k not in test]
    if count is not None:
        if count < MIN_VIEWS:
            raise ConfigError(f"Training a splat needs at least {MIN_VIEWS} views, not {count}.")
        if count < len(train):
            train = [train[round(p)] for p in np.linspace(0, len(train) - 1, count)]
    if len(train) < MIN_VIEWS:
        if not test:
            raise InputError(
                f"Training a splat needs at least {MIN_VIEWS} views, but the model has {len(names)}; "
                "take more photographs."
            )
        raise InputError(
            f"Training a splat needs at least {MIN_VIEWS} views, but {len(train)} of {len(names)} are left "
            "after holding some out; take more photographs or hold out fewer (--holdout 0)."
        )
    return train, test


@torch.no_grad()
def evaluate(
    gaussians: Gaussians,
    views: Sequence[SplatView],
    rasterizer: Rasterizer,
    near: float,
    lpips: Perceptual | None = None,
    max_depth: float | None = None,  # truth beyond is left out of the depth errors
) -> list[RenderedView]:
    """Render views and measure them against their photographs, and against their true depth where it is known."""
    results = []
    for view in views:
        render = gaussians.render(rasterizer, view.camera, near)
        image = render.image.clamp(0, 1).cpu().numpy()
        target = view.image.astype(np.float32) / np.float32(255)
        depth = render.expected_depth().cpu().numpy().astype(np.float32)
        errors = None if view.gt_depth is None else depth_errors(depth, view.gt_depth, max_depth)
        metrics = ViewMetrics(
            psnr=psnr(image, target),
            ssim=ssim(image, target),
            lpips=None if lpips is None else lpips(image, target),
            depth_rmse=None if errors is None else errors[0],
            depth_rel=None if errors is None else errors[1],
        )
        depth[render.alpha.cpu().numpy() < MIN_ALPHA] = 0
        results.append(RenderedView(view.name, np.rint(image * 255).astype(np.uint8), depth, metrics))
    return results


def mean_metrics(metrics: Sequence[ViewMetrics]) -> dict[str, float]:
    """Return the mean of each metric over the views that have it."""
    table: dict[str, float] = {}
    for name in ViewMetrics.__dataclass_fields__:
        values = [value for one in metrics if (value := asdict(one)[name]) is not None and math.isfinite(value)]
        if values:
            table[name] = float(np.mean(values))
    return table
