"""Defects that come in patches: ghosts, hidden points, clusters, materials that defeat a sensor."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from omnidc.errors import InputError
from omnidc.patterns.boundary import near_and_far
from omnidc.patterns.holes import exposure_mask, glass_region
from omnidc.patterns.numbers import Number, fraction, whole
from omnidc.patterns.sample import Depth, Image, Modifier, SparseSample, is_outlier, masked, sanitize


def smooth_field(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return a smooth random map [H, W] with 3 to 8 bumps along the height."""
    height, width = shape
    rows = int(rng.integers(3, 9))
    columns = max(round(rows * width / height), 1)
    coarse = rng.standard_normal((rows, columns), np.float32)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.float32)


def highest(
    field: NDArray[np.float32],  # [H, W]
    at: NDArray[np.intp],  # [N], flat indices
    share: float,
) -> NDArray[np.intp]:
    """Return the `share` of the pixels `at` where `field` is highest: they lie in patches."""
    count = round(share * at.size)
    if not count:
        return at[:0]
    return at[np.argsort(-field.ravel()[at], kind="stable")[:count]]


def ghosts(rate: Number = (0.0, 0.1)) -> Modifier:
    """Make a modifier: the part `rate` of the measurements, in patches, lies 1.15 to 3 times as far, as in mirrors.

    All of a frame's ghosts have one factor, so that neighbors agree with each other and contradict the rest.
    """
    part = fraction(rate, "The part of ghosts")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        field = smooth_field(depth.shape, rng)
        factor = math.exp(rng.uniform(math.log(1.15), math.log(3)))
        sparse = sample.sparse.copy().reshape(-1)
        at = highest(field, np.flatnonzero(sparse), part.draw(rng))
        sparse[at] *= np.float32(factor)
        result = sparse.reshape(depth.shape)
        return SparseSample(result, is_outlier(result, depth))

    return apply


def hidden(rate: Number = (0.0, 0.5)) -> Modifier:
    """Make a modifier: points of a surface behind, which another view saw and which a near surface hides in this one.

    Of the measurements with a surface at least 1.1 times as far within 3 to 15 % of the width, the part `rate`, in
    patches, has the depth of that surface.
    """
    part = fraction(rate, "The part of hidden points")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        radius = max(round(rng.uniform(0.03, 0.15) * depth.shape[1]), 1)
        field, p = smooth_field(depth.shape, rng), part.draw(rng)
        _, far = near_and_far(depth, radius)
        at = highest(field, np.flatnonzero((sample.sparse > 0) & (depth > 0) & (far > 1.1 * depth)), p)
        sparse = sample.sparse.copy().reshape(-1)
        sparse[at] = far.ravel()[at] * np.exp(0.02 * rng.standard_normal(at.size))
        result = sparse.reshape(depth.shape)
        return SparseSample(result, is_outlier(result, depth))

    return apply


def clusters(share: Number = (0.05, 0.5)) -> Modifier:
    """Make a modifier: only the part `share` of the measurements stays, in patches, at least one of them."""
    part = fraction(share, "The share of clusters")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        field, p = smooth_field((depth.shape[0], depth.shape[1]), rng), part.draw(rng)
        at = np.flatnonzero(sample.sparse)
        kept = np.zeros(depth.size, np.bool_)
        kept[highest(field, at, max(p, 1 / max(at.size, 1)))] = True
        return masked(sample, kept.reshape(depth.shape))

    return apply


def materials(count: Number = (1, 3)) -> Modifier:
    """Make a modifier: evenly colored regions (glass, mirrors) lose measurements or show something behind; in half of
    the frames black and saturated pixels lose theirs, too.
    """
    number = whole(count, "The number of materials")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        if image.shape != (*depth.shape, 3) or image.dtype != np.uint8:
            raise InputError(f"Materials need a uint8 image of {depth.shape[0]}x{depth.shape[1]} with 3 channels.")
        sparse = sample.sparse
        for _ in range(number.integer(rng)):
            region, factor = glass_region(image, rng), rng.uniform(1.1, 2.0)
            sparse = np.where(region, sparse * np.float32(factor if rng.random() < 0.3 else 0), sparse)
        if rng.random() < 0.5:
            sparse = np.where(exposure_mask(image, rng), np.float32(0), sparse)
        return SparseSample(sparse, is_outlier(sparse, depth))

    return apply
