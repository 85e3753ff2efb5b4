"""`examine` a frame without a network; `diagnose` it with one, on its own hidden measurements."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.alignment import MIN_EDGES, Alignment, image_center, search
from omnidc.diagnose.calibration import CALIBRATION, check_calibration
from omnidc.diagnose.camera import CAMERA, RAY, check_camera, check_ray
from omnidc.diagnose.edges import contours, depth_edges_between
from omnidc.diagnose.folds import FOLDS, MIN_POINTS, block_folds
from omnidc.diagnose.holdout import Comparison, HiddenPoints, Score, compare, measure
from omnidc.diagnose.mixing import Coverage, GapMixture, cross_fitted, fit_coverage, fit_mixture
from omnidc.diagnose.orientation import MIRRORED, SWAPPED, check_mirrored, check_swapped
from omnidc.diagnose.points import OUTLIERS, RETURNS, SKY, check_outliers, check_returns, check_scan_returns, check_sky
from omnidc.diagnose.scale import SCALE, UNIT, check_scale, check_unit
from omnidc.diagnose.sky import sky_mask
from omnidc.diagnose.verdict import Finding, Verdict
from omnidc.errors import InputError
from omnidc.frame import Frame, Unit

if TYPE_CHECKING:
    from omnidc.pipeline.source import NamedCompleter

SEED = 0
CHECKS = (
    UNIT,
    SCALE,
    CAMERA,
    RAY,
    SWAPPED,
    MIRRORED,
    CALIBRATION,
    OUTLIERS,
    RETURNS,
    SKY,
)  # in the order of the report


@dataclass(frozen=True)
class Examination:
    """All checks that need no network."""

    findings: tuple[Finding, ...]
    alignment: Alignment | None

    @property
    def suspicions(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.SUSPICIOUS)


@dataclass(frozen=True)
class Errors:
    """What the folds measured."""

    points: HiddenPoints
    comparison: Comparison
    mixture: GapMixture
    mixed: Score  # cross-fitted
    coverage: Coverage | None


@dataclass(frozen=True)
class Diagnosis:
    """The doctor's answer for one frame."""

    name: str
    size: tuple[int, int]  # width, height
    measured: int  # pixels with a measurement
    depths: tuple[float, float, float]  # smallest, median and largest measurement
    unit: Unit
    model: str  # empty when no network ran
    examination: Examination
    errors: Errors | None  # None: no network, or too few points


def examine(
    image: npt.NDArray[np.uint8],  # [H, W, 3], RGB
    sparse: npt.NDArray[np.float32],  # [H, W], 0 = no measurement
    intrinsics: npt.NDArray[np.float64] | None = None,  # [3, 3]
    unit: Unit = Unit.METERS,
    *,
    scan: npt.NDArray[np.float64] | None = None,  # [N, 3], sensor frame: the points before projection
    speed: float | None = None,  # of the camera along its axis, unit of the depth per second
    checks: Collection[str] = CHECKS,
) -> Examination:
    """Check unit, camera, orientation, calibration and single points. Deterministic.

    >>> from pathlib import Path
    >>> import omnidc
    >>> room = Path(omnidc.__file__).parent / "examples"  # the bundled example
    >>> from omnidc.pipeline import make_frame
    >>> frame = make_frame(room / "room.jpg", room / "room_sparse.npz", (247.9, 247.9, 159.5, 119.5))
    >>> [finding.check for finding in examine(frame.image, frame.sparse, frame.intrinsics).suspicions]
    []
    >>> [finding.check for finding in examine(frame.image, 1000 * frame.sparse, checks=["unit"]).suspicions]
    ['unit']
    """
    if image.shape[:2] != sparse.shape:
        raise InputError(
            f"The sparse depth is {sparse.shape[1]}x{sparse.shape[0]} but the image is "
            f"{image.shape[1]}x{image.shape[0]}: give both for the same pixels."
        )
    if not (sparse > 0).any():
        raise InputError("There are no depth points to examine.")
    contour = cache(lambda: contours(image))
    edges = cache(lambda: depth_edges_between(sparse, _rng()))
    camera = check_camera(intrinsics, sparse)
    # A camera of another resolution would mislead the checks that need one.
    K = None if camera.verdict is Verdict.SUSPICIOUS else intrinsics
    alignment = None
    if CALIBRATION in checks and len(edges()) >= MIN_EDGES:
        alignment = search(contour(), edges(), image_center(sparse.shape, K), _rng())
    table: dict[str, Callable[[], Finding]] = {
        UNIT: lambda: check_unit(sparse, unit),
        SCALE: lambda: check_scale(sparse, K, unit, bool(sky_mask(image).any()), _rng()),
        CAMERA: lambda: camera,
        RAY: lambda: check_ray(K, sparse, _rng()),
        SWAPPED: lambda: check_swapped(contour(), edges(), sparse),
        MIRRORED: lambda: check_mirrored(contour(), edges()),
        CALIBRATION: lambda: check_calibration(alignment, K, unit, speed),
        OUTLIERS: lambda: check_outliers(sparse, _rng()),
        RETURNS: lambda: check_returns(sparse, _rng()) if scan is None else check_scan_returns(scan),
        SKY: lambda: check_sky(image, sparse),
    }
    return Examination(tuple(table[name]() for name in CHECKS if name in checks), alignment)


def _rng() -> np.random.Generator:
    """Return a generator of its own for each check, so that no check depends on which others ran."""
    return np.random.default_rng(SEED)


def diagnose(
    frame: Frame,
    completer: NamedCompleter | None,
    *,
    folds: int = FOLDS,
    scan: npt.NDArray[np.float64] | None = None,
    speed: float | None = None,
    progress: Callable[[], None] = lambda: None,  # called after each fold
) -> Diagnosis:
    """Examine a frame and, with a completer, measure its errors on hidden measurements.

    >>> from pathlib import Path
    >>> import omnidc
    >>> room = Path(omnidc.__file__).parent / "examples"  # the bundled example
    >>> from omnidc.pipeline import make_frame
    >>> frame = make_frame(room / "room.jpg", room / "room_sparse.npz", (247.9, 247.9, 159.5, 119.5))
    >>> diagnosis = diagnose(frame, omnidc.load("interpolate"), folds=1)
    >>> len(diagnosis.errors.points) > 10
    True
    """
    if frame.sparse is None:
        raise InputError(f"Frame {frame.name!r} has no measurements to diagnose.")
    sparse = frame.sparse
    examination = examine(frame.image, sparse, frame.intrinsics, frame.unit, scan=scan, speed=speed)
    depths = sparse[sparse > 0]
    errors = None
    if completer is not None and depths.size >= MIN_POINTS:
        rng = _rng()
        hidden = measure(completer, frame, block_folds(sparse, rng, folds), progress)
        errors = Errors(hidden, compare(hidden, rng), fit_mixture(hidden), cross_fitted(hidden), fit_coverage(hidden))
    return Diagnosis(
        name=frame.name,
        size=(frame.width, frame.height),
        measured=int(depths.size),
        depths=(float(depths.min()), float(np.median(depths)), float(depths.max())),
        unit=frame.unit,
        model="" if completer is None else completer.name,
        examination=examination,
        errors=errors,
    )
