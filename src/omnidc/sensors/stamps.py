"""Messages and files paired by their time stamps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def nearest_stamps(
    first: Sequence[float],
    second: Sequence[float],
    tolerance: float,
) -> list[tuple[int, int]]:
    """Pair time stamps: each of `first` with the nearest of `second` within `tolerance`, none of `second` twice."""
    if not len(first) or not len(second):
        return []
    order = np.argsort(second, kind="stable")
    sorted_second = np.asarray(second, dtype=np.float64)[order]
    candidates = []
    for i, stamp in enumerate(first):
        place = int(np.searchsorted(sorted_second, stamp))
        for j in (place - 1, place):
            if 0 <= j < len(sorted_second) and abs(sorted_second[j] - stamp) <= tolerance:
                candidates.append((abs(float(sorted_second[j]) - stamp), i, int(order[j])))
    pairs: dict[int, int] = {}
    used: set[int] = set()
    for _, i, j in sorted(candidates):
        if i not in pairs and j not in used:
            pairs[i] = j
            used.add(j)
    return sorted(pairs.items())


def closest_gap(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the smallest difference between a stamp of one list and one of the other."""
    ordered = np.sort(np.asarray(second, dtype=np.float64))
    place = np.searchsorted(ordered, first)
    below, above = ordered[np.maximum(place - 1, 0)], ordered[np.minimum(place, len(ordered) - 1)]
    return float(np.minimum(np.abs(below - first), np.abs(above - first)).min())
