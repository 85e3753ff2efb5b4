"""Measurements drawn into a photograph, visible on any background."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.viz.colormap import Picture, Scale, colorize

Array = npt.NDArray[Any]

DOT = 0.3  # radius of a point / mean distance of the points around it
MAX_RADIUS = 5.0  # pixels of the picture
RIM = 0.9  # pixels, dark: a color stands out from any photograph by it
RIM_RADIUS = 1.6  # smaller points have no room for a rim
WINDOW = 0.1  # side of the window in which points are counted / shorter side of the map
RIM_COLOR = (20, 20, 24)


def grayed(image: Picture) -> Picture:
    """Return the photograph in gray and a little faded, so that colors drawn over it stand out."""
    import cv2

    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return np.repeat((40 + 0.65 * gray).astype(np.uint8)[..., None], 3, axis=2)


def point_spacing(sparse: Array) -> Array:  # [H, W], 0 = none
    """Return the mean distance of the points around each point [N], in pixels of the map, row by row."""
    import cv2

    measured = sparse > 0
    side = max(3, round(WINDOW * min(sparse.shape)))
    density = cv2.boxFilter(measured.astype(np.float32), -1, (side, side), borderType=cv2.BORDER_REFLECT)
    return np.asarray(1 / np.sqrt(np.maximum(density[measured], 1 / side**2)))


def draw_points(
    picture: Picture,
    sparse: Array,  # [H, W], 0 = none; may be of another size than the picture
    scale: Scale,
) -> Picture:
    """Draw discs in the color of their depth, smaller where there are more of them.

    Discs have a dark rim. Where most are too small for one, the photograph below is grayed instead.
    """
    import cv2

    rows, columns = np.nonzero(sparse > 0)
    if not len(rows):
        return picture
    zoom = picture.shape[1] / sparse.shape[1], picture.shape[0] / sparse.shape[0]
    colors = colorize(sparse[rows, columns][None], scale)[0]
    radius = np.minimum(DOT * min(zoom) * point_spacing(sparse), MAX_RADIUS)
    result = grayed(picture) if np.median(radius) < RIM_RADIUS else np.ascontiguousarray(picture).copy()
    xs = np.clip((columns + 0.5) * zoom[0] - 0.5, 0, picture.shape[1] - 1)
    ys = np.clip((rows + 0.5) * zoom[1] - 0.5, 0, picture.shape[0] - 1)
    small = radius < RIM_RADIUS
    _draw_squares(result, xs[small], ys[small], colors[small], 1 if np.median(radius) < 0.6 else 2)
    # OpenCV places circles on a grid of 1/16 pixel when asked to.
    for x, y, r, color in zip(xs[~small], ys[~small], radius[~small], colors[~small].tolist()):
        at = (round(16 * x), round(16 * y))
        cv2.circle(result, at, round(16 * (r + RIM)), RIM_COLOR, -1, cv2.LINE_AA, 4)
        cv2.circle(result, at, round(16 * r), color, -1, cv2.LINE_AA, 4)
    return result


def _draw_squares(picture: Picture, xs: Array, ys: Array, colors: Array, side: int) -> None:
    """Draw squares of 1 or 2 pixels a side in place."""
    x, y = np.rint(xs).astype(int), np.rint(ys).astype(int)
    for dy in range(side):
        for dx in range(side):
            picture[np.minimum(y + dy, picture.shape[0] - 1), np.minimum(x + dx, picture.shape[1] - 1)] = colors
