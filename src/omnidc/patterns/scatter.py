"""Random points, spread evenly over the pixels whose depth is known."""

from __future__ import annotations

import numpy as np

from omnidc.patterns.numbers import Number, span, whole
from omnidc.patterns.sample import Depth, Image, Pattern, SparseSample, sanitize

FEWEST = 5  # the release never draws fewer; asked for fewer, we do


def scatter(depth: Depth, count: int, rng: np.random.Generator) -> SparseSample:
    """Sample `count` different pixels of known depth, or all of them where there are fewer."""
    depth = sanitize(depth)
    known = np.flatnonzero(depth)
    chosen = known[rng.choice(known.size, min(max(count, 0), known.size), replace=False)] if known.size else known
    sparse = np.zeros(depth.size, np.float32)
    sparse[chosen] = depth.ravel()[chosen]
    return SparseSample(sparse.reshape(depth.shape), np.zeros(depth.shape, np.bool_))


def matched(count: int, known: int, pixels: int, released: bool = False) -> int:
    """Return `count` reduced to the part of the picture whose depth is known, so that the density there stays the same.

    At least 5 (where 5 were asked for); the release: at least 5 in any case.
    """
    return max(round(count * known / max(pixels, 1)), FEWEST if released else min(count, FEWEST))


def fallback(depth: Depth, rng: np.random.Generator, released: bool = False, count: int = 1000) -> SparseSample:
    """Draw random points in place of a sensor that found nothing to measure."""
    return scatter(depth, matched(count, int(np.count_nonzero(depth)), depth.size, released), rng)


def exactly(count: Number = 500) -> Pattern:
    """Pattern: `count` points however much of the picture is known; all that are known where there are fewer."""
    number = whole(count, "The number of points", least=0)

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        return scatter(depth, number.integer(rng), rng)

    return draw


def random(count: Number, released: bool = False) -> Pattern:
    """Make a pattern: `count` points for a picture known everywhere ("2150", "100~2000", "1~~2000"), density-matched;
    or a part of the known pixels ("0.7%", "0.03%~0.7%"), at least 5.
    """
    number = span(count)

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        known = int(np.count_nonzero(depth))
        if number.percent:
            return scatter(depth, max(int(known * number.draw(rng)), FEWEST), rng)
        return scatter(depth, matched(number.integer(rng, released), known, depth.size, released), rng)

    return draw
