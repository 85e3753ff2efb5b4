"""One mesh from many posed depth maps: a truncated signed distance function (TSDF) and its zero surface.

Each voxel holds the mean over the views of the distance to the surface along z, truncated to ±1. Only blocks of voxels
near a measured surface are updated. The surface is extracted with surface nets: one vertex in every cell with a change
of sign, at the mean of the crossings on its edges, and one quadrilateral for every edge that is crossed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.geometry.camera import unproject
from omnidc.geometry.surface import surface_mask
from omnidc.geometry.transforms import inverse, transform
from omnidc.interop.fusion import consistent_mask, pixel_size
from omnidc.interop.views import PosedView, common_unit
from omnidc.io.images import read_image

Array = npt.NDArray[np.float64]

MAX_VOXELS = 32_000_000  # 400 MB with weights and indices
BLOCK = 8  # voxels along the edge of a block
TRUNCATION = 4.0  # voxels
COLOR_TOLERANCE = 0.03  # relative difference of depth at which a view shows a vertex


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh in the world frame."""

    vertices: Array  # [V, 3]
    faces: npt.NDArray[np.int64]  # [F, 3]
    colors: npt.NDArray[np.uint8]  # [V, 3]
    voxel: float  # edge length of the voxels, unit of the vertices


@dataclass
class Volume:
    """A grid of voxels; `weight` 0 = unknown."""

    origin: Array  # [3], center of the first voxel
    voxel: float
    distance: npt.NDArray[np.float32]  # [X, Y, Z], −1 (behind the surface) to 1 (in front)
    weight: npt.NDArray[np.float32]  # [X, Y, Z], number of views


def fuse_mesh(
    views: list[PosedView],
    voxel: float | None = None,  # edge length; None = two pixels, or what memory allows
    agree: int = 2,  # views that must have measured a voxel
    progress: Callable[[str], object] = lambda name: None,
) -> Mesh:
    """Fuse posed depth maps into one mesh."""
    if len(views) < agree:
        raise InputError(f"A mesh needs at least {agree} posed frames, but there are {len(views)}.")
    common_unit(views)
    volume = empty_volume(views, voxel)
    for view in views:
        integrate_view(volume, view)
        progress(view.name)
    vertices, faces = surface_nets(volume, agree)
    if not len(faces):
        raise InputError(f"No surface is visible in {agree} views: check the poses, or give a larger --voxel.")
    return Mesh(vertices, faces, _colors(vertices, views), volume.voxel)


def _surface(view: PosedView, stride: int) -> Array:
    """Return points of a view's surface in the camera frame, [N, 3]; every `stride`-th pixel in both directions."""
    depth = view.depth()
    keep = surface_mask(depth)[::stride, ::stride]
    return unproject(depth, view.intrinsics)[::stride, ::stride][keep].astype(np.float64)


def empty_volume(views: list[PosedView], voxel: float | None) -> Volume:
    """Return a volume around the surfaces of all views, without the farthest percent on each side."""
    points = np.concatenate([transform(view.pose, _surface(view, 8)) for view in views])
    if not len(points):
        raise InputError("The frames have no depth to fuse.")
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    extent = np.maximum(high - low, 1e-9)
    size = voxel or 2 * pixel_size(views)
    margin = 2 * BLOCK  # voxels on all sides
    while float(np.prod(np.ceil(extent / size) + 2 * margin)) > MAX_VOXELS:
        if voxel is not None:
            raise InputError(f"Voxels of {voxel:g} are too many for a scene of {extent.max():.3g}: raise --voxel.")
        size *= 1.1
    shape = (np.ceil((np.ceil(extent / size) + 2 * margin) / BLOCK) * BLOCK).astype(int)
    distance = np.zeros(shape, np.float32)
    return Volume(low - margin * size, size, distance, np.zeros_like(distance))


