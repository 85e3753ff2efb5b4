"""One picture per row of a result: photograph | points | prediction | truth | error."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image as PillowImage
from scipy.ndimage import grey_dilation

from omnidc.evaluation.metrics import known_pixels
from omnidc.evaluation.sample import Sample
from omnidc.io.files import atomic_path

PANELS = ("photograph", "points", "prediction", "truth", "error")
PANEL_WIDTH = 256
ERROR_FULL = 0.25  # relative error of the brightest color

Rgb = npt.NDArray[np.uint8]


def colorize(
    value: npt.NDArray[np.floating],  # [H, W] in [0, 1]
    shown: npt.NDArray[np.bool_],  # [H, W], the rest is dark gray
    scheme: int,
) -> Rgb:
    level = np.nan_to_num(np.clip(value, 0, 1), nan=0.0, posinf=1.0, neginf=0.0)
    rgb: Rgb = np.ascontiguousarray(cv2.applyColorMap((255 * level).astype(np.uint8), scheme)[..., ::-1])
    rgb[~shown] = 40
    return rgb


def strip(sample: Sample, prediction: npt.NDArray[np.floating]) -> Rgb:
    """Draw the five panels side by side. Depths share one color scale: log depth between the truth's 2nd and 98th
    percentile (near is red); errors are relative, 0 to 25 %."""
    known = known_pixels(sample.gt_depth)
    reference = sample.gt_depth[known] if known.any() else sample.sparse[sample.sparse > 0]
    low, high = np.log(np.percentile(reference, [2, 98]).astype(np.float64))

    def colorize_depth(depth: npt.NDArray[np.floating], shown: npt.NDArray[np.bool_]) -> Rgb:
        usable = shown & np.isfinite(depth) & (depth > 0)
        log_depth = np.log(np.where(usable, depth, 1.0).astype(np.float64))
        return colorize((high - log_depth) / max(high - low, 1e-6), usable, cv2.COLORMAP_TURBO)

    height, width = sample.gt_depth.shape
    scale = PANEL_WIDTH / width
    # A point of one pixel would vanish in the reduced panel.
    size = max(1, round(2 / scale))
    points = grey_dilation(sample.sparse, size=(size, size)) if (sample.sparse > 0).mean() < 0.1 else sample.sparse
    error = np.abs(prediction - sample.gt_depth) / np.where(known, sample.gt_depth, 1.0) / ERROR_FULL
    scored = known if sample.scored is None else known & sample.scored
    panels = (
        sample.image,
        colorize_depth(points, points > 0),
        colorize_depth(np.asarray(prediction), np.ones_like(known)),
        colorize_depth(sample.gt_depth, known),
        colorize(error, scored, cv2.COLORMAP_INFERNO),
    )
    size_out = (PANEL_WIDTH, max(1, round(height * scale)))
    return np.concatenate([cv2.resize(p, size_out, interpolation=cv2.INTER_AREA) for p in panels], axis=1)


def write_strip(path: Path, sample: Sample, prediction: npt.NDArray[np.floating]) -> None:
    with atomic_path(path) as temporary:
        PillowImage.fromarray(strip(sample, prediction)).save(temporary, quality=85)
