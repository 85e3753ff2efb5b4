"""Use the folds: mix network and linear interpolation by gap size, and recalibrate the uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.folds import gap_size
from omnidc.diagnose.holdout import HiddenPoints, Score, Values, gap_edges, score

if TYPE_CHECKING:
    from omnidc.pipeline import Completion

CANDIDATES = np.linspace(0, 1, 21)  # weights of the network that are tried
MIN_BIN = 50  # hidden points that a gap size needs for a weight of its own
LN20 = math.log(20)  # |error| ≤ b ln 20 holds for 95 % of a Laplace distribution
LEVELS = (0.5, 0.9, 0.95)  # of the coverage table


@dataclass(frozen=True)
class GapMixture:
    """Weight of the network by gap size; linear interpolation has the rest. Between the gaps: linear in log gap."""

    gap: Values  # [K], pixels, ascending
    weight: Values  # [K] in [0, 1]

    def at(self, gap: npt.NDArray[np.floating]) -> Values:
        """Return the weight of the network at these gap sizes (pixels)."""
        return np.asarray(np.interp(np.log(np.maximum(gap, 0.5)), np.log(self.gap), self.weight))

    def apply(self, network: Values, linear: Values, gap: npt.NDArray[np.floating]) -> Values:
        """Mix two depths in their logarithm: log d = w log d_network + (1 − w) log d_linear."""
        w = self.at(gap)
        return np.asarray(np.exp(w * np.log(network) + (1 - w) * np.log(linear)))


@dataclass(frozen=True)
class Coverage:
    """Share of hidden points inside the interval of each nominal level, before and after recalibration."""

    levels: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]  # cross-fitted: each half of the blocks with the other half's factor
    factor: float  # the uncertainty is multiplied by it


def fit_mixture(points: HiddenPoints) -> GapMixture:
    """Choose for each gap size the weight with the least mean |log error| at the hidden points.

    A gap size with fewer than `MIN_BIN` points is joined with the next larger ones, the last with the one before.
    """
    edges = gap_edges(points.gap)
    size = np.searchsorted(edges, points.gap, side="left").clip(1, len(edges) - 1) - 1
    groups: list[list[int]] = [[]]
    for k, count in enumerate(np.bincount(size, minlength=len(edges) - 1)):
        groups[-1].append(k)
        if count and np.isin(size, groups[-1]).sum() >= MIN_BIN:
            groups.append([])
    if len(groups) > 1:
        rest = groups.pop()
        groups[-1] += rest
    parts = [points.take(np.isin(size, group)) for group in groups]
    gaps = [float(np.exp(np.log(np.maximum(part.gap, 0.5)).mean())) for part in parts]
    return GapMixture(np.array(gaps), np.array([_best_weight(part) for part in parts]))


def cross_fitted(points: HiddenPoints) -> Score:
    """Score the mixture, each half of the blocks mixed with the weights of the other half."""
    mixed = np.empty(len(points))
    for half, other in _cross_halves(points):
        part = points.take(half)
        mixed[half] = fit_mixture(points.take(other)).apply(part.network, part.linear, part.gap)
    return score(mixed, points.measured)


def fit_coverage(points: HiddenPoints) -> Coverage | None:
    """Find the factor for the uncertainty at which 95 % of the hidden points lie within b ln 20; None without b."""
    if points.laplace_scale is None:
        return None
    ratio = np.abs(points.network - points.measured) / points.laplace_scale
    after = np.empty(len(points))
    for half, other in _cross_halves(points):
        after[half] = ratio[half] / _factor(ratio[other])
    limits = [-math.log(1 - level) for level in LEVELS]
    return Coverage(
        LEVELS,
        tuple(float((ratio <= limit).mean()) for limit in limits),
        tuple(float((after <= limit).mean()) for limit in limits),
        _factor(ratio),
    )


def best(completion: Completion, points: HiddenPoints) -> Completion:
    """Return the completion with the mixed depth and the recalibrated uncertainty.

    Pixels between the points take the weight of their gap size; a measured pixel has gap 0.

    >>> from pathlib import Path
    >>> import omnidc
    >>> room = Path(omnidc.__file__).parent / "examples"  # the bundled example
    >>> from omnidc.pipeline import make_frame
    >>> frame = make_frame(room / "room.jpg", room / "room_sparse.npz", (247.9, 247.9, 159.5, 119.5))
    >>> from omnidc.diagnose import diagnose
    >>> completer = omnidc.load("interpolate")
    >>> points = diagnose(frame, completer, folds=1).errors.points
    >>> best(completer.complete(frame), points).depth.shape
    (240, 320)
    """
    from omnidc.evaluation.baselines.interpolation import linear

    kept = completion.depth > 0  # the others were dropped by a mask
    gap = gap_size(completion.sparse > 0)[kept]
    line = linear(completion.image, completion.sparse)[kept].astype(np.float64)
    depth = np.zeros_like(completion.depth)
    depth[kept] = fit_mixture(points).apply(completion.depth[kept].astype(np.float64), line, gap)
    coverage = fit_coverage(points)
    b = completion.uncertainty
    return replace(
        completion,
        depth=depth,
        uncertainty=b if b is None or coverage is None else (b * coverage.factor).astype(np.float32),
    )


def _best_weight(points: HiddenPoints) -> float:
    measured, network, line = np.log(points.measured), np.log(points.network), np.log(points.linear)
    errors = [float(np.abs(w * network + (1 - w) * line - measured).mean()) for w in CANDIDATES]
    return float(CANDIDATES[int(np.argmin(errors))])


def _factor(ratio: Values) -> float:
    return float(np.quantile(ratio, 0.95)) / LN20


def _cross_halves(points: HiddenPoints) -> list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """Split the hidden blocks in two, every other one; return each half with the other. One block is its own other."""
    _, number = np.unique(points.cluster, return_inverse=True)
    first = number % 2 == 0
    return [(first, first)] if first.all() else [(first, ~first), (~first, first)]
