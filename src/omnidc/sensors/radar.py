"""Radar: few returns, each good in range and poor in angle, drawn as a small patch instead of a point."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnidc.errors import InputError
from omnidc.frame import Frame, point_warnings
from omnidc.geometry.rasterize import Map, PointCount, project_to_depth
from omnidc.geometry.transforms import Array, transform
from omnidc.io.calibration import Calibration
from omnidc.io.images import read_photograph
from omnidc.io.pointcloud import read_cloud
from omnidc.sensors.lidar import UNIT_REASON, check_projection
from omnidc.sensors.photo import take_photo


def spread_returns(
    points: Array,  # [N, 3], camera frame
    K: Array,  # [3, 3]
    shape: tuple[int, int],
    azimuth: float,  # half width of a return, degrees
    elevation: float,  # half height, degrees
    spacing: int,  # pixels between the samples of a patch
) -> tuple[Map, PointCount]:
    """Draw each return as a grid of samples of its depth inside the ellipse of its angular spread.

    Where patches overlap, a pixel belongs to the return whose center is nearest in units of the spread.
    """
    if azimuth < 0 or elevation < 0 or azimuth >= 45 or elevation >= 45:
        raise InputError(f"The angular spread must be between 0 and 45 degrees, not {azimuth:g} and {elevation:g}.")
    if spacing < 1:
        raise InputError(f"The spacing of the samples must be at least 1 pixel, not {spacing}.")
    sparse, count = project_to_depth(points, K, shape, occlusion_window=0)
    height, width = shape
    front = points[np.isfinite(points).all(axis=1) & (points[:, 2] > 1e-6)]
    u = K[0, 0] * front[:, 0] / front[:, 2] + K[0, 2]
    v = K[1, 1] * front[:, 1] / front[:, 2] + K[1, 2]
    x_reach = K[0, 0] * np.tan(np.radians(azimuth))
    y_reach = K[1, 1] * np.tan(np.radians(elevation))
    dx = np.arange(-int(x_reach // spacing), int(x_reach // spacing) + 1) * float(spacing)
    dy = np.arange(-int(y_reach // spacing), int(y_reach // spacing) + 1) * float(spacing)
    grid_x, grid_y = (axis.ravel() for axis in np.meshgrid(dx, dy))
    distance = (grid_x / max(x_reach, 1e-9)) ** 2 + (grid_y / max(y_reach, 1e-9)) ** 2
    grid_x, grid_y, distance = grid_x[distance <= 1], grid_y[distance <= 1], distance[distance <= 1]
    # Far samples first, then far returns: what is written last stays.
    order = np.lexsort((-np.repeat(front[:, 2], len(distance)), -np.tile(distance, len(front))))
    columns = np.floor((u[:, None] + grid_x).ravel()[order] + 0.5)
    rows = np.floor((v[:, None] + grid_y).ravel()[order] + 0.5)
    depth = np.repeat(front[:, 2], len(distance))[order]
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    sparse[rows[inside].astype(np.int64), columns[inside].astype(np.int64)] = depth[inside]
    count.drawn = int((sparse > 0).sum())
    return sparse, count


def radar_frame(
    scan: Path,
    image: Path,
    calibration: Calibration,
    columns: int | None = None,  # of a .bin; View-of-Delft has 7
    azimuth: float = 0.5,
    elevation: float = 1.0,
    spacing: int = 8,
    masks: Path | None = None,  # folder of masks, by COLMAP's names, or one mask
    ignore_exif: bool = False,  # take the photograph as stored
) -> Frame:
    """Return one photograph with the returns of one radar scan. Radar sees past edges: no hidden-point test."""
    points = read_cloud(scan, columns)
    photo = take_photo(read_photograph(image, ignore_exif=ignore_exif), calibration, image.name, masks)
    assert photo.K is not None
    local = transform(calibration.camera_from_sensor, points)
    sparse, count = spread_returns(local, photo.K, photo.shape, azimuth, elevation, spacing)
    check_projection(count, str(scan), str(image))
    returns = f"{len(points)} returns, each spread by ±{azimuth:g}° across and ±{elevation:g}° up and down"
    frame = Frame(
        photo.image,
        sparse,
        intrinsics=photo.K,
        name=image.stem,
        source=image.name,
        unit_reason=UNIT_REASON,
        warnings=(*point_warnings(sparse), *photo.warnings),
        returns=count.in_image,
        notes=(count.summary(), returns, *photo.notes),
    )
    return photo.finish(frame)
