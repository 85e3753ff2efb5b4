"""Scores of a predicted depth map against the truth.

Truth is 0 where it is unknown (anything up to 1e-4 is, as in the released evaluation); only known pixels count. A
prediction that is not finite counts as 0 (an error of 100 %), and one that is not positive never counts as right in a
δ score. `released=True` gives the values of the released OMNI-DC evaluation to the last digit: 1e-8 is added to
denominators, and a negative prediction passes every δ test.

All functions take arrays [H, W] in one unit and return plain floats; a score that has nothing to be computed from
(no known pixel, no edge, no measurement) is NaN, and means over images leave it out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from omnidc.geometry.surface import EDGE_RATIO, depth_edges

Array = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]

DELTAS: Mapping[str, float] = {
    "delta_1": 1.25,
    "delta_2": 1.25**2,
    "delta_3": 1.25**3,
    "delta_1.02": 1.02,
    "delta_1.05": 1.05,
    "delta_1.10": 1.10,
}
INTERVALS = (50, 80, 95)  # percent of the Laplace distribution

# Name for people, and whether less is better; the order is that of the columns of a report.
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

TRUTH_FLOOR = 1e-4
EDGE_BAND = 5.0  # pixels
EDGE_MIN_DENSITY = 0.2  # a truth sparser than this does not show where its edges are
BOUNDARY_RATIOS = np.linspace(1.05, 1.25, 10)  # depth ratios of neighbours that make a boundary, as in Depth Pro


def known_pixels(truth: Array, mask: Mask | None = None) -> Mask:
    """Pixels that can be scored: the truth is known there, and `mask` (when given) holds."""
    known = truth > TRUTH_FLOOR
    return known if mask is None else known & mask


def depth_metrics(
    prediction: Array,  # [H, W]
    truth: Array,  # [H, W], 0 = unknown
    mask: Mask | None = None,  # [H, W], pixels to score; None = all with a truth
    *,
    released: bool = False,
) -> dict[str, float]:
    """RMSE, MAE, REL, iRMSE, iMAE, δ scores, RMSE / median(truth), and the share of unusable predictions.

    The inverse scores are per unit of depth (1/m, not 1/km), and a prediction ≤ 1e-4 has inverse 0 as in the release.
    """
    tiny = 1e-8 if released else 0.0
    known = known_pixels(truth, mask)
    g = truth[known].astype(np.float64)
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
    truth: Array,  # [H, W], 0 = unknown
    ratio: float = EDGE_RATIO,
    width: float = EDGE_BAND,
) -> Mask:
    """Known pixels within `width` pixels of a depth edge.

    An edge lies between two 4-neighbours whose depths differ by more than `ratio`. Unknown pixels take the depth of
    the nearest known one first, so that an edge whose two sides are parted by a stereo shadow is found as well.
    The band is empty when less than `EDGE_MIN_DENSITY` of the truth is known.
    """
    known = known_pixels(truth)
    if known.mean() < EDGE_MIN_DENSITY:
        return np.zeros_like(known)
    rows, columns = distance_transform_edt(~known, return_distances=False, return_indices=True)
    edge = depth_edges(truth[rows, columns].astype(np.float64), ratio)
    if not edge.any():
        return edge
    return known & (distance_transform_edt(~edge) <= width)


def edge_rel(prediction: Array, truth: Array, mask: Mask | None = None, band: Mask | None = None) -> float:
    """REL over the pixels within 5 px of a depth edge of the truth; `band` when it is known already."""
    if band is None:
        band = edge_band(truth)
    return depth_metrics(prediction, truth, band if mask is None else band & mask)["rel"]


def boundary_f1(prediction: Array, truth: Array, mask: Mask | None = None) -> float:
    """Scale-invariant boundary F1 of the Depth Pro paper (Bochkovskii et al. 2024), in [0, 1].

    Neighbours i, j form a boundary at ratio t where d_j / d_i > t. Precision and recall are taken over all pairs of
    the four directions (the authors' code takes their mean over the directions); F1 is averaged over
    `BOUNDARY_RATIOS` with weights proportional to t. Only pairs with a known truth on both sides count, and an
    unusable prediction forms no boundary. NaN when the truth has no boundary, or is too sparse to show any.
    """
    known = known_pixels(truth, mask)
    if known.mean() < EDGE_MIN_DENSITY:
        return math.nan
    p = np.asarray(prediction, np.float64)
    log_prediction = np.log(np.where(np.isfinite(p) & (p > 0), p, np.nan))
    predicted, true = (_steps(log, known) for log in (log_prediction, np.log(np.where(known, truth, 1.0))))
    if not (true > math.log(BOUNDARY_RATIOS[0])).any():
        return math.nan
    scores = []
    for limit in np.log(BOUNDARY_RATIOS):
        found, real = predicted > limit, true > limit
        scores.append(2 * int(np.sum(found & real)) / max(int(np.sum(found)) + int(np.sum(real)), 1))
    return float(np.average(scores, weights=BOUNDARY_RATIOS))


def _steps(log_depth: Array, known: Mask) -> Array:
    """ln d_j − ln d_i over all pairs of known neighbours in the four directions, in a fixed order: [N]."""
    parts = []
    for axis in (0, 1):
        pair = np.delete(known, 0, axis) & np.delete(known, -1, axis)
        step = np.diff(log_depth, axis=axis)[pair]
        parts += [step, -step]
    return np.concatenate(parts)


def rel_at_input(
    prediction: Array,  # [H, W]
    sparse: Array,  # [H, W], 0 = no measurement
    noise: Mask | None = None,  # [H, W], measurements known to be wrong: left out
) -> float:
    """Mean |prediction − measurement| / measurement over the measured pixels: are the user's points kept?"""
    measured = sparse > 0 if noise is None else (sparse > 0) & ~noise
    return depth_metrics(prediction, sparse, measured)["rel"]


def laplace_quantile(percent: float) -> float:
    """q with P(|e| ≤ q·b) = percent/100 for a Laplace error e of scale b: q = −ln(1 − percent/100)."""
    return -math.log1p(-percent / 100)


def calibration(
    prediction: Array,  # [H, W]
    scale: Array,  # [H, W] > 0, Laplace scale b, unit of the depth
    truth: Array,  # [H, W], 0 = unknown
    mask: Mask | None = None,
) -> dict[str, float]:
    """Share of pixels whose error lies inside the 50, 80 and 95 % Laplace intervals, and AUSE (`sparsification`).

    Calibrated means coverage_50 = 0.5 and so on. A pixel without a finite prediction and scale lies in no interval.
    """
    known = known_pixels(truth, mask)
    names = [f"coverage_{percent}" for percent in INTERVALS]
    if not known.any():
        return dict.fromkeys([*names, "ause"], math.nan)
    error = np.abs(np.asarray(prediction, np.float64)[known] - truth[known])
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
    """Mean error of what is left after dropping the most uncertain share k/steps of the pixels, k = 0 … steps − 1.

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
    """Plain mean of every score over the images that have it (so RMSE is averaged per image, as in the paper)."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None and not math.isnan(value):
                values.setdefault(name, []).append(value)
    return {name: float(np.mean(v)) for name, v in values.items()}
