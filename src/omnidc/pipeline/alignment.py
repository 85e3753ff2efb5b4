"""Any monocular depth map, fitted to the points by one scale and one shift.

A relative map m becomes depth a·m + b, or 1 / (a·m + b) where it is disparity. `fit` finds a and b by least squares,
or robustly: random pairs of points propose (RANSAC), then least squares over those that agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError

Depth = npt.NDArray[np.float32]
Values = npt.NDArray[np.floating]
Space = Literal["depth", "disparity"]
SPACES: tuple[Space, ...] = ("depth", "disparity")
FEW = 20  # points
TRIALS = 500
TOLERANCE = 0.1  # relative error in depth below which a point agrees
BEYOND = 5.0  # an aligned map stays within this factor of the nearest and the farthest measurement
FAR = 100.0  # a disparity that falls to 0 or below means this many times the farthest measurement


def fit(
    mono: npt.NDArray[np.floating],  # [N]
    target: npt.NDArray[np.floating],  # [N], depth or disparity
    weights: npt.NDArray[np.floating] | None = None,  # [N]
) -> tuple[float, float]:
    """Return argmin over a, b of Σ w (a·mono + b − target)²; scale alone where all of mono is equal or N = 1."""
    m, t = mono.astype(np.float64), target.astype(np.float64)
    w = np.ones_like(m) if weights is None else weights.astype(np.float64)
    w = w / w.sum()
    mean_m, mean_t = float(w @ m), float(w @ t)
    variance = float(w @ (m - mean_m) ** 2)
    if variance <= 1e-12 * max(float(w @ m**2), 1e-300):
        return (mean_t / mean_m, 0.0) if mean_m != 0 else (0.0, mean_t)
    a = float(w @ ((m - mean_m) * (t - mean_t))) / variance
    return a, mean_t - a * mean_m


def fit_robust(
    mono: npt.NDArray[np.floating],  # [N]
    target: npt.NDArray[np.floating],  # [N] > 0, depth or disparity
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Fit the pair of points that most points agree with within 10 %, then least squares over those (twice)."""
    m, t = mono.astype(np.float64), target.astype(np.float64)
    if len(m) < 3:
        return fit(m, t)
    first = rng.integers(0, len(m), TRIALS)
    second = (first + rng.integers(1, len(m), TRIALS)) % len(m)
    apart = m[first] != m[second]
    if not apart.any():
        return fit(m, t)
    first, second = first[apart], second[apart]
    a = (t[first] - t[second]) / (m[first] - m[second])
    b = t[first] - a * m[first]
    # Judging the proposals needs no more points than this.
    judges = rng.permutation(len(m))[:2000]
    agree = np.abs(a[:, None] * m[judges] + b[:, None] - t[judges]) < TOLERANCE * t[judges]
    best = int(np.argmax(agree.sum(axis=1)))
    scale, shift = float(a[best]), float(b[best])
    for _ in range(2):
        inlier = np.abs(scale * m + shift - t) < TOLERANCE * t
        if inlier.sum() < 2:
            break
        scale, shift = fit(m[inlier], t[inlier])
    return scale, shift


@dataclass(frozen=True)
class Line:
    """How a monocular map becomes depth: scale · map + shift is depth, or its inverse."""

    space: Space
    scale: float
    shift: float


def best_line(
    mono: npt.NDArray[np.floating],  # [N], relative or metric, depth or disparity
    depth: npt.NDArray[np.floating],  # [N] > 0, the points
    space: Space | None = None,  # None = whichever fits the points better
    seed: int = 0,
) -> Line:
    """Return the line in depth or disparity, or the scale alone, that predicts the points best.

    Below `FEW` points each is predicted from the others (leave one out), since a line through two points always fits;
    with more, the robust fit with the smallest median error in log depth. A line that falls is no candidate.
    """
    candidates: list[tuple[float, Line]] = []
    everything = np.ones(len(mono), bool)
    for name in SPACES if space is None else (space,):
        target = depth.astype(np.float64) if name == "depth" else 1.0 / depth.astype(np.float64)
        for solve in (_scale, partial(_line, few=len(mono) < FEW, seed=seed)):
            scale, shift = solve(mono, target)
            if scale <= 0:
                continue
            if len(mono) < FEW:
                parts = [
                    everything & (np.arange(len(mono)) != k) if len(mono) > 1 else everything for k in range(len(mono))
                ]
                fits = [solve(mono[part], target[part]) for part in parts]
                error = float(np.mean([_log_error(*fits[k], mono[k], target[k]) for k in range(len(mono))]))
            else:
                error = float(np.median(_log_error(scale, shift, mono, target)))
            candidates.append((error, Line(name, scale, shift)))
    if not candidates:
        raise InputError(
            "The prior does not fit the points in any way: depth falls where it should rise. Is it of this image?"
        )
    return min(candidates, key=lambda candidate: candidate[0])[1]


def _scale(mono: Values, target: Values) -> tuple[float, float]:
    """Return the median ratio, no shift; scale 0 where the map is not positive."""
    return (float(np.median(target / mono)) if (mono > 0).all() else 0.0), 0.0


def _line(mono: Values, target: Values, few: bool, seed: int) -> tuple[float, float]:
    """Fit scale and shift: least squares of relative errors where points are few, else the robust fit."""
    return fit(mono, target, 1.0 / target**2) if few else fit_robust(mono, target, np.random.default_rng(seed))


def _log_error(scale: float, shift: float, mono: Any, target: Any) -> Any:
    """Return |ln of what the line predicts / target|, at most ln `FAR`."""
    return np.abs(np.log(np.clip((scale * mono + shift) / target, 1.0 / FAR, FAR)))


def apply_line(
    mono: npt.NDArray[np.floating],  # [H, W]
    line: Line,
    nearest: float,  # smallest measured depth
    farthest: float,  # largest measured depth
) -> Depth:
    """Return depth [H, W] in the unit of the points, positive and finite; a map that is not finite gives `farthest`."""
    value = line.scale * mono.astype(np.float64) + line.shift
    with np.errstate(divide="ignore"):
        depth = value if line.space == "depth" else 1.0 / np.maximum(value, 1e-300)
    depth = np.where(np.isfinite(mono), depth, farthest)
    return np.asarray(np.clip(depth, nearest / BEYOND, farthest * BEYOND), np.float32)


def align(
    mono: npt.NDArray[np.floating],  # [H, W], relative depth or disparity
    sparse: Depth,  # [H, W], 0 = unknown
    space: Space = "depth",
    robust: bool = False,
    seed: int = 0,
) -> Depth:
    """Convert `mono` to depth in the unit of `sparse`, positive everywhere. `seed` fixes the robust fit's draws."""
    if mono.shape != sparse.shape:
        raise InputError(
            f"The monocular map is {mono.shape}, the sparse depth {sparse.shape}: resize one to the other."
        )
    usable = (sparse > 0) & np.isfinite(mono)
    if not usable.any():
        raise InputError("No measurement lies on a finite pixel of the monocular map: there is nothing to align to.")
    known = sparse[usable].astype(np.float64)
    target = known if space == "depth" else 1.0 / known
    m = mono[usable]
    scale, shift = fit_robust(m, target, np.random.default_rng(seed)) if robust else fit(m, target)
    line = scale * np.nan_to_num(mono.astype(np.float64)) + shift
    if space == "depth":
        depth = np.maximum(line, known.min() / FAR)
    else:
        depth = 1.0 / np.maximum(line, 1.0 / (FAR * known.max()))
    return np.asarray(depth, np.float32)
