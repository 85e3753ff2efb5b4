"""Bringing a result back to its measurements: near to the trusted ones, or exactly to all (`keep_input="hard"`)."""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

FloatMap = npt.NDArray[np.float32]


REACH = 48.0  # pixels (one standard deviation): corrections reach at most this far around a lonely measurement
SPACINGS = 4.0  # mean distances of the measurements at which the spreading begins
SAME_DEPTH = 0.06  # of log depth (one standard deviation): corrections do not cross depth edges higher than this
FLAT = 2.0  # pixels; at this width and below, so few pixels lie beyond an edge that it need not be minded
MOST_STEPS = 32  # of log depth: where a scene is deeper than that, the steps are larger
_GAUSSIAN = (math.exp(-0.5), math.exp(-2.0))  # one and two nodes away; the height is 1, the standard deviation a node


def draw_near(
    depth: FloatMap,  # [H, W] > 0
    sparse: FloatMap,  # [H, W], 0 = no measurement
    narrowest: float = 1.0,
) -> FloatMap:
    """Spread the error at the measurements, as a factor on depth, over their surroundings; return the corrected depth.

    Coarse to fine: at width σ, every measurement hands log(sparse / depth) to its surroundings by a Gaussian of height
    1; where several overlap their mean counts, where none reaches nothing changes. Then σ is halved, to `narrowest`
    pixels, and what is still missing at the measurements is spread again. The first σ is four times the mean distance
    of the measurements: what they have in common moves whole regions, and only what they disagree in is left to the
    narrow steps. Measurements side by side are averaged at the last step, and so is their noise.

    The surroundings are those in space and in `depth`: what is wrong with the foreground is no news of the background.
    """
    points = sparse > 0
    count = int(points.sum())
    if not count:
        return depth
    log_depth = np.log(depth)
    rows, columns = np.nonzero(points)
    target = np.log(sparse[points])
    layers = _Layers(log_depth, rows, columns)
    sigma = min(REACH, max(1.0, SPACINGS * math.sqrt(depth.size / count)))
    while sigma >= narrowest:
        error = target - log_depth[points]
        if sigma > FLAT:
            spread, share = layers.spread(error, sigma)
        else:
            spread, share = _spread_flat(error, points, sigma)
        log_depth = log_depth + spread / np.maximum(share, 1)
        sigma /= 2
    return np.exp(log_depth)


def pass_through(
    depth: FloatMap,  # [H, W] > 0
    sparse: FloatMap,  # [H, W], 0 = no measurement
) -> FloatMap:
    """`draw_near` down to half a pixel, and the measurements themselves in the end."""
    return np.where(sparse > 0, sparse, draw_near(depth, sparse, narrowest=0.5))


def _spread_flat(
    error: FloatMap,  # [N]
    points: npt.NDArray[np.bool_],  # [H, W], N of them
    sigma: float,
) -> tuple[FloatMap, FloatMap]:  # [H, W] each
    """Per pixel, the sum over the measurements of error × Gaussian of the distance, and that of the Gaussians."""
    side = 2 * math.ceil(3 * sigma) + 1
    kernel = np.exp(-0.5 * ((np.arange(side) - side // 2) / sigma) ** 2).astype(np.float32)
    errors = np.zeros(points.shape, np.float32)
    errors[points] = error
    spread, share = (
        cv2.sepFilter2D(one, cv2.CV_32F, kernel, kernel, borderType=cv2.BORDER_CONSTANT).astype(np.float32, copy=False)
        for one in (errors, points.astype(np.float32))
    )
    return spread, share


class _Layers:
    """`_spread_flat` with the distance in log depth counted as well, by a bilateral grid.

    The grid has a node every σ pixels and every step of log depth: measurements are shared out to the eight nodes
    around them, the nodes are blurred, and every pixel reads between the eight around itself.
    """

    def __init__(
        self,
        log_depth: FloatMap,  # [H, W]
        rows: npt.NDArray[np.intp],  # [N], of the measurements
        columns: npt.NDArray[np.intp],  # [N]
    ) -> None:
        # Few pixels very near or far must not make the steps of all others large: they join the last ones.
        low, high = (float(end) for end in np.quantile(log_depth[::4, ::4], (0.01, 0.99)))
        step = max(SAME_DEPTH, (high - low) / MOST_STEPS)
        self.depth = torch.from_numpy((log_depth.clip(low, high) - low) / step)  # [H, W], in nodes
        self.nodes = math.floor((high - low) / step) + 2
        self.rows, self.columns = torch.from_numpy(rows), torch.from_numpy(columns)

    def spread(self, error: FloatMap, sigma: float) -> tuple[FloatMap, FloatMap]:  # [N] → [H, W] each
        height, width = self.depth.shape
        size = (self.nodes, math.floor((height - 1) / sigma) + 2, math.floor((width - 1) / sigma) + 2)
        grid = torch.zeros(2, *size)
        at = torch.stack([self.depth[self.rows, self.columns], self.rows / sigma, self.columns / sigma])  # [3, N]
        values = torch.stack([torch.from_numpy(error), torch.ones(len(error))])  # [2, N]
        first = at.floor().long()
        for corner in range(8):
            offset = torch.tensor([corner >> 2 & 1, corner >> 1 & 1, corner & 1])[:, None]
            z, y, x = first + offset
            share = (1 - (at - (first + offset)).abs()).prod(dim=0)
            grid.view(2, -1).index_add_(1, (z * size[1] + y) * size[2] + x, values * share)
        for axis in (1, 2, 3):
            grid = _blur(grid, axis)
        y, x = torch.meshgrid(torch.arange(height) / sigma, torch.arange(width) / sigma, indexing="ij")
        places = torch.stack([x, y, self.depth], dim=-1)  # in nodes; `grid_sample` counts from −1 to 1
        places = places * 2 / (torch.tensor([size[2], size[1], size[0]]) - 1) - 1
        read = F.grid_sample(grid[None], places[None, None], align_corners=True)[0, :, 0]
        return read[0].numpy(), read[1].numpy()


def _blur(grid: Tensor, axis: int) -> Tensor:  # [2, D, h, w] → [2, D, h, w]
    """Along one of the last three axes, by `_GAUSSIAN`; nothing lies beyond the border."""
    length = grid.shape[axis]
    blurred = grid.clone()
    for distance, weight in enumerate(_GAUSSIAN, 1):
        if distance < length:
            near, far = grid.narrow(axis, 0, length - distance), grid.narrow(axis, distance, length - distance)
            blurred.narrow(axis, distance, length - distance).add_(near, alpha=weight)
            blurred.narrow(axis, 0, length - distance).add_(far, alpha=weight)
    return blurred
