"""Disparity of rectified stereo pairs to depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError


@dataclass(frozen=True)
class Stereo:
    """A rectified pair of cameras."""

    baseline: float  # meters between the cameras
    focal: float  # pixels of the disparity map
    offset: float = 0.0  # pixels: cx of the right camera minus cx of the left one (Middlebury's doffs)

    def __post_init__(self) -> None:
        for name, value in (("baseline", self.baseline), ("focal length", self.focal)):
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"The {name} of a stereo pair is a positive number, not {value:g}.")
        if not math.isfinite(self.offset):
            raise InputError(f"The disparity offset is a number of pixels, not {self.offset:g}.")

    def depth(self, disparity: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:  # [H, W], pixels
        """Return z = f B / (d + offset), meters, [H, W]; 0 where d is not positive, or no number."""
        total = disparity.astype(np.float64) + self.offset
        valid = np.isfinite(disparity) & (disparity > 0) & (total > 0)
        return np.where(valid, self.focal * self.baseline / np.where(valid, total, 1), 0).astype(np.float32)
