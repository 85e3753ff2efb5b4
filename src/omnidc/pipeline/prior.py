"""A monocular prior from anywhere, fused with the points and with a network's result. Nothing is learned here.

The prior, relative or metric, depth or disparity, is first fitted to the points (`alignment.best_line`). Its log
gradients then enter one least-squares problem with the points:

    E(x) = Σ_points c_p (x_p − ln o_p)² / σ_o² + Σ_edges (∇x − ρ ∇ ln prior)² / σ_g²

ρ in [0, 1] is the share of the prior's differences that the points confirm: 1 for a good prior, near 0 for noise. σ_g
is the error of its gradients, read off the points: between two points r pixels apart, the errors of the fitted prior
differ by about σ_g √r. A prior that disagrees with the points therefore counts little. c_p falls where the error at a
point is unlike its neighbors': such a point is an outlier rather than the prior's fault.

Where there is the result d of a network, the two are averaged in log depth by their errors:

    ln D = (x / b_x² + ln d / b_d²) / (1 / b_x² + 1 / b_d²),    b_x = 2 k √r

b_d is the network's own uncertainty. k is measured: the problem is solved from either half of the points, and k √r is
the mean error at the other half, r pixels from the nearest point that was used.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree

from omnidc.errors import ConfigError, FileError, InputError, require_torch
from omnidc.frame import Frame
from omnidc.io.depth import CODECS, read_depth
from omnidc.pipeline.alignment import Depth, Space, apply_line, best_line
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions
from omnidc.pipeline.source import Completer

if TYPE_CHECKING:
    from torch import Tensor

# (image file, image [H, W, 3]) → map [H, W]
Prior = Callable[[Path, npt.NDArray[np.uint8]], npt.NDArray[np.floating]]

POINT_STD = 0.003  # σ_o, log depth: points are held closely; 0.01 was worse on every pattern of the development set
GRADIENT_STD = 0.02  # σ_g where fewer than MIN_POINTS points can tell
GRADIENT_FLOOR = 1e-3  # a prior made from the truth fits exactly; the system must stay well conditioned
NO_UNCERTAINTY = 0.1  # b_d of a method that gives none, such as interpolation between few points, log depth
CAUTION = 2.0  # factor of b_x: the network's uncertainty is calibrated, that of the prior has heavy tails
NEAREST = 0.5  # pixels; r of a measured pixel
FEW_POINTS_ERROR = 0.1  # b_x / CAUTION where too few points can tell, log depth
FEW_POINTS_FLOOR = 0.03  # b_x / CAUTION where a few points fit a line by chance
NEIGHBORS = 4  # of a point, whose errors are compared with its own
MIN_POINTS = 2 * NEIGHBORS + 1
RTOL = 1e-4  # as for the baselines: no score shows a smaller one
MEDIAN_OF_SQUARE = 0.455  # of a standard normal variable


def fuse(
    sparse: Depth,  # [H, W], 0 = none
    prior: npt.NDArray[np.floating],  # [H, W], relative or metric, depth or disparity; NaN = unknown
    depth: npt.NDArray[np.floating] | None = None,  # [H, W] > 0, a result to fuse with
    uncertainty: npt.NDArray[np.floating] | None = None,  # [H, W] > 0, Laplace scale of `depth`
    space: Space | None = None,  # what the prior holds; None = what fits the points better
) -> Depth:
    """Fuse points and prior to dense depth [H, W] > 0 in the unit of `sparse`."""
    require_torch("Fusing a monocular prior")
    log_fused = integrate_prior(sparse, prior, space)
    if depth is None:
        return np.asarray(np.exp(log_fused), np.float32)
    usable = np.isfinite(depth) & (np.asarray(depth) > 0)
    positive = np.where(usable, depth, 1.0).astype(np.float64)
    network_error = np.full(sparse.shape, NO_UNCERTAINTY)
    if uncertainty is not None:
        network_error = np.maximum(np.asarray(uncertainty, np.float64) / positive, POINT_STD)
    prior_error = CAUTION * held_out_error(sparse, prior, space)
    share = np.where(usable, network_error**2 / (network_error**2 + prior_error**2), 1.0)
    return np.asarray(np.exp(share * log_fused + (1 - share) * np.log(positive)), np.float32)


def integrate_prior(sparse: Depth, prior: npt.NDArray[np.floating], space: Space | None = None) -> Depth:
    """Return log depth [H, W] from points and prior: the minimum of E."""
    aligned = align_prior(sparse, prior, space)
    log_prior = np.log(aligned.astype(np.float64))
    known = np.isfinite(prior)
    points = sparse > 0
    errors = np.log(sparse[points].astype(np.float64)) - log_prior[points]
    positions = np.argwhere(points).astype(np.float64)
    share = agreement(positions, np.log(sparse[points].astype(np.float64)), log_prior[points])
    sigma = gradient_std(positions, errors + (1 - share) * log_prior[points])

    weights = np.zeros(sparse.shape)  # of the data term, times σ_g²: edges have weight 1
    weights[points] = point_confidence(positions, errors, sigma) * (sigma / POINT_STD) ** 2
    target = log_prior.copy()
    target[points] = np.log(sparse[points])

    edges = np.zeros((2, *sparse.shape))
    gradients = np.zeros((2, *sparse.shape))
    for channel, axis in ((0, 1), (1, 0)):
        both = np.logical_and(np.delete(known, 0, axis), np.delete(known, -1, axis))
        inner = (slice(None), slice(1, None)) if axis == 1 else (slice(1, None), slice(None))
        gradients[(channel, *inner)] = np.where(both, share * np.diff(log_prior, axis=axis), 0.0)
        edges[(channel, *inner)] = np.where(both, 1.0, 0.1)  # smooth where the prior is unknown
    import torch  # here, since the other methods of the evaluation run without it

    from omnidc.integrate import integrate

    with torch.no_grad():
        x, _ = integrate(
            [_tensor(gradients)[0]],
            _tensor(target),
            _tensor(weights > 0),
            _tensor(weights),
            [_tensor(edges)[0]],
            alpha=1.0,
            rtol=RTOL,
            max_iterations=500,
            on_failure="ignore",
        )
    return np.asarray(x[0, 0].double().numpy())


def held_out_error(sparse: Depth, prior: npt.NDArray[np.floating], space: Space | None = None) -> Depth:
    """Return the error of `integrate_prior`, mean |Δ ln| [H, W], as points that were left out measure it: k √r."""
    usable = (sparse > 0) & np.isfinite(prior)
    positions = np.argwhere(usable)
    count = len(positions)
    if count < MIN_POINTS:
        misfit = np.abs(np.log(sparse[usable] / align_prior(sparse, prior, space)[usable])).mean()
        # Scale and shift take two of the points' degrees of freedom.
        few = max(misfit * np.sqrt(count / (count - 2)), FEW_POINTS_FLOOR) if count > 2 else FEW_POINTS_ERROR
        return np.full(sparse.shape, float(few))
    order = np.random.default_rng(0).permutation(count)
    slopes = []
    for half in (order[::2], order[1::2]):
        held = tuple(positions[half].T)
        kept = sparse.copy()
        kept[held] = 0
        error = np.abs(integrate_prior(kept, prior, space)[held] - np.log(sparse[held].astype(np.float64)))
        slopes.append(error / np.sqrt(distance_transform_edt(kept <= 0)[held]))
    k = float(np.concatenate(slopes).mean())
    return np.asarray(k * np.sqrt(np.maximum(distance_transform_edt(~usable), NEAREST)))


def fuse_completion(result: Any, sparse: Depth, prior: npt.NDArray[np.floating], space: Space | None = None) -> Any:
    """Call `fuse` with the result of a method: an array, or a record with `depth` and `uncertainty` (`Completion`).

    The uncertainty stays the network's.
    """
    depth, uncertainty = getattr(result, "depth", result), getattr(result, "uncertainty", None)
    fused = fuse(sparse, prior, np.asarray(depth), uncertainty, space)
    return replace(result, depth=fused) if is_dataclass(result) and not isinstance(result, type) else fused


class PriorCompleter:
    """A completer whose results are fused with the prior of each frame."""

    def __init__(self, completer: Completer, prior: Prior) -> None:
        self.completer, self.prior = completer, prior

    def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
        result = self.completer.complete(frame, options)
        if not frame.measurements().any():
            raise InputError("A prior is fitted to the points, and this frame has none.")
        prior = self.prior(Path(frame.source or frame.name), frame.image)
        fused: Completion = fuse_completion(result, frame.measurements(), prior)
        # What the mask or `max_uncertainty` dropped stays dropped, and no depth exceeds `clip_depth`.
        depth = np.where(result.depth > 0, fused.depth, np.float32(0))
        return replace(fused, depth=depth if options.clip_depth is None else np.minimum(depth, options.clip_depth))


def prior_completer(completer: Completer, source: str) -> Completer:
    """Return `completer` itself where `source` is empty; otherwise one that fuses with the priors of `open_prior`."""
    if not source:
        return completer
    require_torch("Fusing a monocular prior")
    return PriorCompleter(completer, open_prior(source))


def align_prior(sparse: Depth, prior: npt.NDArray[np.floating], space: Space | None = None) -> Depth:
    """Align the prior as depth [H, W] in the unit of the points, by the best robust line."""
    if prior.shape != sparse.shape:
        raise InputError(
            f"The prior is {list(prior.shape)}, the sparse depth {list(sparse.shape)}: resize one of them."
        )
    usable = (sparse > 0) & np.isfinite(prior)
    if not usable.any():
        raise InputError("No measurement lies on a known pixel of the prior: there is nothing to align it to.")
    depth = sparse[usable].astype(np.float64)
    line = best_line(np.asarray(prior, np.float64)[usable], depth, space)
    return apply_line(np.asarray(prior), line, float(depth.min()), float(depth.max()))


def open_prior(source: str) -> Prior:
    """Open a source of priors: a depth file, a folder of them named as the images, or `module:callable` of an image.

    In files 0 and what is not finite is unknown. A map of another size is brought to that of the image.
    """
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", source):
        function = find_callable(source)
        return lambda path, image: _fit_size(np.asarray(function(image), np.float64), image, source)
    place = Path(source)
    if not place.exists():
        raise FileError(f"There is no prior {source}: give a depth file, a folder of them, or module:callable.")

    def read(path: Path, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.floating]:
        file = place
        if place.is_dir():
            found = [place / f"{path.stem}{suffix}" for suffix in CODECS if (place / f"{path.stem}{suffix}").is_file()]
            if not found:
                raise FileError(f"The folder {place} has no prior called {path.stem} ({', '.join(CODECS)}).")
            file = found[0]
        depth = read_depth(file, scale=1.0).depth.astype(np.float64)
        return _fit_size(np.where(depth > 0, depth, np.nan), image, str(file))

    return read


def _fit_size(prior: npt.NDArray[np.float64], image: npt.NDArray[np.uint8], name: str) -> npt.NDArray[np.floating]:
    import cv2

    if prior.ndim != 2 or not np.isfinite(prior).any():
        raise InputError(f"The prior {name} is no map [H, W] with finite numbers.")
    height, width = image.shape[:2]
    if prior.shape == (height, width):
        return prior
    if abs(prior.shape[1] / prior.shape[0] / (width / height) - 1) > 0.03:
        raise InputError(
            f"The prior {name} is {prior.shape[0]}x{prior.shape[1]}, the image {height}x{width}: "
            "their shapes differ, not only their sizes."
        )
    return np.asarray(cv2.resize(prior, (width, height), interpolation=cv2.INTER_LINEAR))


def find_callable(name: str) -> Callable[..., Any]:
    """Import the function that `module:attribute` names."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"Cannot use {name!r}: {error}; the module must be importable from here (PYTHONPATH)."
        ) from error
    if not callable(found):
        raise ConfigError(f"{name!r} is not callable.")
    function: Callable[..., Any] = found
    return function


