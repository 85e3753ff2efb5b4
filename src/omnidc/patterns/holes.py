"""Holes of sensors: rectangles, depths out of range, and pixels that a depth camera cannot measure."""

from __future__ import annotations

import cv2
import numpy as np

from omnidc.errors import InputError
from omnidc.patterns.numbers import Number, fraction, whole
from omnidc.patterns.sample import (
    Depth,
    Image,
    Mask,
    Modifier,
    Pattern,
    SparseSample,
    is_outlier,
    masked,
    median_depth,
    sanitize,
)


def rectangle(shape: tuple[int, int], size: tuple[float, float], rng: np.random.Generator) -> tuple[slice, slice]:
    """Draw a rectangle at random within the picture, `size` its sides as parts of the picture's (rows, columns)."""
    (h, w), (tall, wide) = shape, size
    bh, bw = int(h * tall), int(w * wide)
    y, x = rng.integers(0, max(h - bh, 1)), rng.integers(0, max(w - bw, 1))
    return slice(y, y + bh), slice(x, x + bw)


def hole(size: Number = (0.3, 0.7)) -> Modifier:
    """Make a modifier: no measurement in one rectangle, sides as parts of the picture's, each drawn from `size`.

    May leave nothing where there were few points.
    """
    return blocks(1, size)


def blocks(count: Number = (1, 8), size: Number = (0.05, 0.3)) -> Modifier:
    """Make a modifier: no measurement in several rectangles, which may overlap; `size` as in `hole`."""
    number, side = whole(count, "The number of blocks"), fraction(size, "The size of a hole")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        h, w = depth.shape
        kept = np.ones((h, w), np.bool_)
        for _ in range(number.integer(rng)):
            kept[rectangle((h, w), (side.draw(rng), side.draw(rng)), rng)] = False
        return masked(sample, kept)

    return apply


def limit_range(far: Number = (0.4, 0.9), near: Number = 0.0) -> Modifier:
    """Make a modifier: a sensor of limited range, whose limits are quantiles of the scene's depth.

    far: nothing is measured beyond this quantile; near: nor nearer than this one.
    """
    upper, lower = fraction(far, "The far limit of crop"), fraction(near, "The near limit of crop")

    def apply(sample: SparseSample, depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        limits = [lower.draw(rng), upper.draw(rng)]
        known = depth[depth > 0]
        if not known.size:
            return sample
        # Some 20 000 pixels are plenty for a limit that is random anyway.
        nearest, farthest = np.quantile(known[:: max(known.size // 20_000, 1)], limits)
        return masked(sample, (sample.sparse >= nearest) & (sample.sparse <= farthest))

    return apply


def depth_camera() -> Pattern:
    """Make a pattern: a stereo or structured-light camera. Dense, its disparity in steps, with holes

    - at edges: both sides of a depth edge, and the shadow beside near objects that one of its two eyes cannot see;
    - in the dark: where the photograph is (nearly) black, and where it is saturated;
    - at glass: evenly colored regions that return nothing, or the depth of something behind (flagged).

    Each kind is drawn at random, and all may be absent.
    """

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        if image.shape != (*depth.shape, 3) or image.dtype != np.uint8:
            raise InputError(
                f"A depth camera needs a uint8 image of {depth.shape[0]}x{depth.shape[1]} with 3 channels."
            )
        kept = depth > 0
        measured = quantized_disparity(depth, rng.uniform(0.0005, 0.01), rng)
        for _ in range(rng.integers(0, 4)):
            glass = glass_region(image, rng)
            if rng.random() < 0.7:
                kept &= ~glass
            else:
                measured = np.where(glass, measured * np.float32(rng.uniform(1.1, 2.0)), measured)
        if rng.random() < 0.8:
            kept &= ~occlusion_mask(depth, rng)
        if rng.random() < 0.8:
            kept &= ~exposure_mask(image, rng)
        sparse = np.where(kept, measured, np.float32(0))
        return SparseSample(sparse, is_outlier(sparse, depth))

    return draw


def quantized_disparity(depth: Depth, step: float, rng: np.random.Generator) -> Depth:
    """Round the inverse of depth to multiples of `step` / median, after noise of half a step; 0 = too far."""
    unit = median_depth(depth)
    inverse = np.divide(unit, depth, out=np.zeros_like(depth), where=depth > 0)
    steps = np.rint(inverse / np.float32(step) + 0.25 * rng.standard_normal(depth.shape, np.float32))
    return np.divide(np.float32(unit / step), steps, out=np.zeros_like(depth), where=(steps > 0) & (depth > 0))


def occlusion_mask(depth: Depth, rng: np.random.Generator, jump: float = 1.05) -> Mask:
    """Return the pixels beside a depth edge (ratio > `jump` within 3×3), and a shadow on the side away from one eye."""
    far = np.where(depth > 0, depth, np.float32(0))
    near = np.where(depth > 0, depth, np.float32(np.inf))
    square = np.ones((3, 3), np.uint8)
    edge = ((cv2.dilate(far, square) / jump > cv2.erode(near, square)) & (depth > 0)).astype(np.uint8)
    reach = max(round(depth.shape[1] / 320), 1)
    radius = int(rng.integers(0, 2 * reach + 1))
    shadow = int(rng.integers(0, 6 * reach + 1))
    wide = cv2.dilate(edge, np.ones((2 * radius + 1, 2 * radius + 1), np.uint8))
    anchor = (0, 0) if rng.random() < 0.5 else (shadow, 0)
    return cv2.dilate(wide, np.ones((1, shadow + 1), np.uint8), anchor=anchor) > 0


def exposure_mask(image: Image, rng: np.random.Generator) -> Mask:
    """Return the pixels darker than a random limit, ragged at its rim, and saturated ones."""
    gray = cv2.blur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (5, 5))
    h, w = gray.shape
    coarse = rng.uniform(-10, 10, (max(h // 8, 1), max(w // 8, 1))).astype(np.float32)
    ragged = gray + cv2.resize(coarse, (w, h), interpolation=cv2.INTER_LINEAR)
    return (ragged < rng.uniform(-10, 50)) | (gray >= rng.uniform(235, 256))


def glass_region(image: Image, rng: np.random.Generator, largest: float = 0.2) -> Mask:
    """Return a connected region of even color around a random pixel; a rectangle where that is nearly everything."""
    h, w = image.shape[:2]
    seed = (int(rng.integers(w)), int(rng.integers(h)))
    tolerance = (float(rng.uniform(2, 8)),) * 3
    mask = np.zeros((h + 2, w + 2), np.uint8)
    flags = 4 | (255 << 8) | cv2.FLOODFILL_MASK_ONLY
    area, *_ = cv2.floodFill(np.ascontiguousarray(image), mask, seed, (0, 0, 0), tolerance, tolerance, flags)
    if area <= largest * h * w:
        return cv2.dilate(mask[1:-1, 1:-1], np.ones((3, 3), np.uint8)) > 0
    region = np.zeros((h, w), np.bool_)
    region[rectangle((h, w), (rng.uniform(0.1, 0.4), rng.uniform(0.1, 0.4)), rng)] = True
    return region
