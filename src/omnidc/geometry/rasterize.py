"""From points in space to a sparse depth map: pinhole projection, hidden points, registration of depth cameras.

Pixel centers are at integers (OpenCV), depth is z-depth; see docs/conventions.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.geometry.camera import backproject
from omnidc.geometry.transforms import transform

Array = npt.NDArray[np.float64]
Map = npt.NDArray[np.float32]

# A point is hidden when it lies this much (relative) behind the surface in front of it.
HIDDEN_TOLERANCE = 0.05


@dataclass
class PointCount:
    """How many points survived each step of `project_to_depth`."""

    given: int = 0
    in_front: int = 0
    in_image: int = 0
    hidden: int = 0
    not_drawn: int = 0  # `occluders_only`, and not hidden
    drawn: int = 0  # pixels with a measurement; points that share a pixel count once

    def summary(self) -> str:
        return (
            f"{self.given} points: {self.in_front} in front of the camera, {self.in_image} inside the image, "
            f"{self.hidden} hidden behind nearer ones, "
            + (f"{self.not_drawn} off the surface of the observed ones, " if self.not_drawn else "")
            + f"{self.drawn} pixels measured"
        )


def auto_occlusion_window(
    pixels: int,
    points: int,
    long_side: int,
) -> int:
    """Return the side of the window that bridges the gaps between points: four times their mean spacing, odd.

    It is at most a tenth of the image's longer side: beyond that, things beside each other would count as in front.
    """
    if points == 0:
        return 1
    spacing = (pixels / points) ** 0.5
    return 2 * int(min(round(2 * spacing), long_side // 20)) + 1


def hidden_points(
    columns: npt.NDArray[np.int64],  # [N], pixel columns inside the image
    rows: npt.NDArray[np.int64],  # [N]
    depth: Array,  # [N] > 0
    shape: tuple[int, int],
    occlusion_window: int,  # odd
    tolerance: float = HIDDEN_TOLERANCE,
) -> npt.NDArray[np.bool_]:
    """Return which points a nearer surface hides: a z-buffer with its gaps closed.

    The z-buffer holds inverse depth (0 = nothing) and is closed (morphology: dilation, then erosion) with a window
    of `occlusion_window` pixels. A point is hidden when every such window that contains it also contains a point
    nearer by more than `tolerance`. Closing bridges gaps between near points without growing their silhouette, and
    since the inverse depth of a plane is affine in the image, no plane ever hides its own points, however slanted.
    """
    import cv2

    nearest = np.zeros(shape, dtype=np.float32)
    inverse = (1.0 / depth).astype(np.float32)
    np.maximum.at(nearest, (rows, columns), inverse)
    if occlusion_window > 1:
        window = np.ones((occlusion_window, occlusion_window), dtype=np.uint8)
        # Outside the image nothing is known: a border of zeros keeps points at the rim visible.
        padded = np.pad(nearest, occlusion_window)
        closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, window)
        nearest = np.asarray(
            closed[occlusion_window:-occlusion_window, occlusion_window:-occlusion_window], dtype=np.float32
        )
    return np.asarray(inverse * (1.0 + tolerance) < nearest[rows, columns])


def project_to_depth(
    points: Array,  # [N, 3], camera frame
    K: Array,  # [3, 3]
    shape: tuple[int, int],  # height, width
    occlusion_window: int
    | None = None,  # side of the hidden-point window in pixels; None = from the density, 0 = no test
    tolerance: float = HIDDEN_TOLERANCE,
    known_visible: npt.NDArray[np.bool_] | None = None,  # [N], points known to be visible: never dropped as hidden
    occluders_only: npt.NDArray[np.bool_] | None = None,  # [N], points that hide others but are not drawn
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
    # Nearest pixel center. The comparison comes before the cast: far-off points overflow an integer.
    inside = (u >= -0.5) & (u < width - 0.5) & (v >= -0.5) & (v < height - 0.5)
    count.in_image = int(inside.sum())
    if count.in_image == 0:
        return sparse, count
    columns = np.floor(u[inside] + 0.5).astype(np.int64)
    rows = np.floor(v[inside] + 0.5).astype(np.int64)
    depth = kept[inside, 2]
    if occlusion_window is None:
        area = (np.ptp(columns) + 1) * (np.ptp(rows) + 1)
        occlusion_window = auto_occlusion_window(int(area), len(np.unique(rows * width + columns)), max(shape))
    elif occlusion_window < 0:
        raise InputError(f"The occlusion window is a number of pixels of at least 0, not {occlusion_window}.")
    if occlusion_window > 0:
        hidden = hidden_points(columns, rows, depth, shape, occlusion_window | 1, tolerance)  # a window needs a middle
        if known_visible is not None:
            hidden &= ~known_visible[front][inside]
        count.hidden = int(hidden.sum())
        if occluders_only is not None:
            hidden |= occluders_only[front][inside]
            count.not_drawn = int(hidden.sum()) - count.hidden
        columns, rows, depth = columns[~hidden], rows[~hidden], depth[~hidden]
    order = np.argsort(-depth, kind="stable")  # far to near: the last write, the nearest, stays
    sparse[rows[order], columns[order]] = depth[order]
    count.drawn = int((sparse > 0).sum())
    return sparse, count


def depth_at(
    points: Array,  # [N, 3], camera frame
    K: Array,  # [3, 3]
    depth: Map,  # [H, W], 0 = unknown
) -> Map:
    """Return the depth of the pixel that each point falls on, [N]; 0 for points behind the camera or outside."""
    height, width = depth.shape
    front = points[:, 2] > 1e-9
    z = np.where(front, points[:, 2], 1.0)
    u = (K[0, 0] * points[:, 0] + K[0, 1] * points[:, 1]) / z + K[0, 2]
    v = K[1, 1] * points[:, 1] / z + K[1, 2]
    inside = front & (u >= -0.5) & (u < width - 0.5) & (v >= -0.5) & (v < height - 0.5)
    columns, rows = (np.floor(x[inside] + 0.5).astype(np.int64) for x in (u, v))
    found = np.zeros(len(points), dtype=np.float32)
    found[inside] = depth[rows, columns]
    return found


def register(
    depth: Map,  # [h, w], depth camera, 0 = none
    depth_K: Array,  # [3, 3]
    color_K: Array,  # [3, 3]
    color_from_depth: Array,  # [4, 4]
    shape: tuple[int, int],  # of the color image
    distortion: Array | None = None,  # of the depth camera; the color image must be free of it
    fisheye: bool = False,
) -> tuple[Map, PointCount]:
    """Move a depth map into the color camera. Pixels of the color image that no measurement falls on stay 0."""
    points = transform(color_from_depth, backproject(depth, depth_K, distortion, fisheye))
    # Between neighboring depth pixels lie this many color pixels; the window must bridge them.
    stride = max(color_K[0, 0] / depth_K[0, 0], color_K[1, 1] / depth_K[1, 1], 1.0)
    return project_to_depth(points, color_K, shape, occlusion_window=2 * int(np.ceil(stride)) + 1)


def scatter_lowres(
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


def resize_sparse_nearest(
    sparse: npt.NDArray[np.float32],  # [h, w], 0 = none
    shape: tuple[int, int],
) -> npt.NDArray[np.float32]:
    """Move each measurement to the nearest pixel of another grid; of several in one pixel the most central one stays.

    Nothing is interpolated: a mean over an edge would be a depth that exists nowhere.
    """
    (h, w), (H, W) = sparse.shape, shape
    rows, columns = np.nonzero(sparse > 0)
    y, x = (rows + 0.5) * H / h, (columns + 0.5) * W / w  # in units of the new pixels, whose centers are at + 0.5
    new_rows, new_columns = np.minimum(y.astype(int), H - 1), np.minimum(x.astype(int), W - 1)
    offset = (y - new_rows - 0.5) ** 2 + (x - new_columns - 0.5) ** 2
    order = np.argsort(-offset, kind="stable")  # later assignments win: the most central last
    result = np.zeros(shape, np.float32)
    result[new_rows[order], new_columns[order]] = sparse[rows[order], columns[order]]
    return result


def resample_depth(
    depth: npt.NDArray[np.float32],  # [h, w], 0 = none
    places: npt.NDArray[np.float32],  # [H, W, 2], column and row in `depth`; NaN = none
) -> npt.NDArray[np.float32]:
    """Return depth at these places, [H, W]: bilinear on a surface, the nearest pixel at edges and beside holes."""
    import cv2

    known = np.asarray(np.isfinite(places).all(axis=2))
    x, y = np.moveaxis(np.where(known[..., None], places, -2).astype(np.float32), 2, 0)
    columns = np.clip(np.rint(x), 0, depth.shape[1] - 1).astype(np.int64)
    rows = np.clip(np.rint(y), 0, depth.shape[0] - 1).astype(np.int64)
    nearest = depth[rows, columns]
    smooth = cv2.remap(depth, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    around = np.ones((3, 3), np.uint8)
    low, high = cv2.erode(depth, around)[rows, columns], cv2.dilate(depth, around)[rows, columns]
    on_surface = (low > 0) & (high <= (1 + HIDDEN_TOLERANCE) * low)
    return np.where(known, np.where(on_surface, smooth, nearest), 0).astype(np.float32)


def resample_sparse(
    sparse: npt.NDArray[np.float32],  # [h, w], 0 = none
    places: npt.NDArray[np.float32],  # [H, W, 2], column and row in `sparse`; NaN = none
    values: npt.NDArray[np.float32],  # [h, w], one for each measurement
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the measurements and their values on the grid of `places`, each once, at the pixel nearest to it.

    Where the grid is coarser, a measurement that no pixel rounds to is left out.
    """
    rows, columns = np.nonzero(np.isfinite(places).all(axis=2))
    x, y = places[rows, columns].T
    source = np.rint(np.stack([y, x])).astype(np.int64)
    source = np.clip(source, 0, np.array([[sparse.shape[0] - 1], [sparse.shape[1] - 1]]))
    measured = sparse[source[0], source[1]] > 0
    rows, columns, x, y, source = rows[measured], columns[measured], x[measured], y[measured], source[:, measured]
    order = np.argsort((y - source[0]) ** 2 + (x - source[1]) ** 2, kind="stable")
    _, first = np.unique(source[0, order] * sparse.shape[1] + source[1, order], return_index=True)
    chosen = order[first]
    moved = np.zeros(places.shape[:2], np.float32)
    moved_values = np.full(places.shape[:2], np.nan, np.float32)
    moved[rows[chosen], columns[chosen]] = sparse[source[0, chosen], source[1, chosen]]
    moved_values[rows[chosen], columns[chosen]] = values[source[0, chosen], source[1, chosen]]
    return moved, moved_values
