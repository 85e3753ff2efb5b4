"""Measurements that are wrong, and how they come about without any geometry."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from omnidc.patterns.numbers import Number, fraction, whole
from omnidc.patterns.sample import Depth, Image, Modifier, SparseSample, is_outlier, sanitize


def depth_range(depth: Depth, released: bool = False) -> tuple[float, float]:
    """Return the 5th and 95th percentile of the known depths; the release: 10th and 90th with unknown zeros."""
    values = depth.ravel() if released else depth[depth > 0]
    if not values.size:
        return 0.0, 0.0
    low, high = np.percentile(values, [10, 90] if released else [5, 95])
    return float(low), float(high)


def replace(
    sparse: NDArray[np.float32],  # [H, W]
    at: NDArray[np.intp],  # [N], flat indices of the pixels that may be hit
    depth: Depth,
    rate: float,
    rng: np.random.Generator,
    released: bool = False,
) -> NDArray[np.float32]:
    """Replace each of the pixels `at` of `sparse`, with probability `rate`, by U(depth range)."""
    bad = at[rng.random(at.size) < rate]
    out = sparse.copy().reshape(-1)
    out[bad] = rng.uniform(*depth_range(depth, released), bad.size) if bad.size else 0
    return out.reshape(depth.shape)


def outliers(rate: Number = (0.0, 0.05), released: bool = False) -> Modifier:
    """Make a modifier: each measurement is replaced, with probability `rate`, by a depth drawn from the scene's range.

    A value that happens to fall within the tolerance of the truth is not flagged.
    """
    probability = fraction(rate, "The rate of noise")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        p = probability.draw(rng)
        sparse = replace(sample.sparse, np.flatnonzero(sample.sparse), depth, p, rng, released)
        return SparseSample(sparse, is_outlier(sparse, depth, released))

    return apply


def jitter(sigma: Number = (0.0, 0.02)) -> Modifier:
    """Make a modifier: every measurement times exp(N(0, sigma)), sigma drawn per frame: small errors of a sensor."""
    spread = fraction(sigma, "The spread of jitter")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        s = spread.draw(rng)
        at = np.flatnonzero(sample.sparse)
        factor = np.ones(depth.size, np.float32)
        factor[at] = np.exp(s * rng.standard_normal(at.size))
        sparse = sample.sparse * factor.reshape(depth.shape)
        return SparseSample(sparse, is_outlier(sparse, depth))

    return apply


def dropout(rate: Number = (0.0, 0.5)) -> Modifier:
    """Make a modifier: each measurement is lost with probability `rate`, drawn per frame; at least one stays."""
    probability = fraction(rate, "The rate of drop")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        p = probability.draw(rng)
        at = np.flatnonzero(sample.sparse)
        lost = rng.random(at.size) < p
        if at.size and lost.all():
            lost[rng.integers(at.size)] = False
        sparse, mask = sample.sparse.copy().reshape(-1), sample.outlier_mask.copy().reshape(-1)
        sparse[at[lost]] = 0
        mask[at[lost]] = False
        return SparseSample(sparse.reshape(depth.shape), mask.reshape(depth.shape))

    return apply


def spikes(count: Number = (1, 5)) -> Modifier:
    """Make a modifier: single measurements 1.5 to 10 times as far or as near as the truth; at most half of all."""
    number = whole(count, "The number of spikes")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        at = np.flatnonzero(sample.sparse)
        at = rng.choice(at, min(number.integer(rng), at.size // 2), replace=False) if at.size > 1 else at[:0]
        sign = np.where(rng.random(at.size) < 0.5, -1.0, 1.0)
        sparse = sample.sparse.copy().reshape(-1)
        sparse[at] *= np.exp(sign * rng.uniform(math.log(1.5), math.log(10), at.size)).astype(np.float32)
        result = sparse.reshape(depth.shape)
        return SparseSample(result, is_outlier(result, depth))

    return apply


def speckle(rate: Number = (0.0, 0.02)) -> Modifier:
    """Make a modifier: about `rate` of the pixels has any depth of the scene, in spots of 1 to 4 pixels a side."""
    part = fraction(rate, "The rate of speckle")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        p, side = part.draw(rng), int(rng.integers(1, 5))
        seeds = rng.random(depth.shape) < p / side**2
        values = np.where(seeds, rng.uniform(*depth_range(depth), depth.shape), 0).astype(np.float32)
        spots = cv2.dilate(values, np.ones((side, side), np.uint8))
        sparse = np.where((sample.sparse > 0) & (spots > 0), spots, sample.sparse).astype(np.float32, copy=False)
        return SparseSample(sparse, is_outlier(sparse, depth))

    return apply
