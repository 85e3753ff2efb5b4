"""Pinhole cameras: checking and scaling intrinsics, rays, depth to points, undistortion.

Pixel centers are at integers (OpenCV), depth is z-depth; see docs/conventions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError

Array = npt.NDArray[np.float64]
Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB


def check_intrinsics(intrinsics: Any) -> npt.NDArray[np.float64]:
    """Return the camera matrix 3×3 from itself or from fx, fy, cx, cy; pixel centers at integers."""
    try:
        values = np.asarray(intrinsics, np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape == (4,):
        fx, fy, cx, cy = values
        values = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    if values.shape == (4, 4):
        values = values[:3, :3]
    if values.shape != (3, 3):
        raise InputError("Intrinsics are fx fy cx cy or a 3x3 camera matrix.")
    if not np.isfinite(values).all() or values[0, 0] <= 0 or values[1, 1] <= 0:
        raise InputError(
            f"The camera matrix is singular (fx = {values[0, 0]:g}, fy = {values[1, 1]:g}): "
            "both focal lengths must be positive numbers of pixels."
        )
    if not np.allclose(values[2], (0, 0, 1)) or values[1, 0] != 0:
        raise InputError("The last row of a camera matrix is 0 0 1: is this matrix transposed or a projection?")
    return values


def intrinsics_matrix(
    values: npt.ArrayLike,  # [3, 3], [4, 4], or flat 9, or (fx, fy, cx, cy)
    what: str,
) -> Array:
    """Return a checked 3×3 pinhole matrix; `what` names it in the message."""
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is no camera matrix: it holds a value that is no number.") from error
    if matrix.ndim == 1 and matrix.size in (9, 16):
        matrix = matrix.reshape(round(matrix.size**0.5), -1)
    try:
        return check_intrinsics(matrix).copy()
    except InputError as error:
        raise InputError(f"{what} is no camera matrix: {error}") from error


def scale_intrinsics(
    K: Array,  # [3, 3]
    x: float,
    y: float,
) -> Array:
    """Return the intrinsics of an image resized by (x, y). Centers at integers: u' = (u + ½)·x − ½."""
    S = np.array([[x, 0.0, 0.5 * x - 0.5], [0.0, y, 0.5 * y - 0.5], [0.0, 0.0, 1.0]])
    return S @ K


def centered_crop(
    K: Array,  # [3, 3], pixel centers at integers
    size: tuple[int, int],  # height, width
) -> tuple[int, int, int, int]:
    """Return top, left, height and width of the largest crop with the principal point in its middle (to ¼ pixel)."""
    found = []
    for center, length in ((K[1, 2], size[0]), (K[0, 2], size[1])):
        excess = round(2 * (center + 0.5) - length)  # pixels that the far side lacks
        start, kept = max(0, excess), length - abs(excess)
        if kept < length / 2:
            raise InputError(
                f"The principal point ({K[0, 2]:.0f}, {K[1, 2]:.0f}) lies far from the middle of {size[1]}x{size[0]} "
                "pixels, so that centering would cut off more than half of the picture; use another export."
            )
        found.append((start, kept))
    (top, height), (left, width) = found
    return top, left, height, width


def rays(shape: tuple[int, int], intrinsics: npt.NDArray[Any]) -> Array:
    """Return K⁻¹ (u, v, 1) for every pixel, [H, W, 3] with z = 1."""
    v, u = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    return np.asarray(np.stack([u, v, np.ones_like(u)], -1) @ np.linalg.inv(intrinsics).T)


def ray_to_z(
    distance: npt.NDArray[Any],  # [H, W], along the ray, 0 = none
    intrinsics: npt.NDArray[Any],
) -> npt.NDArray[np.float32]:
    """Convert distance along the ray to depth along the optical axis: z = d / ‖K⁻¹ (u, v, 1)‖."""
    norm = np.linalg.norm(rays((distance.shape[0], distance.shape[1]), check_intrinsics(intrinsics)), axis=-1)
    return np.asarray(distance / norm, np.float32)


def unproject(
    depth: npt.NDArray[Any],  # [H, W], z-depth
    intrinsics: npt.NDArray[Any],
) -> npt.NDArray[np.float32]:
    """Return points in the camera's frame, [H, W, 3]: x right, y down, z forward."""
    direction = rays((depth.shape[0], depth.shape[1]), check_intrinsics(intrinsics))
    return np.asarray(direction * depth[..., None], np.float32)


