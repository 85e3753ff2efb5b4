"""A picture to look at: the photograph with its points beside the colored depth, and a color bar with numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.viz.colormap import NO_DEPTH, Picture, Scale, colorize, turbo
from omnidc.viz.points import draw_points
from omnidc.viz.text import BACKGROUND, INK, load_font

Array = npt.NDArray[Any]

# Each panel is brought to about this many pixels, so that text and points keep their proportion.
PANEL_AREA = 640 * 480


def preview(
    image: Picture,
    depth: Array,  # [H, W]
    sparse: Array | None = None,  # [H, W], 0 = none
    unit: str = "m",
    title: str = "",
    sky: Array | None = None,  # bool [H, W]: outside the color bar, whatever its depth is
    returns: int | None = None,  # points of the sensor, of which several may share a pixel; None = not known
) -> Picture:
    """Draw photograph with the points | depth | color bar, on a light ground. Gray = no depth."""
    import cv2
    from PIL import Image, ImageDraw

    height, width = depth.shape
    zoom = math.sqrt(PANEL_AREA / (height * width))
    size = (max(1, round(width * zoom)), max(1, round(height * zoom)))
    smooth = cv2.INTER_AREA if zoom < 1 else cv2.INTER_CUBIC
    if sky is not None:
        depth = np.where(sky, 0, depth)
    scale = Scale.of(depth)
    photo = np.asarray(cv2.resize(image, size, interpolation=smooth), np.uint8)
    colored = cv2.resize(colorize(depth, scale), size, interpolation=cv2.INTER_AREA if zoom < 1 else cv2.INTER_LINEAR)
    if sparse is not None:
        photo = draw_points(photo, sparse, scale)

    font, small = load_font(17), load_font(15)
    margin, head, bar = 16, 34, 20
    stacked = size[0] > 1.8 * size[1]  # wide pictures, such as KITTI's, lie one above the other
    columns, rows = (1, 2) if stacked else (2, 1)
    body = (columns * size[0] + (columns - 1) * margin, rows * (size[1] + head))
    canvas = Image.new("RGB", (body[0] + 2 * margin + bar + 84, body[1] + margin), BACKGROUND)
    draw = ImageDraw.Draw(canvas)
    captions = (_count(sparse, returns), title or "completed depth")
    for k, (panel, caption) in enumerate(zip((photo, colored), captions)):
        x = margin + (0 if stacked else k * (size[0] + margin))
        y = k * (size[1] + head) if stacked else 0
        draw.text((x, y + 9), caption, fill=INK, font=font)
        canvas.paste(Image.fromarray(panel), (x, y + head))

    x, top, length = body[0] + 2 * margin, head, body[1] - head
    absent = ~(np.isfinite(depth) & (depth > 0))
    if absent.any() and length > 3 * (bar + margin):
        length -= bar + margin
        key = (x, top + length + margin, x + bar - 1, top + length + margin + bar - 1)
        draw.rectangle(key, fill=(NO_DEPTH,) * 3, outline=INK)
        label = "sky" if sky is not None and (absent <= sky).all() else "no depth"
        draw.text((x + bar + 9, key[1] + bar // 2), label, fill=INK, font=small, anchor="lm")
    ramp = np.linspace(1, 0, length)[:, None].repeat(bar, 1)  # far at the top
    canvas.paste(Image.fromarray(turbo(ramp)), (x, top))
    draw.rectangle((x, top, x + bar - 1, top + length - 1), outline=INK)
    draw.text((x, 9), unit, fill=INK, font=font)
    for tick in scale.ticks():
        y = top + round((1 - float(scale(np.array(tick)))) * (length - 1))
        draw.line((x + bar, y, x + bar + 5, y), fill=INK)
        draw.text((x + bar + 9, y), f"{tick:.6g}", fill=INK, font=small, anchor="lm")
    return np.asarray(canvas)


def _count(sparse: Array | None, returns: int | None) -> str:
    """Say how many points there are: as the sensor counts them, and how many pixels they hit where that differs."""
    pixels = 0 if sparse is None else int((sparse > 0).sum())
    if returns is not None and returns != pixels:
        return f"{returns:,} returns on {pixels:,} pixels"
    return f"{pixels:,} points" if pixels else "no points"
