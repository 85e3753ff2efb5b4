"""Automotive radar: few returns, good in range, poor in angle (worst in elevation), and ghosts."""

from __future__ import annotations

import math

import numpy as np

from omnidc.patterns.numbers import Number, fraction, whole
from omnidc.patterns.sample import Depth, Image, Pattern, SparseSample, is_outlier, sanitize
from omnidc.patterns.zbuffer import nearest_into

RANGE_ERROR = 0.01  # standard deviation, part of the depth


def radar(count: Number = (20, 300), ghosts: Number = (0.0, 0.5)) -> Pattern:
    """Make a pattern: `count` returns (at any resolution) from random known pixels, each drawn into the wrong pixel.

    Angular noise per frame: σ of 0–2 % of the width sideways, 0–8 % of the height up and down. The part `ghosts` of the
    returns comes from reflections, or from things that radar sees through, under or around what the camera sees: five
    in six are 1.1–4 times as far, the rest 0.3–0.8 times as near. Returns that leave the picture, or land where the
    truth is unknown, are lost; of two in one pixel the nearer stays.
    """
    number, part = whole(count, "The number of radar returns"), fraction(ghosts, "The part of ghosts")

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        h, w = depth.shape
        known = np.flatnonzero(depth)
        if not known.size:
            return SparseSample(np.zeros_like(depth), np.zeros(depth.shape, np.bool_))
        at = rng.choice(known, max(number.integer(rng), 1))
        n = at.size
        sigma_x, sigma_y = rng.uniform(0, 0.02) * w, rng.uniform(0, 0.08) * h
        v = at // w + sigma_y * rng.standard_normal(n)
        u = at % w + sigma_x * rng.standard_normal(n)
        factor = np.exp(RANGE_ERROR * rng.standard_normal(n))
        ghost = rng.random(n) < part.draw(rng)
        beyond = rng.random(n) < 5 / 6
        far = np.exp(rng.uniform(math.log(1.1), math.log(4), n))
        factor = np.where(ghost, np.where(beyond, far, rng.uniform(0.3, 0.8, n)), factor)
        values = (depth.ravel()[at] * factor).astype(np.float32)
        sparse = np.where(depth > 0, nearest_into((h, w), v, u, values), np.float32(0))
        return SparseSample(sparse, is_outlier(sparse, depth))

    return draw
