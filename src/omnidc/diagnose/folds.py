"""Hide measurements in blocks, so that errors can be measured where the truth is known: at the user's own points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from omnidc.errors import InputError

Map = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

FOLDS = 5
HIDDEN_SHARE = 0.1  # of the measurements, in each fold
MIN_POINTS = 30  # a tenth of fewer says nothing
LARGEST_BLOCK = 0.25  # of the image's shorter side


@dataclass(frozen=True)
class Fold:
    """One choice of hidden measurements."""

    hidden: Mask  # [H, W], measurements that the completer does not get
    block: npt.NDArray[np.int32]  # [H, W], number of the block that each pixel lies in
    side: int  # of a block, pixels


def block_folds(
    sparse: Map,  # [H, W], 0 = no measurement
    rng: np.random.Generator,
    folds: int = FOLDS,
    share: float = HIDDEN_SHARE,
) -> list[Fold]:
    """Hide `share` of the measurements in square blocks; the blocks grow from fold to fold.

    The smallest block is as wide as the mean spacing of the points, the largest a quarter of the image's shorter side,
    so that the hidden points lie at gaps of every size from a single point to a large hole.
    """
    measured = sparse > 0
    count = int(measured.sum())
    if count < MIN_POINTS:
        raise InputError(f"Errors cannot be measured on {count} points: at least {MIN_POINTS} are needed.")
    if folds < 1 or not 0 < share < 1:
        raise InputError(f"Give at least 1 fold and a hidden share between 0 and 1, not {folds} and {share:g}.")
    largest = max(2.0, LARGEST_BLOCK * min(sparse.shape))
    smallest = float(np.clip(point_spacing(measured), 2.0, largest))
    sides = np.geomspace(smallest, largest, folds) if folds > 1 else np.array([smallest])
    return [_hide_blocks(measured, round(side), share, rng) for side in sides]


def point_spacing(measured: Mask) -> float:
    """Return the mean distance of neighboring points, pixels: √(area of their bounding box / count)."""
    rows, columns = np.nonzero(measured)
    if not len(rows):
        return float("inf")
    return float(np.sqrt((np.ptp(rows) + 1) * (np.ptp(columns) + 1) / len(rows)))


def gap_size(measured: Mask) -> Map:
    """Return the distance of each pixel from the nearest measurement, pixels; infinite where there is none."""
    if not measured.any():
        return np.full(measured.shape, np.inf, np.float32)
    return np.asarray(distance_transform_edt(~measured), np.float32)


def _hide_blocks(measured: Mask, side: int, share: float, rng: np.random.Generator) -> Fold:
    # A random origin, so that the grid is not the same in every fold.
    top, left = int(rng.integers(side)), int(rng.integers(side))
    across = (measured.shape[1] + left) // side + 1
    rows, columns = np.arange(measured.shape[0])[:, None], np.arange(measured.shape[1])[None]
    block = ((rows + top) // side * across + (columns + left) // side).astype(np.int32)
    counts = np.bincount(block[measured], minlength=int(block.max()) + 1)
    order = rng.permutation(np.flatnonzero(counts))
    total = np.cumsum(counts[order])
    # The last block that does not exceed the share; at least one, and never all of them.
    chosen = order[: max(1, int(np.searchsorted(total, share * total[-1], side="right")))][: max(1, len(order) - 1)]
    hidden = measured & np.isin(block, chosen)
    if hidden.sum() == measured.sum():  # all points lie in one block: hide those on its left
        points = np.argwhere(measured)
        points = points[np.argsort(points[:, 1], kind="stable")][: max(1, round(share * len(points)))]
        hidden = np.zeros_like(measured)
        hidden[tuple(points.T)] = True
    return Fold(hidden, block, side)
