"""The verdict on the calibration, and the corrected one."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.alignment import Alignment, Transform, image_center
from omnidc.diagnose.edges import Map
from omnidc.diagnose.verdict import Finding, cannot_tell, ok, suspicious
from omnidc.frame import Unit

Matrix = npt.NDArray[np.float64]

CALIBRATION = "calibration"
DISPLACED, ALIGNED = 3.0, 2.0  # pixels, RMS over the depth edges: reported above the former, fine below the latter
ALARM_GIVEN, ALARM_RIVAL = 2.0, 1.5  # standard errors by which the best transform must lead, see `Alignment`
OK_RIVAL = 1.0


def check_calibration(
    alignment: Alignment | None,
    intrinsics: Matrix | None,
    unit: Unit,
    speed: float | None = None,  # of the camera along its axis, unit of the depth per second
) -> Finding:
    """Judge the best alignment of depth edges and contours."""
    if alignment is None:
        return cannot_tell(CALIBRATION, "The points have too few depth edges to compare with the photograph.")
    best = alignment.best
    numbers = {
        "x": best.x,
        "y": best.y,
        "roll_degrees": math.degrees(best.roll),
        "motion": best.motion,
        "displacement": alignment.displacement,
        "low": alignment.low,
        "high": alignment.high,
        "margin_given": alignment.margin_given,
        "margin_rival": alignment.margin_rival,
        "edges": float(alignment.edges),
    }
    interval = f"{alignment.displacement:.1f} px ({alignment.low:.1f} to {alignment.high:.1f})"
    if (
        alignment.displacement > DISPLACED
        and alignment.low > ALIGNED
        and alignment.margin_given > ALARM_GIVEN
        and alignment.margin_rival > ALARM_RIVAL
    ):
        evidence = f"Depth edges meet the photograph's contours when moved by {interval}: "
        evidence += describe(best, intrinsics, unit, speed)
        advice = "Check extrinsics and time stamps; --write-calib writes the corrected calibration."
        return suspicious(CALIBRATION, evidence, advice, **numbers)
    if alignment.displacement <= ALIGNED and alignment.margin_rival > OK_RIVAL:
        return ok(CALIBRATION, f"Depth edges meet the contours within {interval}.", **numbers)
    return cannot_tell(CALIBRATION, "No displacement stands out: the data does not determine it.", **numbers)


def describe(transform: Transform, intrinsics: Matrix | None, unit: Unit, speed: float | None) -> str:
    """Say the correction in pixels, degrees, and seconds where the speed is known."""
    parts = []
    if transform.x or transform.y:
        text = f"{abs(transform.x):.0f} px {'right' if transform.x >= 0 else 'left'}"
        text += f", {abs(transform.y):.0f} px {'down' if transform.y >= 0 else 'up'}"
        if intrinsics is not None:
            yaw, pitch = (math.degrees(angle) for angle in angles(transform, intrinsics))
            text += f" (a turn of {math.hypot(yaw, pitch):.2f}°)"
        parts.append(text)
    if transform.roll:
        parts.append(f"{math.degrees(transform.roll):+.2f}° about the optical axis")
    if transform.motion:
        label = unit.label or "units"
        text = f"{abs(transform.motion):.2g} {label} {'nearer' if transform.motion > 0 else 'farther'}"
        if speed:
            text += f", or {1000 * transform.motion / speed:+.0f} ms at {speed:g} {label}/s"
        parts.append(text)
    return "; ".join(parts) + "."


def angles(transform: Transform, intrinsics: Matrix) -> tuple[float, float]:
    """Return the turn about the camera's y axis (to the right) and x axis (downward) that the shift stands for, rad."""
    return math.atan2(transform.x, intrinsics[0, 0]), math.atan2(transform.y, intrinsics[1, 1])


def corrected_extrinsics(
    camera_from_sensor: Matrix,  # [4, 4]
    transform: Transform,
    intrinsics: Matrix,  # [3, 3]
) -> Matrix:
    """Return camera_from_sensor [4, 4] after the correction: turn by shift and roll, move along the axis by −τ."""
    yaw, pitch = angles(transform, intrinsics)
    turn_x = np.array(
        [[1, 0, 0], [0, math.cos(pitch), math.sin(pitch)], [0, -math.sin(pitch), math.cos(pitch)]], dtype=np.float64
    )
    turn_y = np.array([[math.cos(yaw), 0, math.sin(yaw)], [0, 1, 0], [-math.sin(yaw), 0, math.cos(yaw)]])
    roll = transform.roll
    turn_z = np.array([[math.cos(roll), -math.sin(roll), 0], [math.sin(roll), math.cos(roll), 0], [0, 0, 1.0]])
    correction = np.eye(4)
    correction[:3, :3] = turn_z @ turn_y @ turn_x
    correction[2, 3] = -transform.motion
    return np.asarray(correction @ camera_from_sensor)


def corrected_map(
    sparse: Map,  # [H, W]
    transform: Transform,
    center: tuple[float, float] | None = None,  # principal point; None = the middle of the image
) -> Map:
    """Return the measurements at their corrected pixels; the nearest stays where several fall on one."""
    height, width = sparse.shape
    middle = center or image_center(sparse.shape)
    rows, columns = np.nonzero(sparse > 0)
    depth = sparse[rows, columns].astype(np.float64)
    x, y = transform.displace(columns.astype(np.float64), rows.astype(np.float64), 1 / depth, middle)
    depth = depth - transform.motion
    column, row = np.rint(x).astype(np.int64), np.rint(y).astype(np.int64)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (depth > 0)
    order = np.flatnonzero(inside)[np.argsort(-depth[inside], kind="stable")]  # the last write, the nearest, stays
    out = np.zeros_like(sparse)
    out[row[order], column[order]] = depth[order]
    return out
