"""The result of every pattern, and the few steps that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnidc.errors import InputError

Depth = NDArray[np.float32]  # [H, W], any unit, 0 = unknown
Image = NDArray[np.uint8]  # [H, W, 3], RGB
Mask = NDArray[np.bool_]  # [H, W]

# A measurement is wrong when it is off by more than this part of the true depth. At the median depth it is the
# threshold of the released code (0.1 after division by the median).
TOLERANCE = 0.1


@dataclass(frozen=True)
class SparseSample:
    """Simulated measurements of one frame.

    outlier_mask: measurements that the sensor got wrong (outlier, bleeding, ghost, glass), by the rule of `is_outlier`:
    a wrong one within a tenth of the true depth is none.

    >>> from omnidc.patterns import parse
    >>> depth, image = np.full((48, 64), 3.0, np.float32), np.zeros((48, 64, 3), np.uint8)
    >>> sample = parse("lidar-8")(depth, image, np.random.default_rng(0))
    >>> sample.sparse.shape, int(sample.outlier_mask.sum())
    ((48, 64), 0)
    """

    sparse: NDArray[np.float32]  # [H, W], 0 = no measurement
    outlier_mask: NDArray[np.bool_]  # [H, W]


Pattern = Callable[[Depth, Image, np.random.Generator], SparseSample]
"""(depth, image, rng) → measurements."""

Modifier = Callable[[SparseSample, Depth, Image, np.random.Generator], SparseSample]
"""(measurements so far, depth, image, rng) → fewer or worse measurements."""


def sanitize(depth: NDArray[np.floating]) -> Depth:
    """Return `depth` as float32 [H, W] with unknown (0, negative, NaN, ±Inf) as 0; the input is not changed."""
    if depth.ndim != 2:
        raise InputError(f"A pattern is drawn from a depth map [H, W], not from an array of shape {list(depth.shape)}.")
    depth = np.asarray(depth, np.float32)
    if depth.size and depth.min() >= 0 and depth.max() < np.inf:  # both False where there is a NaN
        return depth
    return np.where((depth > 0) & (depth < np.inf), depth, np.float32(0))


def median_depth(depth: Depth) -> float:
    """Return the median of the known depths; 1 where there are none."""
    known = depth[depth > 0]
    return float(np.median(known)) if known.size else 1.0


def is_outlier(sparse: NDArray[np.float32], depth: Depth, released: bool = False) -> Mask:
    """Return the measurements that contradict the true depth: |sparse − depth| > 0.1 depth, too near or too far alike.

    A measurement where the truth is unknown counts as wrong. The release flags only those too far: sparse − depth >
    0.1 median.
    """
    if released:
        too_far: Mask = (sparse > 0) & (sparse - depth > TOLERANCE * median_depth(depth))
        return too_far
    off: Mask = (sparse > 0) & (np.abs(sparse - depth) > TOLERANCE * depth)
    return off


def sample_at(depth: Depth, chosen: Mask) -> SparseSample:
    """Return the true depth at the chosen pixels, as far as it is known."""
    return SparseSample(np.where(chosen, depth, np.float32(0)), np.zeros(depth.shape, np.bool_))


def masked(sample: SparseSample, kept: Mask) -> SparseSample:
    """Return `sample` with only the measurements at `kept` pixels."""
    return SparseSample(np.where(kept, sample.sparse, np.float32(0)), sample.outlier_mask & kept)
