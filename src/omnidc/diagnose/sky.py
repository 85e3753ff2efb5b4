"""The sky of a photograph by day: bright or blue, smooth, reaching the top of the image."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

MIN_SHARE = 0.015  # of the image: smaller regions are not called sky
SMOOTH = 7.0  # mean gradient (8-bit steps per pixel) of the sky's surroundings
BRIGHT = 175  # least brightness of an overcast sky, 0 to 255
GRAY = 60  # largest difference of its channels
BLUE = 12  # by how much blue exceeds red in a clear sky
BLUE_BRIGHT = 80  # its least brightness
LONG_SIDE = 480  # pixels at which the sky is looked for


def sky_mask(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return the sky [H, W], empty where none is found. Night skies are not recognized."""
    height, width = image.shape[:2]
    scale = min(1.0, LONG_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = cv2.GaussianBlur(cv2.resize(image, size, interpolation=cv2.INTER_AREA), (0, 0), 1.0).astype(np.float32)
    red, green, blue = small[..., 0], small[..., 1], small[..., 2]
    brightness, darkest = small.max(axis=2), small.min(axis=2)
    overcast = (brightness > BRIGHT) & (brightness - darkest < GRAY) & (blue > red - 8)
    clear = (blue > red + BLUE) & (blue > green - 4) & (brightness > BLUE_BRIGHT)
    gradient = np.abs(cv2.Sobel(small, cv2.CV_32F, 1, 0)).max(axis=2) + np.abs(cv2.Sobel(small, cv2.CV_32F, 0, 1)).max(
        axis=2
    )
    smooth = cv2.blur(gradient / 8, (5, 5)) < SMOOTH
    candidate = ((overcast | clear) & smooth).astype(np.uint8)
    _, labels = cv2.connectedComponents(candidate)
    touching = np.unique(labels[: max(1, size[1] // 50)])
    sky = np.isin(labels, touching[touching > 0])
    if sky.mean() < MIN_SHARE:
        return np.zeros((height, width), np.bool_)
    return np.asarray(cv2.resize(sky.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0)
