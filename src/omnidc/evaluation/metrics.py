"""Scores of a predicted depth map against the truth.

Truth is 0 where it is unknown (anything up to 1e-4 is, as in the released evaluation); only known pixels count. A
prediction that is not finite counts as 0 (an error of 100 %), and one that is not positive never counts as right in a
δ score. `released=True` gives the values of the released OMNI-DC evaluation to the last digit: 1e-8 is added to
denominators, and a negative prediction passes every δ test.

All functions take arrays [H, W] in one unit and return plain floats; a score that has nothing to be computed from
(no known pixel, no edge, no measurement) is NaN, and means over images leave it out.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from omnidc.geometry.surface import EDGE_RATIO, depth_edges

Array = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
P = ParamSpec("P")
T = TypeVar("T")

DELTAS: Mapping[str, float] = {
    "delta_1": 1.25,
    "delta_2": 1.25**2,
    "delta_3": 1.25**3,
    "delta_1.02": 1.02,
    "delta_1.05": 1.05,
    "delta_1.10": 1.10,
}
INTERVALS = (50, 80, 95)  # percent of the Laplace distribution

# Label and the direction of better scores; the order is that of the columns of a report.
LABELS: Mapping[str, tuple[str, str]] = {
    "rel": ("REL", "↓"),
    "rmse_median": ("RMSE/median", "↓"),
    "rmse": ("RMSE", "↓"),
    "mae": ("MAE", "↓"),
    "irmse": ("iRMSE", "↓"),
    "imae": ("iMAE", "↓"),
    "delta_1": ("δ1", "↑"),
    "delta_2": ("δ2", "↑"),
    "delta_3": ("δ3", "↑"),
    "delta_1.02": ("δ1.02", "↑"),
    "delta_1.05": ("δ1.05", "↑"),
    "delta_1.10": ("δ1.10", "↑"),
    "edge_rel": ("edge REL", "↓"),
    "boundary_f1": ("boundary F1", "↑"),
    "rel_at_input": ("REL at input", "↓"),
    "invalid_fraction": ("invalid", "↓"),
    "coverage_50": ("in 50 %", "→0.50"),
    "coverage_80": ("in 80 %", "→0.80"),
    "coverage_95": ("in 95 %", "→0.95"),
    "ause": ("AUSE", "↓"),
    "cpu_seconds": ("CPU s", "↓"),
    "seconds": ("s", "↓"),
    "peak_gb": ("peak GB", "↓"),
    "psnr": ("PSNR", "↑"),  # these three: of rendered views, in published tables only
    "ssim": ("SSIM", "↑"),
    "lpips": ("LPIPS", "↓"),
}

# Names of scores in files of earlier versions.
OLD_NAMES: Mapping[str, str] = {
    "anchor": "rel_at_input",
    "bad": "invalid_fraction",
    **{f"cover{percent}": f"coverage_{percent}" for percent in INTERVALS},
    **{f"d{k}": f"delta_{k}" for k in (1, 2, 3)},
    **{f"d{int(100 * limit)}": f"delta_{limit:.2f}" for limit in (1.02, 1.05, 1.10)},
}

GT_FLOOR = 1e-4
EDGE_BAND = 5.0  # pixels
EDGE_MIN_DENSITY = 0.2  # share of known pixels; edges of a sparser truth cannot be located
BOUNDARY_RATIOS = np.linspace(1.05, 1.25, 10)  # depth ratios of neighbors that form a boundary, as in Depth Pro
TINY = 1e-12  # keeps 0 / 0 at 0


def _accept_truth(function: Callable[P, T]) -> Callable[P, T]:
    """Let the keyword `truth`, which 0.1 had for `gt_depth`, work for one release."""

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        if "truth" in keywords:
            warnings.warn("truth is now gt_depth", DeprecationWarning, stacklevel=2)
            keywords["gt_depth"] = keywords.pop("truth")
        return function(*arguments, **keywords)

    return call


def known_pixels(gt_depth: Array, mask: Mask | None = None) -> Mask:
    """Return the pixels to score: the ground truth is known and finite there, and `mask` (when given) holds."""
    known = (gt_depth > GT_FLOOR) & np.isfinite(gt_depth)
    return known if mask is None else known & mask


@_accept_truth
def depth_metrics(
    prediction: Array,  # [H, W]
    gt_depth: Array,  # [H, W], 0 = unknown
    mask: Mask | None = None,  # [H, W], pixels to score; None = all with a truth
    *,
    released: bool = False,
) -> dict[str, float]:
    """Return RMSE, MAE, REL, iRMSE, iMAE, δ scores, RMSE / median(gt_depth), and the share of unusable predictions.

    The inverse scores are per unit of depth (1/m, not 1/km), and a prediction ≤ 1e-4 has inverse 0 as in the release.

    >>> scores = depth_metrics(np.full((2, 2), 2.2), np.array([[2.0, 2.0], [2.0, 0.0]]))  # 0 = unknown
    >>> round(scores["rel"], 3), round(scores["rmse"], 3)
    (0.1, 0.2)
    """
    tiny = 1e-8 if released else 0.0
    known = known_pixels(gt_depth, mask)
    g = gt_depth[known].astype(np.float64)
    p = np.asarray(prediction, np.float64)[known]
    if g.size == 0:
        names = ("rmse", "mae", "irmse", "imae", "rel", *DELTAS, "rmse_median", "invalid_fraction")
        return dict.fromkeys(names, math.nan)
    bad = ~np.isfinite(p) | (p <= 0)
    p = np.where(np.isfinite(p), p, 0.0)
    n = g.size + tiny

    error = np.abs(p - g)
    inverse = np.where(p > 1e-4, 1.0 / (np.where(p > 1e-4, p, 1.0) + tiny), 0.0)
    inverse_error = np.abs(inverse - 1.0 / (g + tiny))
    rmse = math.sqrt(float(np.sum(error**2)) / n)
    if released:
        ratio = np.maximum(g / (p + tiny), p / (g + tiny))
    else:
        ratio = np.where(bad, np.inf, np.maximum(g / np.where(bad, 1.0, p), p / g))
    scores = {
        "rmse": rmse,
        "mae": float(error.sum()) / n,
        "irmse": math.sqrt(float(np.sum(inverse_error**2)) / n),
        "imae": float(inverse_error.sum()) / n,
        "rel": float(np.sum(error / (g + tiny))) / n,
    }
    scores.update({name: float(np.sum(ratio < limit)) / n for name, limit in DELTAS.items()})
    scores["rmse_median"] = rmse / float(np.median(g))
    scores["invalid_fraction"] = float(bad.mean())
    return scores


def edge_band(
    gt_depth: Array,  # [H, W], 0 = unknown
    ratio: float = EDGE_RATIO,
    width: float = EDGE_BAND,
) -> Mask:
    """Return the known pixels within `width` pixels of a depth edge.

    An edge lies between two 4-neighbors whose depths differ by more than `ratio`. Unknown pixels take the depth of
    the nearest known one first, so that an edge whose two sides are parted by a stereo shadow is found as well.
    The band is empty when less than `EDGE_MIN_DENSITY` of the truth is known.
    """
    known = known_pixels(gt_depth)
    if known.mean() < EDGE_MIN_DENSITY:
        return np.zeros_like(known)
    rows, columns = distance_transform_edt(~known, return_distances=False, return_indices=True)
    edge = depth_edges(gt_depth[rows, columns].astype(np.float64), ratio)
    if not edge.any():
        return edge
    return known & (distance_transform_edt(~edge) <= width)


def edge_rel(prediction: Array, gt_depth: Array, mask: Mask | None = None, band: Mask | None = None) -> float:
    """Return REL over the pixels within 5 px of a depth edge of the ground truth; `band` when it is known already."""
    if band is None:
        band = edge_band(gt_depth)
    return depth_metrics(prediction, gt_depth, band if mask is None else band & mask)["rel"]


def boundary_f1(prediction: Array, gt_depth: Array, mask: Mask | None = None) -> float:
    """Return the scale-invariant boundary F1 of Depth Pro (Bochkovskii et al. 2024; apple/ml-depth-pro at 9efe5c1).

    A boundary at ratio t lies between neighbors i, j where d_j / d_i > t. Precision and recall are means over the four
    directions, a direction without a boundary counting 0; F1 is averaged over `BOUNDARY_RATIOS` with weights
    proportional to t. Unlike the published code, only pairs with a known truth on both sides count, an unusable
    prediction forms no boundary, and a truth without a boundary, or too sparse to have one, gives NaN instead of 0.
    """
    known = known_pixels(gt_depth, mask)
    if known.mean() < EDGE_MIN_DENSITY:
        return math.nan
    p = np.asarray(prediction, np.float64)
    log_prediction = np.log(np.where(np.isfinite(p) & (p > 0), p, np.nan))
    predicted, true = (_log_steps(log, known) for log in (log_prediction, np.log(np.where(known, gt_depth, 1.0))))
    limits = np.log(BOUNDARY_RATIOS)
    if not any((step > limits[0]).any() for step in true):
        return math.nan
    scores = []
    for limit in limits:
        found, real = [step > limit for step in predicted], [step > limit for step in true]
        hits = [np.sum(f & r) for f, r in zip(found, real)]
        precision = np.mean([hit / max(np.sum(f), 1) for hit, f in zip(hits, found)])
        recall = np.mean([hit / max(np.sum(r), 1) for hit, r in zip(hits, real)])
        scores.append(2 * precision * recall / max(precision + recall, TINY))
    return float(np.average(scores, weights=BOUNDARY_RATIOS))


def _log_steps(log_depth: Array, known: Mask) -> list[Array]:
    """Return ln d_j − ln d_i over the pairs of known neighbors, one array [N] for each of the four directions."""
    steps = []
    for axis in (0, 1):
        pair = np.delete(known, 0, axis) & np.delete(known, -1, axis)
        step = np.diff(log_depth, axis=axis)[pair]
        steps += [step, -step]
    return steps


def rel_at_input(
    prediction: Array,  # [H, W]
    sparse: Array,  # [H, W], 0 = no measurement
    outlier_mask: Mask | None = None,  # [H, W], measurements known to be wrong: left out
) -> float:
    """Return the mean |prediction − measurement| / measurement at measured pixels; 0 where points are kept exactly."""
    measured = sparse > 0 if outlier_mask is None else (sparse > 0) & ~outlier_mask
    return depth_metrics(prediction, sparse, measured)["rel"]


def laplace_quantile(percent: float) -> float:
    """Return q with P(|e| ≤ q·b) = percent/100 for a Laplace error e of scale b: q = −ln(1 − percent/100)."""
    return -math.log1p(-percent / 100)


def calibration(
    prediction: Array,  # [H, W]
    scale: Array,  # [H, W] > 0, Laplace scale b, unit of the depth
    gt_depth: Array,  # [H, W], 0 = unknown
    mask: Mask | None = None,
) -> dict[str, float]:
    """Return the shares of pixels inside the 50, 80 and 95 % Laplace intervals, and AUSE (`sparsification`).

    Calibrated means coverage_50 = 0.5 and so on. A pixel without a finite prediction and scale lies in no interval.
    """
    known = known_pixels(gt_depth, mask)
    names = [f"coverage_{percent}" for percent in INTERVALS]
    if not known.any():
        return dict.fromkeys([*names, "ause"], math.nan)
    error = np.abs(np.asarray(prediction, np.float64)[known] - gt_depth[known])
    b = np.asarray(scale, np.float64)[known]
    usable = np.isfinite(error) & np.isfinite(b)
    scores = {
        name: float(np.mean(usable & (error <= laplace_quantile(percent) * b)))
        for name, percent in zip(names, INTERVALS)
    }
    scores["ause"] = sparsification(error[usable], b[usable])[2]
    return scores


def sparsification(
    error: Array,  # [N] ≥ 0
    uncertainty: Array,  # [N]
    steps: int = 20,
) -> tuple[Array, Array, float]:
    """Return the mean error after dropping the most uncertain share k/steps of the pixels, k = 0 … steps − 1.

    Returns that curve, the oracle's (pixels dropped by their true error) and the area between the two (AUSE); both
    curves are divided by the mean error of all pixels, so 0 is a perfect ranking and a random one is about the area
    under 1 − oracle.
    """
    if error.size == 0 or error.sum() == 0:
        return np.ones(steps), np.ones(steps), math.nan if error.size == 0 else 0.0

    def curve(order: npt.NDArray[np.intp]) -> Array:
        total = np.concatenate([[0.0], np.cumsum(error[order], dtype=np.float64)])
        kept = np.maximum(error.size - (np.arange(steps) * error.size) // steps, 1)
        return np.asarray(total[kept] / kept / (total[-1] / error.size))

    by_uncertainty = curve(np.argsort(uncertainty, kind="stable"))
    oracle = curve(np.argsort(error, kind="stable"))
    return by_uncertainty, oracle, float(np.mean(by_uncertainty - oracle))


def mean_scores(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Average every score over the images that have it (so RMSE is averaged per image, as in the paper)."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None and not math.isnan(value):
                values.setdefault(name, []).append(value)
    return {name: float(np.mean(v)) for name, v in values.items()}
