"""Measurements that are wrong, and how they come about without any geometry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from omnidc.patterns.numbers import Number, fraction
from omnidc.patterns.sample import Depth, Image, Modifier, SparseSample, checked, wrong


def depth_range(depth: Depth, released: bool = False) -> tuple[float, float]:
    """The 5th and 95th percentile of the known depths; the release: 10th and 90th of all pixels, unknown zeros too."""
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
    """`sparse` with each of the pixels `at` replaced, with probability `rate`, by U(depth range)."""
    bad = at[rng.random(at.size) < rate]
    out = sparse.copy().reshape(-1)
    out[bad] = rng.uniform(*depth_range(depth, released), bad.size) if bad.size else 0
    return out.reshape(depth.shape)


def outliers(rate: Number = (0.0, 0.05), released: bool = False) -> Modifier:
    """Modifier: each measurement is replaced, with probability `rate`, by a depth drawn evenly from the scene's range.

    A value that happens to fall within the tolerance of the truth is not flagged.
    """
    probability = fraction(rate, "The rate of noise")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = checked(depth)
        p = probability.draw(rng)
        sparse = replace(sample.sparse, np.flatnonzero(sample.sparse), depth, p, rng, released)
        return SparseSample(sparse, wrong(sparse, depth, released))

    return apply


def jitter(sigma: Number = (0.0, 0.02)) -> Modifier:
    """Modifier: every measurement times exp(N(0, sigma)), sigma drawn per frame; the small error of a real sensor."""
    spread = fraction(sigma, "The spread of jitter")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = checked(depth)
        s = spread.draw(rng)
        at = np.flatnonzero(sample.sparse)
        factor = np.ones(depth.size, np.float32)
        factor[at] = np.exp(s * rng.standard_normal(at.size))
        sparse = sample.sparse * factor.reshape(depth.shape)
        return SparseSample(sparse, wrong(sparse, depth))

    return apply


def dropout(rate: Number = (0.0, 0.5)) -> Modifier:
    """Modifier: each measurement is lost with probability `rate`, drawn per frame; one of them stays in any case."""
    probability = fraction(rate, "The rate of drop")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        p = probability.draw(rng)
        at = np.flatnonzero(sample.sparse)
        lost = rng.random(at.size) < p
        if at.size and lost.all():
            lost[rng.integers(at.size)] = False
        sparse, noise = sample.sparse.copy().reshape(-1), sample.noise.copy().reshape(-1)
        sparse[at[lost]] = 0
        noise[at[lost]] = False
        return SparseSample(sparse.reshape(depth.shape), noise.reshape(depth.shape))

    return apply
