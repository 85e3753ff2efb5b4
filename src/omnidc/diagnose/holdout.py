"""Errors at hidden measurements: the network beside linear interpolation, by distance and by gap size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.folds import Fold, gap_size
from omnidc.errors import InputError

if TYPE_CHECKING:
    from omnidc.frame import Frame
    from omnidc.pipeline.source import NamedCompleter

Values = npt.NDArray[np.float64]
DISTANCE_BINS = 4
MIN_BIN = 30  # hidden points below which a row of a table is left out
BOOTSTRAPS = 400


@dataclass(frozen=True)
class HiddenPoints:
    """Every hidden measurement of all folds, [N] each; depths in the unit of the input."""

    measured: Values
    network: Values  # completed depth at the hidden pixel
    linear: Values  # linear interpolation of the kept measurements
    laplace_scale: Values | None  # uncertainty b of the network; None where the model has no such head
    gap: Values  # distance from the nearest kept measurement, pixels
    cluster: npt.NDArray[np.int64]  # number of the hidden block: points of one block are not independent

    def __len__(self) -> int:
        return len(self.measured)

    def take(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> HiddenPoints:
        """Return the chosen points only."""
        b = self.laplace_scale
        return HiddenPoints(
            self.measured[chosen],
            self.network[chosen],
            self.linear[chosen],
            None if b is None else b[chosen],
            self.gap[chosen],
            self.cluster[chosen],
        )


@dataclass(frozen=True)
class Score:
    """Errors of one method."""

    rel: float  # mean |error| / depth
    rmse: float  # unit of the input
    bias: float  # median signed error / depth: positive = too far


@dataclass(frozen=True)
class Row:
    """One row of a table: hidden points between two limits."""

    low: float
    high: float
    count: int
    network: Score
    linear: Score


@dataclass(frozen=True)
class Comparison:
    """How the network compares with linear interpolation on these points."""

    network: Score
    linear: Score
    count: int
    by_distance: tuple[Row, ...]
    by_gap: tuple[Row, ...]
    worse_probability: float  # that the network's REL exceeds that of linear interpolation, by resampling of blocks

    @property
    def network_is_worse(self) -> bool:
        return self.worse_probability > 0.95


def measure(
    completer: NamedCompleter,
    frame: Frame,
    folds: Sequence[Fold],
    progress: Callable[[], None] = lambda: None,  # called after each fold
) -> HiddenPoints:
    """Complete the frame once a fold without its hidden measurements, and read the results at them."""
    from omnidc.evaluation.baselines.interpolation import linear
    from omnidc.pipeline import CompleteOptions

    options = CompleteOptions(sky="keep")  # a hidden measurement is compared even if its pixel looks like sky
    sparse = frame.measurements()
    parts = []
    offset = 0
    for fold in folds:
        kept = np.where(fold.hidden, np.float32(0), sparse)
        if not (kept > 0).any():
            raise InputError("A fold hides every measurement: give more points or a smaller hidden share.")
        result = completer.complete(replace(frame, sparse=kept), options)
        b = result.uncertainty
        parts.append(
            HiddenPoints(
                sparse[fold.hidden].astype(np.float64),
                result.depth[fold.hidden].astype(np.float64),
                linear(frame.image, kept)[fold.hidden].astype(np.float64),
                None if b is None else b[fold.hidden].astype(np.float64),
                gap_size(kept > 0)[fold.hidden].astype(np.float64),
                fold.block[fold.hidden].astype(np.int64) + offset,
            )
        )
        offset += int(fold.block.max()) + 1
        progress()
    return _join(parts)


def compare(points: HiddenPoints, rng: np.random.Generator) -> Comparison:
    """Score both methods on all hidden points, by distance and by gap size."""
    edges = np.unique(np.quantile(points.measured, np.linspace(0, 1, DISTANCE_BINS + 1)))
    return Comparison(
        network=score(points.network, points.measured),
        linear=score(points.linear, points.measured),
        count=len(points),
        by_distance=_rows(points, points.measured, edges),
        by_gap=_rows(points, points.gap, gap_edges(points.gap)),
        worse_probability=_worse_probability(points, rng),
    )


def score(estimate: Values, measured: Values) -> Score:
    """Score one method; `measured` > 0."""
    error = estimate - measured
    relative = error / measured
    return Score(float(np.abs(relative).mean()), float(np.sqrt(np.square(error).mean())), float(np.median(relative)))


def gap_edges(gap: Values) -> Values:
    """Return limits of gap sizes, pixels: powers of two that hold all of `gap`."""
    high = int(np.ceil(np.log2(max(float(gap.max()), 2.0)) + 1e-9))
    return np.array([0.0, *(2.0**k for k in range(1, high + 1))])


def _rows(points: HiddenPoints, by: Values, edges: Values) -> tuple[Row, ...]:
    rows = []
    for k, (low, high) in enumerate(pairwise(edges)):
        inside = (by <= high) & ((by > low) | (k == 0))
        if inside.sum() >= MIN_BIN:
            part = points.take(inside)
            network, linear = score(part.network, part.measured), score(part.linear, part.measured)
            rows.append(Row(float(low), float(high), len(part), network, linear))
    return tuple(rows)


def _worse_probability(points: HiddenPoints, rng: np.random.Generator) -> float:
    """Bootstrap over blocks: the share of resamples in which linear interpolation has the smaller REL."""
    advantage = np.abs(points.network - points.measured) - np.abs(points.linear - points.measured)
    _, cluster = np.unique(points.cluster, return_inverse=True)
    sums = np.bincount(cluster, advantage / points.measured)  # > 0 where the network is worse
    drawn = rng.integers(len(sums), size=(BOOTSTRAPS, len(sums)))
    return float((sums[drawn].sum(axis=1) > 0).mean())


def _join(parts: Sequence[HiddenPoints]) -> HiddenPoints:
    scales = [part.laplace_scale for part in parts if part.laplace_scale is not None]
    return HiddenPoints(
        np.concatenate([part.measured for part in parts]),
        np.concatenate([part.network for part in parts]),
        np.concatenate([part.linear for part in parts]),
        np.concatenate(scales) if len(scales) == len(parts) else None,
        np.concatenate([part.gap for part in parts]),
        np.concatenate([part.cluster for part in parts]),
    )
