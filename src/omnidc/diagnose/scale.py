"""Unit and scale: is the median depth possible, and how high is the camera above the ground?"""

from __future__ import annotations

import numpy as np

from omnidc.diagnose.folds import Map
from omnidc.diagnose.planes import Plane, Points, Values, fit_plane
from omnidc.diagnose.verdict import Finding, cannot_tell, ok, suspicious
from omnidc.frame import Unit

UNIT, SCALE = "unit", "PNG scale"
ARBITRARY = (Unit.SCENE, Unit.RELATIVE)

FARTHEST_MEDIAN = 250.0  # m: the range of the longest automotive LiDARs
NEAREST_MEDIAN = 0.02  # m: nearer than any depth sensor measures

HIGHEST, HIGH = 3.5, 2.3  # m above the ground: above the former no hand and no vehicle holds a camera
LOW, LOWEST = 0.6, 0.8  # m: below the former no vehicle or person carries a camera outdoors
UPRIGHT = 0.8  # cosine of the largest angle between the ground's normal and the image's y axis
GROUND_TOLERANCE = 0.03
GROUND_POINTS = 600
MIN_POINTS = 100
GROUND_SHARE = 0.15  # of the points of a part of the image that must lie on the ground
MAX_BELOW = 0.05  # of all points that may lie below it


def check_unit(sparse: Map, unit: Unit) -> Finding:
    """Compare the median depth with what sensors can measure; depths of an unknown unit are taken for meters."""
    if unit in ARBITRARY:
        return cannot_tell(UNIT, "The scale of the scene is arbitrary.")
    depths = sparse[sparse > 0]
    if not depths.size:
        return cannot_tell(UNIT, "There are no points.")
    median = float(np.median(depths))
    evidence = f"The median depth is {median:.4g} m."
    if median > FARTHEST_MEDIAN:
        return suspicious(UNIT, evidence, "These look like millimeters: give --depth-scale 1000.", median=median)
    if median < NEAREST_MEDIAN:
        return suspicious(
            UNIT, evidence, "These look like meters divided once too often: give --depth-scale 1.", median=median
        )
    return ok(UNIT, evidence, median=median)


def check_scale(
    sparse: Map,
    intrinsics: Values | None,
    unit: Unit,
    outdoors: bool,  # sky was found in the photograph
    rng: np.random.Generator,
) -> Finding:
    """Measure the height of the camera above the ground: a wrong PNG scale multiplies it."""
    if unit in ARBITRARY:
        return cannot_tell(SCALE, "The scale of the scene is arbitrary.")
    if intrinsics is None:
        return cannot_tell(SCALE, "No camera was given, so the height above the ground is not known.")
    ground = ground_plane(Points.of(sparse, intrinsics), rng)
    if ground is None:
        return cannot_tell(SCALE, "No ground was found, whose distance would show the scale.")
    height = ground.distance
    evidence = f"The ground lies {height:.2f} m below the camera."
    advice = "Check the scale of the depth files (--depth-scale): 1000 for millimeters, 256 for KITTI, 5000 for TUM."
    if height > HIGHEST:
        return suspicious(SCALE, evidence, f"{advice} Depths may be too large by 3.9 (256 for 1000).", height=height)
    if outdoors and height < LOW:
        return suspicious(SCALE, evidence, f"{advice} Depths may be too small by 3.9 (1000 for 256).", height=height)
    if LOWEST < height < HIGH:
        return ok(SCALE, evidence, height=height)
    return cannot_tell(SCALE, f"{evidence} A table or a high place would explain it.", height=height)


def ground_plane(points: Points, rng: np.random.Generator) -> Plane | None:
    """Find the lowest nearly horizontal plane below which hardly any point lies."""
    if len(points) < MIN_POINTS:
        return None
    best: Plane | None = None
    sample = points.take(rng.choice(len(points), min(5 * GROUND_POINTS, len(points)), replace=False))
    low, high = np.quantile(sample.y, [0.02, 0.98])
    for part in (0.75, 0.5, 0.3, 0.0):
        lower = np.flatnonzero(sample.y > low + part * (high - low))
        if len(lower) < MIN_POINTS // 2:
            continue
        chosen = sample.take(rng.choice(lower, min(GROUND_POINTS, len(lower)), replace=False))
        plane = fit_plane(chosen, rng, GROUND_TOLERANCE)
        if plane is None or plane.inliers < GROUND_SHARE * len(chosen) or plane.normal[1] < UPRIGHT:
            continue
        # b X + c Y + a Z > 1 is the far side: below the ground.
        side = (plane.a + plane.b * sample.x + plane.c * sample.y) * sample.depth
        if (side > 1 + 3 * GROUND_TOLERANCE).mean() <= MAX_BELOW and (best is None or plane.distance > best.distance):
            best = plane
    return best
