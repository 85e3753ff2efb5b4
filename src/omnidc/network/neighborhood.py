"""A pixel and the eight around it, and the pairs they form."""

from __future__ import annotations

from types import EllipsisType

NEIGHBORHOOD = [(y, x) for y in range(3) for x in range(3)]

Place = tuple[EllipsisType, slice, slice]  # rows and columns of a map [..., H, W]


def neighbor_pairs(height: int, width: int) -> list[tuple[Place, Place, Place, Place]]:
    """Return how to compute a symmetric function of neighbors once for both: it serves either end of a pair.

    Of a map padded by one pixel on each side, the first two places are the two ends p and p + (1 − y, 1 − x) of all
    pairs in direction k, for (y, x) = `NEIGHBORHOOD`[k] and k < 4. The other two are the places of the result that
    belong to each pixel of the map and its neighbor k, and to each pixel and its neighbor 8 − k.
    """
    pairs: list[tuple[Place, Place, Place, Place]] = []
    for y, x in NEIGHBORHOOD[:4]:
        left, right = max(0, x - 1), max(0, 1 - x)
        near = ..., slice(height + 1 + y), slice(left, width + 2 - right)
        far = ..., slice(1 - y, None), slice(right, width + 2 - left)
        first = ..., slice(y, y + height), slice(1 - right, 1 - right + width)
        second = ..., slice(1, 1 + height), slice(1 - left, 1 - left + width)
        pairs.append((near, far, first, second))
    return pairs
