"""From points in space to a sparse depth map: pinhole projection, hidden points, registration of depth cameras.

Pixel centres are at integers (OpenCV), depth is z-depth; see docs/conventions.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.outputs.pointcloud import check_intrinsics

Array = npt.NDArray[np.float64]
Map = npt.NDArray[np.float32]

# A point is hidden when it lies this much (relative) behind the surface in front of it.
HIDDEN_TOLERANCE = 0.05


@dataclass
class PointCount:
    """How many points survived each step of `scatter`."""

    given: int = 0
    in_front: int = 0
    in_image: int = 0
    hidden: int = 0
    drawn: int = 0  # pixels with a measurement; points that share a pixel count once

    def sentence(self) -> str:
        return (
            f"{self.given} points: {self.in_front} in front of the camera, {self.in_image} inside the image, "
            f"{self.hidden} hidden behind nearer ones, {self.drawn} pixels measured"
        )


def rigid(
    matrix: npt.ArrayLike,  # [4, 4], [3, 4] or flat
    what: str,
) -> Array:
    """Return `matrix` as a 4×4 rigid transform, or say why it is none. `what` names it in the message."""
    values = np.asarray(matrix, dtype=np.float64)
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


def inverse(matrix: Array) -> Array:
    """Return the inverse of a 4×4 rigid transform."""
    out = np.eye(4)
    out[:3, :3] = matrix[:3, :3].T
    out[:3, 3] = -matrix[:3, :3].T @ matrix[:3, 3]
    return out


def intrinsics_matrix(
    values: npt.ArrayLike,  # [3, 3], [4, 4], or flat 9, or (fx, fy, cx, cy)
    what: str,
) -> Array:
    """Return a checked 3×3 pinhole matrix; `what` names it in the message."""
    matrix = np.asarray(values, dtype=np.float64)
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
    """Intrinsics of an image resized by (x, y). Centres at integers: u' = (u + ½)·x − ½."""
    S = np.array([[x, 0.0, 0.5 * x - 0.5], [0.0, y, 0.5 * y - 0.5], [0.0, 0.0, 1.0]])
    return S @ K


def transform(
    matrix: Array,  # [4, 4]
    points: Array,  # [N, 3]
) -> Array:
    """Return the points in the other frame, [N, 3]."""
    return points @ matrix[:3, :3].T + matrix[:3, 3]


def auto_footprint(
    pixels: int,
    points: int,
) -> int:
    """Side of the window that bridges the gaps between points: four times their mean spacing, odd, at most 65."""
    if points == 0:
        return 1
    spacing = (pixels / points) ** 0.5
    return int(min(65, 2 * round(2 * spacing) + 1))


def hidden_points(
    columns: npt.NDArray[np.int64],  # [N], pixel columns inside the image
    rows: npt.NDArray[np.int64],  # [N]
    depth: Array,  # [N] > 0
    shape: tuple[int, int],
    footprint: int,
    tolerance: float = HIDDEN_TOLERANCE,
) -> npt.NDArray[np.bool_]:
    """Return which points a nearer surface hides: a z-buffer whose gaps are bridged with a footprint.

    The z-buffer holds inverse depth (0 = nothing) and is closed (morphology: dilation, then erosion) with a window
    of `footprint` pixels. A point is hidden when every such window that contains it also contains a point that is
    nearer by more than `tolerance`. Closing bridges gaps between near points without growing their silhouette, and
    since the inverse depth of a plane is affine in the image, no plane ever hides its own points, however slanted.
    """
    nearest = np.zeros(shape, dtype=np.float32)
    inverse = (1.0 / depth).astype(np.float32)
    np.maximum.at(nearest, (rows, columns), inverse)
    if footprint > 1:
        window = np.ones((footprint, footprint), dtype=np.uint8)
        # Outside the image nothing is known: a border of zeros keeps points at the rim visible.
        padded = np.pad(nearest, footprint)
        closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, window)
        nearest = np.asarray(closed[footprint:-footprint, footprint:-footprint], dtype=np.float32)
    return np.asarray(inverse * (1.0 + tolerance) < nearest[rows, columns])


