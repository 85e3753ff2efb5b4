"""Measurements and uncertainty drawn over the photograph; most bad results are bad projections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.viz.colormap import Picture, Scale
from omnidc.viz.points import draw_points, grayed
from omnidc.viz.text import BACKGROUND, INK, load_font

FULL = 0.2  # uncertainty / depth that is drawn in full red
RED = np.array([230.0, 30.0, 20.0], np.float32)
TINT = 0.8  # share of the red at FULL


def point_overlay(
    image: Picture,
    sparse: npt.NDArray[np.float32],  # [H, W], 0 = none
) -> Picture:
    """Draw the measurements over the grayed photograph in the color of their depth: near red, far blue."""
    return draw_points(grayed(image), sparse, Scale.of(sparse))


def uncertainty_overlay(
    image: Picture,
    depth: npt.NDArray[np.float32],  # [H, W], 0 = none
    uncertainty: npt.NDArray[np.float32],  # [H, W] > 0, Laplace scale, same unit
) -> Picture:
    """Tint the photograph by relative uncertainty b / depth: clear = 0, red = `FULL` or more; a legend stands below."""
    relative = np.divide(uncertainty, depth, out=np.zeros_like(depth), where=depth > 0)
    tinted = _tint(grayed(image).astype(np.float32), np.clip(relative / FULL, 0, 1))
    return np.concatenate([tinted, _legend(image.shape[1])])


def _tint(gray: npt.NDArray[np.float32], share: npt.NDArray[np.floating]) -> Picture:
    part = TINT * share[..., None]
    return np.asarray(np.clip(gray * (1 - part) + RED * part, 0, 255), np.uint8)


def _legend(width: int) -> Picture:
    """Draw a bar from clear to red with its numbers, as wide as the photograph."""
    from PIL import Image, ImageDraw

    size = max(9, min(28, width // 32))  # of the text, pixels
    bar, margin = size, size // 2
    canvas = Image.new("RGB", (width, 2 * size + bar + 2 * margin), BACKGROUND)
    draw, font = ImageDraw.Draw(canvas), load_font(size)
    length = max(1, width - 2 * margin)
    ramp = np.broadcast_to(np.linspace(0, 1, length), (bar, length))
    canvas.paste(Image.fromarray(_tint(np.full((bar, length, 3), 160, np.float32), ramp)), (margin, margin))
    draw.rectangle((margin, margin, margin + length - 1, margin + bar - 1), outline=INK)
    below = margin + bar + size // 4
    for share, anchor in ((0.0, "la"), (0.5, "ma"), (1.0, "ra")):
        text = f"{100 * FULL * share:g} %" + (" of the depth or more" if share == 1 else "")
        draw.text((margin + share * (length - 1), below), text, fill=INK, font=font, anchor=anchor)
    return np.asarray(canvas)
