"""Bringing a result back to its measurements: near to the trusted ones, or exactly to all (`keep_input="hard"`)."""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

# Corrections reach at most this far around a lonely measurement, in pixels (one standard deviation).
REACH = 48.0


def draw_near(
    depth: npt.NDArray[np.float32],  # [H, W] > 0
    sparse: npt.NDArray[np.float32],  # [H, W], 0 = no measurement
    narrowest: float = 1.0,
) -> npt.NDArray[np.float32]:
    """Spread the error at the measurements, as a factor on depth, over their surroundings; return the corrected depth.

    Coarse to fine: at width σ, every measurement hands log(sparse / depth) to its surroundings by a Gaussian of height
    1; where several overlap their mean counts, where none reaches nothing changes. Then σ is halved, to `narrowest`
    pixels, and what is still missing at the measurements is spread again. The first σ is the mean distance of the
    measurements: what they have in common moves whole regions, and only what they disagree in is left to the narrow
    steps. Measurements side by side are averaged at the last step, and so is their noise.
    """
    points = sparse > 0
    count = int(points.sum())
    if not count:
        return depth
    log_depth = np.log(depth)
    target = np.log(sparse[points])
    weight = points.astype(np.float32)
    sigma = min(REACH, max(1.0, math.sqrt(depth.size / count)))
    while sigma >= narrowest:
        error = np.zeros_like(log_depth)
        error[points] = target - log_depth[points]
        side = 2 * math.ceil(3 * sigma) + 1
        kernel = np.exp(-0.5 * ((np.arange(side) - side // 2) / sigma) ** 2).astype(np.float32)
        spread = cv2.sepFilter2D(error, cv2.CV_32F, kernel, kernel, borderType=cv2.BORDER_CONSTANT)
        share = cv2.sepFilter2D(weight, cv2.CV_32F, kernel, kernel, borderType=cv2.BORDER_CONSTANT)
        log_depth += spread / np.maximum(share, 1)
        sigma /= 2
    return np.exp(log_depth)


def pass_through(
    depth: npt.NDArray[np.float32],  # [H, W] > 0
    sparse: npt.NDArray[np.float32],  # [H, W], 0 = no measurement
) -> npt.NDArray[np.float32]:
    """`draw_near` down to half a pixel, and the measurements themselves in the end."""
    return np.where(sparse > 0, sparse, draw_near(depth, sparse, narrowest=0.5))
