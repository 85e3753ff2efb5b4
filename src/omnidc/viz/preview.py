"""A picture to look at: the photograph with its points beside the coloured depth, and a colour bar with numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.viz.colormap import Scale, colorize, turbo

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB

BACKGROUND = (250, 250, 248)
INK = (40, 40, 44)
# Each panel is brought to about this many pixels, so that text and points keep their proportion.
PANEL_AREA = 640 * 480


def preview(
    image: Picture,
    depth: Array,  # [H, W]
    sparse: Array | None = None,  # [H, W], 0 = none
    unit: str = "m",
    title: str = "",
) -> Picture:
    """Photograph with the points | depth | colour bar, on a light ground."""
    import cv2
    from PIL import Image, ImageDraw

    height, width = depth.shape
    zoom = math.sqrt(PANEL_AREA / (height * width))
    size = (max(1, round(width * zoom)), max(1, round(height * zoom)))
    smooth = cv2.INTER_AREA if zoom < 1 else cv2.INTER_CUBIC
    scale = Scale.of(depth)
    photo = np.asarray(cv2.resize(image, size, interpolation=smooth), np.uint8)
    colored = cv2.resize(colorize(depth, scale), size, interpolation=cv2.INTER_AREA if zoom < 1 else cv2.INTER_LINEAR)
    if sparse is not None:
        photo = draw_points(photo, sparse, scale)

    font, small = _font(17), _font(15)
    margin, head, bar = 16, 34, 20
    stacked = size[0] > 1.8 * size[1]  # wide pictures, such as KITTI's, lie one above the other
    columns, rows = (1, 2) if stacked else (2, 1)
    body = (columns * size[0] + (columns - 1) * margin, rows * (size[1] + head))
    canvas = Image.new("RGB", (body[0] + 2 * margin + bar + 84, body[1] + margin), BACKGROUND)
    draw = ImageDraw.Draw(canvas)
    count = 0 if sparse is None else int((sparse > 0).sum())
    captions = (f"{count:,} points" if count else "no points", title or "completed depth")
    for k, (panel, caption) in enumerate(zip((photo, colored), captions)):
        x = margin + (0 if stacked else k * (size[0] + margin))
        y = k * (size[1] + head) if stacked else 0
        draw.text((x, y + 9), caption, fill=INK, font=font)
        canvas.paste(Image.fromarray(panel), (x, y + head))

    x, top, length = body[0] + 2 * margin, head, body[1] - head
    ramp = np.linspace(1, 0, length)[:, None].repeat(bar, 1)  # far at the top
    canvas.paste(Image.fromarray(turbo(ramp)), (x, top))
    draw.rectangle((x, top, x + bar - 1, top + length - 1), outline=INK)
    draw.text((x, 9), unit, fill=INK, font=font)
    for tick in scale.ticks():
        y = top + round((1 - float(scale(np.array(tick)))) * (length - 1))
        draw.line((x + bar, y, x + bar + 5, y), fill=INK)
        draw.text((x + bar + 9, y), f"{tick:.6g}", fill=INK, font=small, anchor="lm")
    return np.asarray(canvas)


def draw_points(
    picture: Picture,
    sparse: Array,  # [H, W], 0 = none; may be of another size than the picture
    scale: Scale,
) -> Picture:
    """Discs in the colour of their depth with a dark rim; smaller the more there are."""
    import cv2

    rows, columns = np.nonzero(sparse > 0)
    if not len(rows):
        return picture
    zoom = picture.shape[1] / sparse.shape[1], picture.shape[0] / sparse.shape[0]
    colors = colorize(sparse[rows, columns][None], scale)[0]
    spacing = math.sqrt(picture.shape[0] * picture.shape[1] / len(rows))
    radius = min(5.0, max(0.0, 0.22 * spacing))
    result = np.ascontiguousarray(picture).copy()
    xs = np.clip((columns + 0.5) * zoom[0] - 0.5, 0, picture.shape[1] - 1)
    ys = np.clip((rows + 0.5) * zoom[1] - 0.5, 0, picture.shape[0] - 1)
    if radius < 1:
        result[np.rint(ys).astype(int), np.rint(xs).astype(int)] = colors
        return result
    # OpenCV places circles on a grid of 1/16 pixel when told so
    for x, y, color in zip(np.rint(xs * 16).astype(int).tolist(), np.rint(ys * 16).astype(int).tolist(), colors):
        cv2.circle(result, (x, y), round((radius + 0.9) * 16), (20, 20, 24), -1, cv2.LINE_AA, 4)
        cv2.circle(result, (x, y), round(radius * 16), color.tolist(), -1, cv2.LINE_AA, 4)
    return result


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
