"""The files of a finished splat: `.ply`, renders of held-out views, turntable, viewer page and the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omnidc.io.depth import write_depth
from omnidc.io.files import write_json
from omnidc.io.images import write_picture
from omnidc.splatting.experiment import Perceptual, RenderedView, evaluate, mean_metrics
from omnidc.splatting.orbit import render_swing
from omnidc.splatting.ply import write_splat
from omnidc.splatting.trainer import SplatTrainer
from omnidc.splatting.view import SplatView
from omnidc.splatting.viewer import write_viewer
from omnidc.viz.colormap import Scale, colorize
from omnidc.viz.orbit import write_turntable

TITLES = {
    "psnr": ("PSNR, dB", ".2f"),
    "ssim": ("SSIM", ".4f"),
    "lpips": ("LPIPS", ".4f"),
    "depth_rmse": ("depth RMSE", ".4g"),
    "depth_rel": ("median relative depth error", ".4f"),
}


def write_results(
    folder: Path,
    trainer: SplatTrainer,
    held_out: Sequence[SplatView],
    about: dict[str, Any],  # what else belongs into metrics.json
    lpips: Perceptual | None = None,
    title: str = "splat",
) -> dict[str, float]:
    """Write everything and return the mean metrics of the held-out views (empty without any)."""
    write_splat(folder / "splat.ply", trainer.gaussians)
    write_viewer(folder / "viewer.html", trainer.gaussians, trainer.views, title)
    middle = trainer.views[len(trainer.views) // 2].camera
    pictures = render_swing(trainer.gaussians, trainer.rasterizer, middle, trainer.near)
    write_turntable(folder / "turntable.webp", pictures)
    rendered = evaluate(trainer.gaussians, held_out, trainer.rasterizer, trainer.near, lpips)
    for view, result in zip(held_out, rendered):
        _write_view(folder / "renders", view, result)
    means = mean_metrics([result.metrics for result in rendered])
    record = {
        **about,
        "steps": trainer.step,
        "gaussians": len(trainer.gaussians),
        "options": dataclasses.asdict(trainer.options),
        "training_views": [view.name for view in trainer.views],
        "mean": means,
        "views": {result.name: dataclasses.asdict(result.metrics) for result in rendered},
    }
    write_json(folder / "metrics.json", record)
    return means


def _write_view(folder: Path, view: SplatView, result: RenderedView) -> None:
    """Write NAME.png, NAME_depth.npy, and NAME_compare.jpg: photograph, render and depth side by side."""
    write_picture(folder / f"{view.name}.png", result.image)
    write_depth(folder / f"{view.name}_depth.npy", result.depth)
    colors = colorize(result.depth, Scale.of(result.depth))
    write_picture(folder / f"{view.name}_compare.jpg", np.concatenate([view.image, result.image, colors], axis=1))


def table(means: dict[str, float]) -> str:
    """Return the mean metrics as lines of text."""
    rows = [(TITLES[name], value) for name, value in means.items()]
    return "\n".join(f"{title:<30}{value:>10{form}}" for (title, form), value in rows)