def agreement(
    positions: npt.NDArray[np.float64],  # [N, 2], pixels
    log_points: npt.NDArray[np.float64],  # [N]
    log_prior: npt.NDArray[np.float64],  # [N]
) -> float:
    """Return ρ: the slope of the points' differences over the prior's, between near points; 1 where too few can tell.

    The tenth of the pairs that fits worst is left out: outliers among the points are not the prior's fault.
    """
    if len(positions) < MIN_POINTS:
        return 1.0
    distance, index = _neighbors(positions, NEIGHBORS)
    weight = 1.0 / np.maximum(distance, 1.0)
    measured = log_points[:, None] - log_points[index]
    guessed = log_prior[:, None] - log_prior[index]
    misfit = weight * (measured - guessed) ** 2
    kept = misfit <= np.quantile(misfit, 0.9)
    square = float((weight * guessed**2)[kept].sum())
    if square < 1e-12:
        return 1.0
    return float(np.clip((weight * measured * guessed)[kept].sum() / square, 0.0, 1.0))


def gradient_std(
    positions: npt.NDArray[np.float64],  # [N, 2], pixels
    errors: npt.NDArray[np.float64],  # [N], ln o − ln prior
) -> float:
    """Return σ_g, log depth per √pixel: robust, over pairs of near points."""
    if len(positions) < MIN_POINTS:
        return GRADIENT_STD
    distance, index = _neighbors(positions, NEIGHBORS)
    squares = (errors[:, None] - errors[index]) ** 2 / np.maximum(distance, 1.0)
    return max(float(np.sqrt(np.median(squares) / MEDIAN_OF_SQUARE)), GRADIENT_FLOOR)


def point_confidence(
    positions: npt.NDArray[np.float64],  # [N, 2], pixels
    errors: npt.NDArray[np.float64],  # [N]
    sigma: float,
) -> npt.NDArray[np.float64]:
    """Return c_p = 1 / (1 + z²)² in (0, 1], z the usual distances from the neighbors' median error."""
    if len(positions) < MIN_POINTS:
        return np.ones(len(positions))
    distance, index = _neighbors(positions, 2 * NEIGHBORS)
    deviation = errors - np.median(errors[index], axis=1)
    usual = 3 * np.hypot(sigma * np.sqrt(np.median(distance, axis=1)), POINT_STD)
    return np.asarray(1.0 / (1.0 + (deviation / usual) ** 2) ** 2)


def _neighbors(
    positions: npt.NDArray[np.float64],  # [N, 2]
    count: int,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Return the distances and indices [N, count] of the nearest other points."""
    distance, index = cKDTree(positions).query(positions, k=count + 1)
    return np.asarray(distance)[:, 1:], np.asarray(index)[:, 1:]


def _tensor(values: npt.NDArray[Any]) -> Tensor:
    """Return a tensor [1, 1, …] of float32."""
    import torch

    return torch.from_numpy(values.astype(np.float32))[None, None]
