"""Any monocular depth map, fitted to the points by one scale and one shift.

A relative map m becomes depth a·m + b, or 1 / (a·m + b) where it is disparity. `fit` finds a and b by least squares,
or robustly: random pairs of points propose (RANSAC), then least squares over those that agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.evaluation.sample import Depth, Image, Intrinsics, Method

Space = Literal["depth", "disparity"]
TRIALS = 500
TOLERANCE = 0.1  # relative error in depth below which a point agrees
FAR = 100.0  # a disparity that falls to 0 or below means this many times the farthest measurement


def fit(
    mono: npt.NDArray[np.floating],  # [N]
    target: npt.NDArray[np.floating],  # [N], depth or disparity
    weights: npt.NDArray[np.floating] | None = None,  # [N]
) -> tuple[float, float]:
    """argmin over a, b of Σ w (a·mono + b − target)²; scale alone where all of mono is equal or N = 1."""
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
    """The pair of points that most points agree with within 10 %, then least squares over those (twice)."""
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


def align(
    mono: npt.NDArray[np.floating],  # [H, W], relative depth or disparity
    sparse: Depth,  # [H, W], 0 = unknown
    space: Space = "depth",
    robust: bool = False,
    seed: int = 0,
) -> Depth:
    """`mono` as depth in the unit of `sparse`, positive everywhere. `seed` fixes the robust fit's draws."""
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


def aligned(mono: Callable[[Image], Any], space: Space = "depth", robust: bool = False) -> Method:
    """A method from a monocular one: `mono(image)` gives a relative map [H, W], depth or disparity."""

    def method(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
        return align(np.asarray(mono(image)), sparse, space, robust)

    return method
