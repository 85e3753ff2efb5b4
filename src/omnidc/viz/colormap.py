"""Depth as color: the range of a depth map, its ticks, and the turbo color map."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB

FENCE = 1.5  # interquartile ranges beyond the quartiles (Tukey), in the logarithm
NO_DEPTH = 225  # gray of pixels without depth


class Scale:
    """Depth to [0, 1]: logarithmic where the depths span more than a factor of four, else linear."""

    def __init__(self, low: float, high: float) -> None:
        if not high > low * 1.001:
            low, high = low / 1.05, high * 1.05
        self.low, self.high = low, high
        self.logarithmic = high > 4 * low

    @classmethod
    def of(cls, depth: Array) -> Scale:
        """Return the range of nearly all depths, whatever a few wild ones are.

        It leaves out one percent at either end, and up to five where they lie beyond Tukey's fences.
        """
        valid = depth[np.isfinite(depth) & (depth > 0)]
        if not valid.size:
            return cls(1.0, 2.0)
        valid = valid.astype(np.float64)
        p1, p5, q1, q3, p95, p99 = np.percentile(valid, (1, 5, 25, 75, 95, 99))
        reach = (q3 / q1) ** FENCE
        inside = valid[(valid >= q1 / reach) & (valid <= q3 * reach)]
        return cls(float(max(p1, min(p5, inside.min()))), float(min(p99, max(p95, inside.max()))))

    def __call__(self, depth: Array) -> Array:
        depth = np.clip(np.nan_to_num(depth, nan=self.low), self.low, self.high)
        if self.logarithmic:
            return np.log(depth / self.low) / math.log(self.high / self.low)
        return (depth - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return four to nine round numbers within the range."""
        decades = range(math.floor(math.log10(self.low)) - 1, math.ceil(math.log10(self.high)) + 1)
        for steps in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5), (1, 1.5, 2, 3, 4, 5, 7)) if self.logarithmic else ():
            values = [s * 10.0**e for e in decades for s in steps if self.low <= s * 10.0**e <= self.high]
            if len(values) >= 4:
                return values
        unit = 10.0 ** math.floor(math.log10(self.high - self.low))
        for step in (factor * unit for factor in (5, 2.5, 2, 1, 0.5, 0.25, 0.2, 0.1)):
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            if last - first + 1 >= 4:
                return [i * step for i in range(first, last + 1)]
        return [self.low, self.high]


def colorize(depth: Array, scale: Scale | None = None) -> Picture:
    """Color depth by Turbo, near = red, far = blue; no depth = light gray."""
    scale = Scale.of(depth) if scale is None else scale
    picture = turbo(scale(depth))
    picture[~(np.isfinite(depth) & (depth > 0))] = NO_DEPTH
    return picture


def turbo(position: Array) -> Picture:
    """Return the colors of positions in [0, 1] without the two ends of the table, since both are nearly black."""
    import cv2

    levels = np.ascontiguousarray(np.rint(14 + 230 * (1 - position)), np.uint8)
    return np.array(cv2.applyColorMap(levels, cv2.COLORMAP_TURBO)[..., ::-1], np.uint8)
