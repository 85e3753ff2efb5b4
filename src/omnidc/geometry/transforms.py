"""Rigid transforms as 4×4 matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError

Array = npt.NDArray[np.float64]


def rigid(
    matrix: npt.ArrayLike,  # [4, 4], [3, 4] or flat
    what: str,
) -> Array:
    """Return `matrix` as a 4×4 rigid transform, or say why it is none. `what` names it in the message."""
    try:
        values = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be a 4x4 (or 3x4) matrix of numbers.") from error
    if values.size == 12:
        values = np.vstack([values.reshape(3, 4), [0.0, 0.0, 0.0, 1.0]])
    if values.size != 16:
        raise InputError(f"{what} must be a 4x4 (or 3x4) matrix, but {values.size} numbers were given.")
    values = values.reshape(4, 4)
    if not np.isfinite(values).all():
        raise InputError(f"{what} holds NaN or infinite numbers; check the calibration or pose file.")
    R = values[:3, :3]
    off = float(np.abs(R @ R.T - np.eye(3)).max())
    if off > 1e-2 or np.linalg.det(R) < 0 or not np.allclose(values[3], [0, 0, 0, 1]):
        kind = "a mirror (determinant -1)" if off <= 1e-2 and np.linalg.det(R) < 0 else f"off by {off:.2g}"
        raise InputError(
            f"{what} is not a rotation with a translation (its rotation part is {kind}); "
            "check that rows and columns are not swapped and that no scale is mixed in."
        )
    # Text calibrations carry a few digits only: the nearest rotation (SVD) keeps lengths exact.
    U, _, Vt = np.linalg.svd(R)
    out = np.eye(4)
    out[:3, :3] = U @ Vt
    out[:3, 3] = values[:3, 3]
    return out


OPENGL_AXES = np.diag([1.0, -1.0, -1.0, 1.0])  # x right, y up, z backward; its own inverse


def from_opengl(
    matrix: npt.ArrayLike,  # camera to world, [4, 4], [3, 4] or flat
    what: str,
) -> Array:
    """Return a pose of a camera with OpenGL axes as one with OpenCV axes; `what` names it in messages."""
    return rigid(matrix, what) @ OPENGL_AXES


def inverse(matrix: Array) -> Array:
    """Return the inverse of a 4×4 rigid transform."""
    out = np.eye(4)
    out[:3, :3] = matrix[:3, :3].T
    out[:3, 3] = -matrix[:3, :3].T @ matrix[:3, 3]
    return out


def transform(
    matrix: Array,  # [4, 4]
    points: Array,  # [N, 3]
) -> Array:
    """Return the points in the other frame, [N, 3]."""
    return points @ matrix[:3, :3].T + matrix[:3, 3]


def pose_from_quaternion(
    position: Sequence[float],
    quaternion: Sequence[float],  # x, y, z, w
) -> Array:
    """Return the 4×4 camera-to-world matrix."""
    values = np.asarray(quaternion, dtype=np.float64)
    length = float(np.linalg.norm(values))
    if values.shape != (4,) or len(position) != 3 or not 0 < length < np.inf or not np.isfinite(position).all():
        raise InputError("A pose is a position (x y z) and a quaternion (x y z w) of finite numbers, not all 0.")
    x, y, z, w = values / length
    pose = np.eye(4)
    pose[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    pose[:3, 3] = position
    return pose
