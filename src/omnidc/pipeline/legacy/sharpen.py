"""Outlines of depth brought onto those of the photograph, by medians that count what has a pixel's color."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatMap = npt.NDArray[np.float32]


RADIUS = 2  # pixels: how far a median looks
NEARBY = 3  # pixels: how far from a depth edge colors count
EDGE = 1.05  # farthest through nearest depth around a pixel from which on it lies at an edge
SAME_COLOR = 20.0  # of 255 levels (one standard deviation over the three channels)
MEASURED = 2.0  # what a pixel counts whose depth was measured
AT_ONCE = 1 << 16  # pixels, to bound the memory


def sharpen(
    depth: FloatMap,  # [H, W] > 0
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    measured: npt.NDArray[np.bool_] | None = None,  # [H, W], pixels that were drawn near to a measurement
) -> FloatMap:
    """The median of the depth around every pixel; at depth edges the one weighed by likeness of color.

    A network that computes at half resolution leaves a slope of two or three pixels between foreground and background,
    and a little noise on smooth surfaces. A median invents no depth: what it gives stood beside the pixel before.
    Unweighed it would eat what is thinner than its radius; weighed, a thin thing that has a color of its own stays.
    At edges what was measured counts twice: it tells for sure which depths there are.
    """
    around = np.ones((2 * NEARBY + 1, 2 * NEARBY + 1), np.uint8)
    edge = cv2.dilate(depth, around) > EDGE * cv2.erode(depth, around)
    result = cv2.medianBlur(depth, 2 * RADIUS + 1).astype(np.float32, copy=False)
    places = torch.from_numpy(np.flatnonzero(edge))
    depths, colors = torch.from_numpy(depth), torch.from_numpy(image).float()
    counts = torch.ones_like(depths)
    if measured is not None:
        counts[torch.from_numpy(measured)] = MEASURED
    medians = [_like_colored_median(depths, colors, counts, part) for part in torch.split(places, AT_ONCE)]
    result[edge] = torch.cat(medians).numpy()
    return result


def _like_colored_median(
    depth: Tensor,  # [H, W]
    color: Tensor,  # [H, W, 3]
    count: Tensor,  # [H, W]
    places: Tensor,  # [N], row · W + column
) -> Tensor:  # [N]
    """The least depth in the window that, with all that are less, has half of the weight; the border is repeated."""
    height, width = depth.shape
    offset = torch.arange(-RADIUS, RADIUS + 1)
    dy, dx = torch.cartesian_prod(offset, offset).T
    y = (places[:, None] // width + dy).clamp(0, height - 1)
    x = (places[:, None] % width + dx).clamp(0, width - 1)
    window = y * width + x  # [N, (2 RADIUS + 1)²]
    colors = color.reshape(-1, 3)
    difference = colors[window] - colors[places][:, None]
    weight = count.reshape(-1)[window] * torch.exp(difference.square().sum(dim=2) / (-2 * SAME_COLOR**2))
    ordered, order = depth.reshape(-1)[window].sort(dim=1)
    total = weight.gather(1, order).cumsum(dim=1)
    middle = (total >= total[:, -1:] / 2).int().argmax(dim=1, keepdim=True)
    return ordered.gather(1, middle)[:, 0]
