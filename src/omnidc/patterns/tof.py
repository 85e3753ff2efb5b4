"""Time of flight on few pixels: a grid of zones, coarse and quantized, or that of a phone, fine and smooth."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from omnidc.patterns.boundary import near_and_far
from omnidc.patterns.numbers import Number, whole
from omnidc.patterns.sample import Depth, Image, Pattern, SparseSample, is_outlier, median_depth, sanitize


def zone_means(depth: Depth, rows: int, columns: int) -> NDArray[np.float32]:  # [rows, columns]
    """Return the mean of the known depths of each zone; 0 where there are none. Zones share the picture evenly."""
    known = (depth > 0).astype(np.float32)
    size = (columns, rows)
    part = cv2.resize(known, size, interpolation=cv2.INTER_AREA)
    total = cv2.resize(depth, size, interpolation=cv2.INTER_AREA)
    return np.divide(total, part, out=np.zeros_like(total), where=part > 1e-6)


def tof(rows: Number = (8, 64)) -> Pattern:
    """Make a pattern: a grid of `rows` zones from top to bottom and as many across as keeps them square.

    Per frame, a zone measures either the depth at its center or the mean of its pixels (at depth edges that is a
    surface that does not exist, and flagged), in steps of 0.1–2 % of the median depth. It stands at the zone's center
    pixel; none where the truth there is unknown.
    """
    number = whole(rows, "The number of rows of tof")

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        h, w = depth.shape
        zones_y = min(max(number.integer(rng), 1), h)
        zones_x = min(max(round(zones_y * w / h), 1), w)
        mixed = rng.random() < 0.5
        step = np.float32(rng.uniform(0.001, 0.02) * median_depth(depth))
        v = ((np.arange(zones_y) + 0.5) * h / zones_y).astype(np.intp)[:, None]
        u = ((np.arange(zones_x) + 0.5) * w / zones_x).astype(np.intp)[None]
        sampled = depth[v, u]
        value = zone_means(depth, zones_y, zones_x) if mixed else sampled
        value = np.maximum(np.rint(value / step), 1) * step
        sparse = np.zeros_like(depth)
        sparse[v, u] = np.where(sampled > 0, value, np.float32(0))
        return SparseSample(sparse, is_outlier(sparse, depth))

    return draw


def phone(rows: Number = (48, 192)) -> Pattern:
    """Make a pattern: the depth map of a phone's LiDAR (192×256), smooth: edges are blurred over 0.5 to 2 pixels.

    `rows` zones from top to bottom; a crop of a picture has fewer than the whole. In half of the frames zones beside a
    depth edge are missing, as with low confidence filtered out. The small error of a zone is 0.5 %.
    """
    number = whole(rows, "The number of rows of phone")

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        h, w = depth.shape
        zones_y = min(max(number.integer(rng), 1), h)
        zones_x = min(max(round(zones_y * w / h), 1), w)
        sigma, filtered = rng.uniform(0.5, 2.0), rng.random() < 0.5
        zones = zone_means(depth, zones_y, zones_x)
        known = (zones > 0).astype(np.float32)
        weight = cv2.GaussianBlur(known, (0, 0), sigma)
        value = cv2.GaussianBlur(zones, (0, 0), sigma) / np.maximum(weight, 1e-6)
        value = value * np.exp(0.005 * rng.standard_normal(zones.shape)) * known
        if filtered:
            near, far = near_and_far(zones, 1)
            value[far > 1.1 * near] = 0
        v = ((np.arange(zones_y) + 0.5) * h / zones_y).astype(np.intp)[:, None]
        u = ((np.arange(zones_x) + 0.5) * w / zones_x).astype(np.intp)[None]
        sparse = np.zeros_like(depth)
        sparse[v, u] = np.where(depth[v, u] > 0, value, 0)
        return SparseSample(sparse, is_outlier(sparse, depth))

    return draw
