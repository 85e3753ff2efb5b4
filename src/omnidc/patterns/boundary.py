"""Measurements at depth edges, where a beam or a pixel covers two surfaces."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from omnidc.patterns.numbers import Number, fraction
from omnidc.patterns.sample import Depth, Image, Modifier, SparseSample, is_outlier, sanitize

EDGE_RATIO = 1.05  # of two depths within the footprint, beyond which they are two surfaces


def near_and_far(depth: Depth, radius: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the smallest and the largest known depth within `radius` pixels; both 0 where nothing is known."""
    window = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    far = np.asarray(cv2.dilate(depth, window), np.float32)
    near = np.asarray(cv2.erode(np.where(depth > 0, depth, np.float32(np.inf)), window), np.float32)
    return np.where(far > 0, near, np.float32(0)), far


def mixed(rate: Number = (0.0, 0.5), second: Number = (0.0, 0.3)) -> Modifier:
    """Make a modifier: the part `rate` of the measurements at depth edges is of the other surface, or of neither.

    A footprint of 1 to 3 pixels (at a width of 320) covers both surfaces. A third of the affected measurements returns
    the near one, a third the far one, the rest a depth between them: the flying pixels of a depth camera, the beams of
    a LiDAR that graze an outline. The part `second` of the measurements at edges has a second return: the other
    surface, in the next pixel.
    """
    affected, doubled = fraction(rate, "The rate of mixed"), fraction(second, "The part of second returns")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        reach = max(round(depth.shape[1] / 320), 1)
        near, far = near_and_far(depth, int(rng.integers(1, 3 * reach + 1)))
        at = np.flatnonzero((sample.sparse > 0) & (far > EDGE_RATIO * near))
        p, q = affected.draw(rng), doubled.draw(rng)
        low, high = near.ravel()[at].astype(np.float64), far.ravel()[at].astype(np.float64)
        kind, blend = rng.integers(0, 3, at.size), rng.random(at.size)
        value = np.choose(kind, [low, high, low * (high / low) ** blend])
        sparse = sample.sparse.copy().reshape(-1)
        hit = rng.random(at.size) < p
        sparse[at[hit]] = value[hit]
        twice = rng.random(at.size) < q
        beside = at[twice] + (1 if rng.random() < 0.5 else -1)
        other = np.where(sparse[at[twice]] > np.sqrt(low * high)[twice], low[twice], high[twice])
        free = (beside // depth.shape[1] == at[twice] // depth.shape[1]) & (beside >= 0) & (beside < depth.size)
        beside, other = beside[free], other[free]
        empty = (sparse[beside] == 0) & (depth.ravel()[beside] > 0)
        sparse[beside[empty]] = other[empty]
        result = sparse.reshape(depth.shape)
        return SparseSample(result, is_outlier(result, depth))

    return apply
