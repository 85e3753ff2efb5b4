"""`Maps`: the outputs of a network for one frame, whatever runtime computed them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatMap = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Maps:
    """Outputs of a network for one frame, before options drop pixels; maps are [H, W]."""

    depth: FloatMap  # > 0, unit of the measurements
    uncertainty: FloatMap | None  # > 0, Laplace scale, same unit
    confidence: FloatMap  # in [0, 1], NaN where there is no measurement
    sky: FloatMap | None  # in [0, 1], probability that a pixel has no depth
    working_size: tuple[int, int]  # height, width
    iterations: int  # of the solver
    residual: float  # ‖r‖ / ‖b‖ at its end
    tile: int | None = None  # side of the tiles in pixels


def working_size(height: int, width: int, max_side: int | None) -> tuple[int, int]:
    """Return the size that an image is computed at, so that its longer side is at most `max_side`."""
    if max_side is None or max(height, width) <= max_side:
        return height, width
    factor = max_side / max(height, width)
    return max(1, round(height * factor)), max(1, round(width * factor))
