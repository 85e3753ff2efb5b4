"""Measurements, uncertainty and error drawn over the photograph; most bad results are bad projections."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.viz.colormap import Scale
from omnidc.viz.preview import draw_points

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB


def greyed(image: Picture) -> Picture:
    """The photograph in grey and a little faded, so that colours drawn over it stand out."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return np.repeat((40 + 0.65 * grey).astype(np.uint8)[..., None], 3, axis=2)


def point_overlay(
    image: Picture,
    sparse: npt.NDArray[np.float32],  # [H, W], 0 = none
) -> Picture:
    """Draw the measurements over the greyed photograph in the colour of their depth: near red, far blue."""
    return draw_points(greyed(image), sparse, Scale.of(sparse))


def uncertainty_overlay(
    image: Picture,
    depth: npt.NDArray[np.float32],  # [H, W] > 0
    uncertainty: npt.NDArray[np.float32],  # [H, W] > 0, Laplace scale, same unit
    full: float = 0.2,  # relative uncertainty that is drawn in full red
) -> Picture:
    """Tint the photograph by relative uncertainty b / depth: clear = 0, red = `full` or more."""
    share = np.clip(uncertainty / np.maximum(depth, 1e-12) / full, 0, 1)[..., None]
    grey = greyed(image).astype(np.float32)
    red = np.array([230.0, 30.0, 20.0], dtype=np.float32)
    return np.asarray(np.clip(grey * (1 - 0.8 * share) + red * 0.8 * share, 0, 255), dtype=np.uint8)
