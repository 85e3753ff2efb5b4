"""Does the camera matrix belong to the photograph, and are the depths z-depths?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.folds import Map
from omnidc.diagnose.planes import Points, Values, fit_plane, windows
from omnidc.diagnose.verdict import Finding, cannot_tell, ok, suspicious

CAMERA, RAY = "camera matrix", "ray depth"

HALF, DOUBLE = 0.25, 1.0  # principal point / image size when K belongs to an image of half and of twice the size
CENTER_TOLERANCE = 0.06  # of the image's size
OFF_CENTER = 0.2  # from the middle: farther away the image was cropped, or K is another camera's
FOCAL = (0.25, 8.0)  # plausible focal length / longer side: 127° to 7° of view
MIN_POINTS = 100

EXPONENTS = np.array([0.0, 0.5, 1.0, 1.5])  # p of z = d / s^p: 0 z-depth, 1 distance along the ray
TOLERANCES = (0.01, 0.03)  # of the plane fits: for exact sensors, then for noisy ones
PLANAR = 0.6  # cost below which a window is a plane
MIN_PLANES = 3
MIN_RAY_FACTOR = 1.01  # s at the outermost point: below, z-depth and distance are the same
RAY_ALARM, RAY_OK = -2.0, 1.2  # lead of z-depth, in standard errors over the windows


def check_camera(intrinsics: Values | None, sparse: Map) -> Finding:
    """Compare the principal point with the image, and where there is no camera, the coverage of the points."""
    height, width = sparse.shape
    rows, columns = np.nonzero(sparse > 0)
    advice = f"Scale fx, fy, cx and cy to {width}x{height}, or give the photograph in the size of the calibration."
    if len(rows) >= MIN_POINTS and columns.max() < width / 2 and rows.max() < height / 2:
        evidence = f"All {len(rows)} points lie in the upper left quarter of the image."
        return suspicious(CAMERA, evidence, f"They were projected with K of half the resolution. {advice}")
    if intrinsics is None:
        return cannot_tell(CAMERA, "No camera was given (--intrinsics or --camera).")
    x, y = float(intrinsics[0, 2] + 0.5) / width, float(intrinsics[1, 2] + 0.5) / height
    focal = float(intrinsics[0, 0]) / max(width, height)
    numbers = {"cx_relative": x, "cy_relative": y, "focal_relative": focal}
    where = f"The principal point lies at {100 * x:.0f} % of the width and {100 * y:.0f} % of the height"
    for place, size in ((HALF, "half"), (DOUBLE, "twice")):
        if max(abs(x - place), abs(y - place)) < CENTER_TOLERANCE * (2 if place == DOUBLE else 1):
            return suspicious(CAMERA, f"{where}: K belongs to {size} the resolution.", advice, **numbers)
    if max(abs(x - 0.5), abs(y - 0.5)) > OFF_CENTER:
        return cannot_tell(CAMERA, f"{where}: a crop, or another camera's K.", **numbers)
    if not FOCAL[0] < focal < FOCAL[1]:
        evidence = f"The focal length is {focal:.2g} times the image's longer side."
        return suspicious(CAMERA, evidence, advice, **numbers)
    return ok(CAMERA, f"{where}.", **numbers)


def check_ray(intrinsics: Values | None, sparse: Map, rng: np.random.Generator) -> Finding:
    """Test whether planes are flat as z-depth or as distance along the ray.

    For each exponent p the depths d / s^p are fitted with planes in many windows; p = 0 should fit best.
    """
    if intrinsics is None:
        return cannot_tell(RAY, "No camera was given (--intrinsics or --camera).")
    points = Points.of(sparse, intrinsics)
    if len(points) < MIN_POINTS:
        return cannot_tell(RAY, f"{len(points)} points are too few to find planes.")
    factor = np.sqrt(1 + points.x**2 + points.y**2)
    if factor.max() < MIN_RAY_FACTOR:
        return cannot_tell(RAY, "The lens is so long that z-depth and distance along the ray are the same.")
    chosen = windows(points, rng)
    for tolerance in TOLERANCES:
        costs = _costs(points, factor, chosen, tolerance, rng)
        costs = costs[costs.min(axis=1) < PLANAR]
        if len(costs) >= MIN_PLANES:
            break
    else:
        return cannot_tell(RAY, f"Only {len(costs)} planes were found.")
    z, ray = int(np.argmin(np.abs(EXPONENTS))), int(np.argmin(np.abs(EXPONENTS - 1)))
    difference = costs[:, ray] - costs[:, z]
    lead = float(difference.sum() / np.sqrt(np.square(difference).sum() + 1e-12))
    best = float(EXPONENTS[int(np.argmin(costs.sum(axis=0)))])
    numbers = {"lead": lead, "exponent": best, "planes": float(len(costs))}
    if lead < RAY_ALARM and abs(best - 1) <= 0.5:
        evidence = f"{len(costs)} planes are flat only if the depths are distances along the ray."
        return suspicious(RAY, evidence, "Give --ray-depth (ray_depth=True).", **numbers)
    if lead > RAY_OK and abs(best) <= 0.5:
        return ok(RAY, f"{len(costs)} planes are flat as z-depth.", **numbers)
    return cannot_tell(RAY, f"{len(costs)} planes are about as flat either way.", **numbers)


def _costs(
    points: Points,
    factor: Values,  # [N], s = √(1 + x² + y²)
    chosen: list[npt.NDArray[np.intp]],
    tolerance: float,
    rng: np.random.Generator,
) -> Values:
    """Return the cost of the plane in each window for each exponent, [windows, exponents]; 1 = no plane."""
    costs = np.ones((len(chosen), len(EXPONENTS)))
    seed = int(rng.integers(2**32))
    for k, window in enumerate(chosen):
        for j, exponent in enumerate(EXPONENTS):
            depth = points.depth[window] / factor[window] ** exponent
            # The same random triples for every exponent, so that only the exponent makes a difference.
            plane = fit_plane(
                Points(points.x[window], points.y[window], depth), np.random.default_rng(seed + k), tolerance
            )
            costs[k, j] = 1.0 if plane is None else plane.cost
    return costs
