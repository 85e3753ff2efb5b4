"""What a user should know of a frame before it is completed: how many points, how far, in which unit, what is odd."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.frame import Frame

FEW_POINTS = 100


def point_warnings(sparse: npt.NDArray[np.float32]) -> list[str]:
    """Return sentences on measurements that are too few or too crowded to carry a whole image."""
    rows, columns = np.nonzero(sparse > 0)
    if len(rows) == 0:
        return ["no points: only relative depth is possible"]
    found = []
    if len(rows) < FEW_POINTS:
        found.append(f"few points ({len(rows)}): expect a rough result")
    # The box that holds the middle 90 % of the points in each direction.
    height, width = sparse.shape
    box = (np.ptp(np.quantile(rows, [0.05, 0.95])) + 1) * (np.ptp(np.quantile(columns, [0.05, 0.95])) + 1)
    share = float(box) / (height * width)
    if share < 0.15:
        across = "left" if np.median(columns) < width / 2 else "right"
        down = "upper" if np.median(rows) < height / 2 else "lower"
        found.append(f"points cover only {share:.0%} of the image ({down} {across}): depth elsewhere is a guess")
    return found


def describe(frame: Frame) -> str:
    """Return one line: name, points, smallest, median and largest depth with the unit."""
    if frame.sparse is None or not (frame.sparse > 0).any():
        return f"{frame.name}: no points"
    values = frame.sparse[frame.sparse > 0]
    low, middle, high = float(values.min()), float(np.median(values)), float(values.max())
    unit = "scene units" if frame.unit == "scene" else frame.unit
    return f"{frame.name}: {len(values)} points, depth {low:.3g} / {middle:.3g} / {high:.3g} {unit} (min/median/max)"