def integrate_view(volume: Volume, view: PosedView) -> None:
    """Add one depth map to the voxels near its surface."""
    blocks = np.array(volume.distance.shape) // BLOCK
    reach = TRUNCATION * volume.voxel
    points = _surface(view, 2)
    found = []
    for shift in (-reach, 0.0, reach):  # along the ray
        moved = transform(view.pose, points * (1 + shift / points[:, 2:]))
        cells = np.floor((moved - volume.origin) / (BLOCK * volume.voxel)).astype(np.int64)
        cells = cells[((cells >= 0) & (cells < blocks)).all(axis=1)]
        found.append(np.unique(np.ravel_multi_index(tuple(cells.T), tuple(blocks))))
    corners = np.stack(np.unravel_index(np.unique(np.concatenate(found)), tuple(blocks)), axis=1) * BLOCK
    inside = np.stack(np.meshgrid(*[np.arange(BLOCK)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    depth, K, camera_from_world = view.depth(), view.intrinsics, inverse(view.pose)
    height, width = depth.shape
    for part in np.array_split(corners, max(1, len(corners) // 2048)):  # a million voxels at a time
        index = (part[:, None] + inside).reshape(-1, 3)
        local = transform(camera_from_world, volume.origin + index * volume.voxel)
        z = np.maximum(local[:, 2], 1e-9)
        u = np.rint(K[0, 0] * local[:, 0] / z + K[0, 2])
        v = np.rint(K[1, 1] * local[:, 1] / z + K[1, 2])
        seen = (local[:, 2] > 1e-9) & (u >= 0) & (u < width) & (v >= 0) & (v < height)
        index, z = index[seen], z[seen]
        measured = depth[v[seen].astype(np.int64), u[seen].astype(np.int64)]
        distance = (measured - z) / reach
        near = (measured > 0) & (distance >= -1)
        place = tuple(index[near].T)
        weight = volume.weight[place]
        volume.distance[place] = (weight * volume.distance[place] + np.minimum(distance[near], 1)) / (weight + 1)
        volume.weight[place] = weight + 1


def surface_nets(volume: Volume, agree: int = 1) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return vertices [V, 3] and triangles [F, 3] of the zero surface, among voxels that `agree` views measured."""
    inside = volume.distance < 0
    known = volume.weight >= agree
    corners = list(product((0, 1), repeat=3))
    ends = np.array(inside.shape) - 1
    windows = [tuple(slice(c, c + end) for c, end in zip(corner, ends)) for corner in corners]
    whole = np.logical_and.reduce([known[window] for window in windows])
    count = np.add.reduce([inside[window].astype(np.int8) for window in windows])
    cells = np.argwhere(whole & (count > 0) & (count < 8))  # [V, 3]
    number = np.full(tuple(ends), -1, np.int32)
    number[tuple(cells.T)] = np.arange(len(cells))
    values = np.stack([volume.distance[tuple((cells + corner).T)] for corner in corners], axis=1)  # [V, 8]
    total, crossings = np.zeros((len(cells), 3)), np.zeros(len(cells))
    for a, b in combinations(range(8), 2):
        if (a ^ b).bit_count() != 1:
            continue  # a diagonal, not an edge
        one, two = values[:, a].astype(np.float64), values[:, b].astype(np.float64)
        crossed = (one < 0) != (two < 0)
        share = np.where(crossed, one / np.where(crossed, one - two, 1), 0)
        place = np.array(corners[a]) + share[:, None] * (np.array(corners[b]) - corners[a])
        total += np.where(crossed[:, None], place, 0)
        crossings += crossed
    vertices = volume.origin + volume.voxel * (cells + total / np.maximum(crossings, 1)[:, None])
    return vertices, np.concatenate([_quads(inside, number, axis) for axis in range(3)])


def _quads(inside: npt.NDArray[np.bool_], number: npt.NDArray[np.int32], axis: int) -> npt.NDArray[np.int64]:
    """Return two triangles for every crossed edge along `axis`, [F, 3]: its four cells, facing the outside."""
    first, second = (axis + 1) % 3, (axis + 2) % 3
    before, after = [slice(None)] * 3, [slice(None)] * 3
    before[axis], after[axis] = slice(None, -1), slice(1, None)
    start = np.argwhere(inside[tuple(before)] != inside[tuple(after)])
    others, limits = start[:, [first, second]], np.array(number.shape)[[first, second]]
    start = start[((others > 0) & (others < limits)).all(axis=1)]  # at the border an edge has fewer than four cells
    around = []
    for step in ((-1, -1), (0, -1), (0, 0), (-1, 0)):
        cell = start.copy()
        cell[:, first] += step[0]
        cell[:, second] += step[1]
        around.append(number[tuple(cell.T)])
    quads = np.stack(around, axis=1).astype(np.int64)
    whole = (quads >= 0).all(axis=1)
    leaving = inside[tuple(start[whole].T)]  # the edge leads from inside to outside
    quads = np.where(leaving[:, None], quads[whole], quads[whole][:, ::-1])
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


def _colors(vertices: Array, views: list[PosedView]) -> npt.NDArray[np.uint8]:
    """Return the mean color of each vertex over the views that show it, [V, 3]; gray where none does."""
    total, count = np.zeros((len(vertices), 3)), np.zeros(len(vertices))
    for view in views:
        shown = consistent_mask(vertices, view.depth(), view.intrinsics, view.pose, COLOR_TOLERANCE)
        local = transform(inverse(view.pose), vertices[shown])
        pixels = (local / local[:, 2:]) @ view.intrinsics.T
        columns, rows = np.floor(pixels[:, :2] + 0.5).astype(np.int64).T
        total[shown] += read_image(view.image, apply_exif=False)[rows, columns]
        count += shown
    return np.where(count[:, None] > 0, np.rint(total / np.maximum(count, 1)[:, None]), 128).astype(np.uint8)
