"""A map that was computed at a smaller size, brought to the size of its photograph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatMap = npt.NDArray[np.float32]


EDGE = 1.03  # ratio of the largest and smallest value of neighboring cells from which they are no one surface
SAME_COLOR = 12.0  # of 255 (one standard deviation)
SAME_PLACE = 0.6  # cells (one standard deviation)


def enlarge(
    values: FloatMap,  # [h, w] > 0
    shape: tuple[int, ...],  # height, width; at least as large
) -> FloatMap:
    """Interpolate the logarithm between the cells."""
    import cv2

    if values.shape == shape:
        return values
    large = cv2.resize(np.log(values), shape[::-1], interpolation=cv2.INTER_LINEAR)
    return np.exp(large).astype(np.float32, copy=False)


def enlarge_depth(
    depth: FloatMap,  # [h, w] > 0
    image: npt.NDArray[np.uint8],  # [H, W, 3], at least as large
) -> FloatMap:  # [H, W]
    """Interpolate the logarithm: between cells on a surface, and among cells of the pixel's own color at its edges.

    Plain interpolation would draw a ramp over every edge, as wide as a cell, where photographs have none.
    """
    import cv2

    height, width = image.shape[:2]
    if depth.shape == (height, width):
        return depth
    large = enlarge(depth, (height, width))
    square = np.ones((3, 3), np.uint8)
    edge = (cv2.dilate(depth, square) > EDGE * cv2.erode(depth, square)).astype(np.uint8)
    rows, columns = np.nonzero(cv2.resize(edge, (width, height), interpolation=cv2.INTER_NEAREST_EXACT))
    large[rows, columns] = np.exp(_among_alike(np.log(depth), image, rows, columns))
    return large


def _among_alike(
    log: FloatMap,  # [h, w]
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    rows: npt.NDArray[np.intp],  # [N], pixels of the image
    columns: npt.NDArray[np.intp],  # [N]
) -> FloatMap:  # [N]
    """Return, at some pixels, the mean of the nine cells around, weighted by how near they are in place and color."""
    import cv2

    (h, w), (H, W) = log.shape, image.shape[:2]
    cells = cv2.resize(image, (w, h), interpolation=cv2.INTER_AREA).astype(np.float32)
    color = image[rows, columns].astype(np.float32)
    y, x = ((rows + 0.5) * h / H - 0.5).astype(np.float32), ((columns + 0.5) * w / W - 0.5).astype(np.float32)
    middle_y, middle_x = np.rint(y).astype(int), np.rint(x).astype(int)
    total, weights = np.zeros(len(rows), np.float32), np.zeros(len(rows), np.float32)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            v, u = np.clip(middle_y + dy, 0, h - 1), np.clip(middle_x + dx, 0, w - 1)
            apart = np.square((cells[v, u] - color) / SAME_COLOR).sum(axis=1)
            apart += (np.square(v - y) + np.square(u - x)) / np.float32(SAME_PLACE**2)
            # a pixel of no cell's color takes them by their place alone
            weight = np.exp(-0.5 * np.minimum(apart, 100)).astype(np.float32)
            total += weight * log[v, u]
            weights += weight
    return total / weights
