"""Pictures that show measurements and doubts over the photograph; most bad results are bad projections."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB


def turbo(
    values: npt.NDArray[np.floating],  # any shape, 0 .. 1
) -> npt.NDArray[np.uint8]:
    """Colours of Google's Turbo map, RGB, one more axis than `values`."""
    index = np.clip(np.nan_to_num(values) * 255, 0, 255).astype(np.uint8)
    table = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_TURBO)[:, 0, ::-1]
    return np.asarray(table[index], dtype=np.uint8)


def depth_colours(
    depth: npt.NDArray[np.floating],  # any shape, > 0
) -> npt.NDArray[np.uint8]:
    """Colour by inverse depth between its 2nd and 98th percentile: near is red, far is blue."""
    inverse = 1.0 / np.asarray(depth, dtype=np.float64)
    low, high = np.quantile(inverse, [0.02, 0.98]) if inverse.size else (0.0, 1.0)
    return turbo((inverse - low) / max(high - low, 1e-12))


def point_overlay(
    image: Picture,
    sparse: npt.NDArray[np.float32],  # [H, W], 0 = none
    radius: int | None = None,  # pixels; None = from the image's size and the number of points
) -> Picture:
    """Draw the measurements as dots over a greyed photograph, nearer ones on top."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    out = np.repeat((40 + 0.65 * grey.astype(np.float32)).astype(np.uint8)[..., None], 3, axis=2)
    rows, columns = np.nonzero(sparse > 0)
    if radius is None:
        spacing = (sparse.size / max(len(rows), 1)) ** 0.5
        radius = int(np.clip(round(min(spacing / 3, max(sparse.shape) / 300)), 0, 6))
    depth = sparse[rows, columns]
    colours = depth_colours(depth)
    order = np.argsort(-depth, kind="stable")
    if radius == 0:
        out[rows[order], columns[order]] = colours[order]
        return out
    for i in order:
        cv2.circle(out, (int(columns[i]), int(rows[i])), radius, colours[i].tolist(), -1, cv2.LINE_AA)
    return out


def uncertainty_overlay(
    image: Picture,
    depth: npt.NDArray[np.float32],  # [H, W] > 0
    uncertainty: npt.NDArray[np.float32],  # [H, W] > 0, Laplace scale, same unit
    full: float = 0.2,  # relative uncertainty that is drawn in full red
) -> Picture:
    """Tint the photograph where the result is doubtful: clear = sure, red = b is `full` of the depth or more."""
    doubt = np.clip(uncertainty / np.maximum(depth, 1e-12) / full, 0, 1)[..., None]
    grey = np.repeat(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2).astype(np.float32)
    red = np.array([230.0, 30.0, 20.0], dtype=np.float32)
    return np.asarray(np.clip(grey * (1 - 0.8 * doubt) + red * 0.8 * doubt, 0, 255), dtype=np.uint8)


def error_map(
    depth: npt.NDArray[np.float32],  # [H, W] > 0
    truth: npt.NDArray[np.float32],  # [H, W], 0 = unknown
    full: float = 0.2,  # relative error of the end of the scale
) -> Picture:
    """Signed relative error: blue = too near, white = right, red = too far, black = truth unknown."""
    known = truth > 0
    error = np.zeros(depth.shape, dtype=np.float64)
    np.divide(depth - truth, truth, out=error, where=known)
    t = np.clip(error / full, -1, 1)[..., None]
    white, red, blue = (np.array(c, dtype=np.float64) for c in ((255, 255, 255), (200, 30, 30), (40, 70, 200)))
    out = np.where(t > 0, white + (red - white) * t, white + (blue - white) * -t)
    out[~known] = 0
    return np.asarray(out, dtype=np.uint8)