def backproject(
    depth: npt.NDArray[np.floating],  # [H, W], 0 = none
    K: Array,  # [3, 3]
    distortion: Array | None = None,  # OpenCV coefficients of the depth camera
    fisheye: bool = False,
) -> Array:
    """Return the measured pixels as points in the camera frame, [N, 3], row by row."""
    import cv2

    rows, columns = np.nonzero(depth > 0)
    z = depth[rows, columns].astype(np.float64)
    if distortion is not None and len(z):
        pixels = np.stack([columns, rows], axis=1).astype(np.float64)[:, None]
        straight = cv2.fisheye.undistortPoints if fisheye else cv2.undistortPoints
        plane = np.asarray(straight(pixels, K, distortion), dtype=np.float64).reshape(-1, 2)
        return np.concatenate([plane * z[:, None], z[:, None]], axis=1)
    y = (rows - K[1, 2]) / K[1, 1]
    x = (columns - K[0, 2] - K[0, 1] * y) / K[0, 0]
    return np.stack([x * z, y * z, z], axis=1)


def undistort(
    image: Picture,  # [H, W, 3]
    K: Array,  # [3, 3]
    distortion: Sequence[float] | Array,
    fisheye: bool = False,
) -> tuple[Picture, Array]:
    """Remove OpenCV lens distortion; return the image and its new pinhole matrix (no empty border)."""
    import cv2

    coefficients = np.asarray(distortion, dtype=np.float64)
    size = (image.shape[1], image.shape[0])
    if fisheye:
        if coefficients.size != 4:
            raise InputError(f"A fisheye camera has 4 distortion coefficients (k1 to k4), not {coefficients.size}.")
        new_K = cv2.fisheye.estimateNewCameraMatrixForUndistortRectify(K, coefficients, size, np.eye(3), balance=0.0)
        maps = cv2.fisheye.initUndistortRectifyMap(K, coefficients, np.eye(3), new_K, size, cv2.CV_32FC1)
    else:
        if coefficients.size not in (4, 5, 8, 12, 14):
            raise InputError(
                f"OpenCV distortion has 4, 5, 8, 12 or 14 coefficients (k1, k2, p1, p2, ...), not {coefficients.size}."
            )
        new_K, _ = cv2.getOptimalNewCameraMatrix(K, coefficients, size, 0.0)
        maps = cv2.initUndistortRectifyMap(K, coefficients, np.eye(3), new_K, size, cv2.CV_32FC1)
    straight = cv2.remap(image, maps[0], maps[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(straight, dtype=np.uint8), np.asarray(new_K, dtype=np.float64)


def undistorted_places(
    shape: tuple[int, int],  # of the distorted image
    K: Array,  # [3, 3], its camera
    new_K: Array,  # [3, 3], of the undistorted image, which has the same size
    distortion: Sequence[float] | Array,
    fisheye: bool = False,
) -> npt.NDArray[np.float32]:
    """Return where each pixel of the distorted image lies in the undistorted one, [H, W, 2]; NaN = outside."""
    import cv2

    coefficients = np.asarray(distortion, dtype=np.float64)
    rows, columns = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    pixels = np.stack([columns.ravel(), rows.ravel()], axis=1)[:, None]
    if fisheye:
        found = np.asarray(cv2.fisheye.undistortPoints(pixels, K, coefficients, None, new_K)).reshape(-1, 2)
    else:
        # The default of 5 iterations is a pixel off in the corners of wide lenses.
        criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-9)
        straight = np.asarray(cv2.undistortImagePoints(pixels, K, coefficients, None, criteria)).reshape(-1, 2)
        change = new_K @ np.linalg.inv(K)
        found = straight @ change[:2, :2].T + change[:2, 2]
    return mark_outside(found.reshape(*shape, 2).astype(np.float32), shape)


def mark_outside(
    places: npt.NDArray[np.float32],  # [H, W, 2], columns and rows
    shape: tuple[int, int],  # of the image that they lie in
) -> npt.NDArray[np.float32]:
    """Return the places with NaN where they lie more than half a pixel outside."""
    x, y = places[..., 0], places[..., 1]
    inside = (x >= -0.5) & (x <= shape[1] - 0.5) & (y >= -0.5) & (y <= shape[0] - 0.5)
    return np.where(inside[..., None], places, np.float32(np.nan))