def scatter(
    points: Array,  # [N, 3], camera frame
    K: Array,  # [3, 3]
    shape: tuple[int, int],  # height, width
    footprint: int | None = None,  # side of the hidden-point window in pixels; None = from the density, 0 = no test
    tolerance: float = HIDDEN_TOLERANCE,
    seen: npt.NDArray[np.bool_] | None = None,  # [N], points known to be visible: never dropped as hidden
) -> tuple[Map, PointCount]:
    """Draw points into a sparse depth map [H, W]; where several fall on a pixel the nearest one stays."""
    height, width = shape
    sparse = np.zeros(shape, dtype=np.float32)
    count = PointCount(given=len(points))
    finite = np.isfinite(points).all(axis=1)
    front = finite & (points[:, 2] > 1e-6)
    count.in_front = int(front.sum())
    kept = points[front]
    u = K[0, 0] * kept[:, 0] / kept[:, 2] + K[0, 1] * kept[:, 1] / kept[:, 2] + K[0, 2]
    v = K[1, 1] * kept[:, 1] / kept[:, 2] + K[1, 2]
    # Nearest pixel centre. The comparison comes before the cast: far-off points overflow an integer.
    inside = (u >= -0.5) & (u < width - 0.5) & (v >= -0.5) & (v < height - 0.5)
    count.in_image = int(inside.sum())
    if count.in_image == 0:
        return sparse, count
    columns = np.floor(u[inside] + 0.5).astype(np.int64)
    rows = np.floor(v[inside] + 0.5).astype(np.int64)
    depth = kept[inside, 2]
    if footprint is None:
        area = (np.ptp(columns) + 1) * (np.ptp(rows) + 1)
        footprint = auto_footprint(int(area), len(np.unique(rows * width + columns)))
    if footprint > 0:
        hidden = hidden_points(columns, rows, depth, shape, footprint, tolerance)
        if seen is not None:
            hidden &= ~seen[front][inside]
        count.hidden = int(hidden.sum())
        columns, rows, depth = columns[~hidden], rows[~hidden], depth[~hidden]
    order = np.argsort(-depth, kind="stable")  # far to near: the last write, the nearest, stays
    sparse[rows[order], columns[order]] = depth[order]
    count.drawn = int((sparse > 0).sum())
    return sparse, count


def backproject(
    depth: npt.NDArray[np.floating],  # [H, W], 0 = none
    K: Array,  # [3, 3]
    distortion: Array | None = None,  # OpenCV coefficients of the depth camera
    fisheye: bool = False,
) -> Array:
    """Return the measured pixels as points in the camera frame, [N, 3], row by row."""
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


def register(
    depth: Map,  # [h, w], depth camera, 0 = none
    depth_K: Array,  # [3, 3]
    color_K: Array,  # [3, 3]
    color_from_depth: Array,  # [4, 4]
    shape: tuple[int, int],  # of the colour image
    distortion: Array | None = None,  # of the depth camera; the colour image must be free of it
    fisheye: bool = False,
) -> tuple[Map, PointCount]:
    """Move a depth map into the colour camera. Pixels of the colour image that no measurement falls on stay 0."""
    points = transform(color_from_depth, backproject(depth, depth_K, distortion, fisheye))
    # Between neighbouring depth pixels lie this many colour pixels; the window must bridge them.
    stride = max(color_K[0, 0] / depth_K[0, 0], color_K[1, 1] / depth_K[1, 1], 1.0)
    return scatter(points, color_K, shape, footprint=2 * int(np.ceil(stride)) + 1)


def spread(
    depth: Map,  # [h, w], 0 = none, same view as the image
    shape: tuple[int, int],
) -> Map:
    """Put each pixel of a low-resolution map at its place in a larger image of the same view; the rest stays 0."""
    if depth.shape == shape:
        return depth
    rows, columns = np.nonzero(depth > 0)
    y = np.floor((rows + 0.5) * shape[0] / depth.shape[0]).astype(np.int64)
    x = np.floor((columns + 0.5) * shape[1] / depth.shape[1]).astype(np.int64)
    out = np.zeros(shape, dtype=np.float32)
    values = depth[rows, columns]
    order = np.argsort(-values, kind="stable")  # a smaller target: the nearest stays
    out[y[order], x[order]] = values[order]
    return out


def drop_flying_pixels(
    depth: Map,  # [H, W], 0 = none
    tolerance: float = 0.03,
) -> Map:
    """Remove pixels that hang between two surfaces, and lone speckles, from a dense depth map.

    A pixel is supported from a side when the neighbour there has its inverse depth, or when the line through the
    two neighbours there (inverse depth of a plane is affine) leads to it, within `tolerance`. A pixel that no side
    supports in a row or in a column is dropped: on a slanted plane both sides agree, at a clean edge one does, and
    a pixel between fore- and background has none.
    """
    inverse = np.zeros_like(depth, dtype=np.float64)
    np.divide(1.0, depth, out=inverse, where=depth > 0)

    def shifted(array: Array, dy: int, dx: int) -> Array:
        out = np.zeros_like(array)
        height, width = array.shape
        out[max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)] = array[
            max(-dy, 0) : height + min(-dy, 0), max(-dx, 0) : width + min(-dx, 0)
        ]
        return out

    def supported(dy: int, dx: int) -> npt.NDArray[np.bool_]:
        one, two = shifted(inverse, dy, dx), shifted(inverse, 2 * dy, 2 * dx)
        limit = tolerance * inverse
        flat = (one > 0) & (np.abs(inverse - one) <= limit)
        plane = (one > 0) & (two > 0) & (np.abs(inverse - (2 * one - two)) <= limit)
        return flat | plane

    in_row = supported(0, 1) | supported(0, -1)
    in_column = supported(1, 0) | supported(-1, 0)
    return np.where(in_row & in_column, depth, 0).astype(np.float32)
