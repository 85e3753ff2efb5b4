"""Exports as sinks: each fills a `FolderSink` during the run and writes for its tool when the run ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from omnidc.errors import ConfigError, InputError
from omnidc.geometry.cloud import Cloud, voxel_downsample
from omnidc.interop.colmap import write_dense
from omnidc.interop.commands import training_command
from omnidc.interop.fusion import dense_cloud, fuse, pixel_size, stride_for, write_cloud
from omnidc.interop.gaussian_splatting import ordered_names, write_dn_splatter, write_inria
from omnidc.interop.nerfstudio import write_nerfstudio
from omnidc.interop.tsdf import fuse_mesh
from omnidc.interop.views import PosedView, place_images, posed_views
from omnidc.io.mesh import write_mesh
from omnidc.pipeline.options import WriteOptions
from omnidc.pipeline.sinks import ExportSink, FolderSink, StoredFrame
from omnidc.sensors.colmap import ColmapModel, DensePoints, write_pinhole_model
from omnidc.viz.orbit import turntable, write_turntable

# What writes a tool's folder, and where in it the COLMAP model of the undistorted images belongs.
COLMAP_EXPORTS: dict[str, tuple[Callable[[Path, list[PosedView]], None], str]] = {
    "colmap-dense-points": (place_images, "sparse/0"),
    "inria": (write_inria, "sparse/0"),
    "dn-splatter": (write_dn_splatter, "colmap/sparse/0"),
    "colmap": (write_dense, "sparse"),
}


def export_sink(
    results: FolderSink | ExportSink,
    name: str,  # of EXPORTS
    folder: Path,
    model: ColmapModel | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> ExportSink:
    """Return a sink that writes the folder of another tool; all but nerfstudio's need the COLMAP model."""
    if name != "nerfstudio" and model is None:
        raise ConfigError(f"--export {name} needs a COLMAP model; for other posed frames use --export nerfstudio.")
    return ExportSink(results, partial(_export, name, folder, model, announce))


def _export(
    name: str,
    folder: Path,
    model: ColmapModel | None,
    announce: Callable[[str], None],
    results: list[StoredFrame],
) -> None:
    views = posed_views(results)
    dense = _dense_points(views, announce)
    if model is None or name == "nerfstudio":
        clouds = [] if model is None else [model.colored_points()]
        clouds += [] if dense is None else [(dense.points, dense.colors)]
        points, colors = (np.concatenate(parts) for parts in zip(*clouds)) if clouds else (None, None)
        write_nerfstudio(folder, views, points, colors)
    else:
        write, place = COLMAP_EXPORTS[name]
        write(folder, views)
        files = [view.source for view in views]
        rename = ordered_names(views) if name == "dn-splatter" else None
        write_pinhole_model(model, folder / place, files, centered=name == "inria", rename=rename, dense=dense)
    announce(f"wrote {folder} with {len(views)} images")
    for line in training_command(name, folder):
        announce(f"  {line}")


def _dense_points(views: list[PosedView], announce: Callable[[str], None]) -> DensePoints | None:
    """Return a thinned cloud of the results; None, which is announced, where less than three views agree."""
    from tqdm import tqdm

    if len(views) < 3:
        announce(f"note: no points of the depth are added to the model: that takes three views, not {len(views)}")
        return None
    with tqdm(total=len(views), unit="view", dynamic_ncols=True, disable=None) as bar:
        cloud, seen = dense_cloud(views, progress=lambda name: bar.update())
    if not len(seen):
        announce("note: no points of the depth are added to the model: no three views agree on one")
        return None
    return DensePoints(cloud.points, cloud.colors, seen, [view.source for view in views])


def fusion_sink(
    results: FolderSink | ExportSink,
    path: Path,  # .ply; a turntable is written beside it
    tolerance: float,  # relative difference of depth that counts as agreement
    write: WriteOptions | None = None,  # its stride, voxel and keep_flying_pixels
    announce: Callable[[str], None] = lambda text: None,
) -> ExportSink:
    """Return a sink that fuses all posed results into one cloud."""
    return ExportSink(results, partial(_fuse, path, tolerance, write or WriteOptions(), announce))


def _fuse(
    path: Path,
    tolerance: float,
    write: WriteOptions,
    announce: Callable[[str], None],
    results: list[StoredFrame],
) -> None:
    fuse_views(path, posed_views(results), tolerance, write, announce)


def fuse_views(
    path: Path,  # .ply; a turntable is written beside it
    views: list[PosedView],
    tolerance: float,  # relative difference of depth that counts as agreement
    write: WriteOptions,  # its stride, voxel and keep_flying_pixels
    announce: Callable[[str], None] = lambda text: None,
) -> Cloud:
    """Fuse views within the bounds of memory, with a progress bar; write and return the cloud."""
    from tqdm import tqdm

    stride = max(write.stride, stride_for(views))
    if stride > write.stride:
        announce(f"note: every {stride}th pixel in both directions is fused, to bound memory and time")
    with tqdm(total=len(views), unit="view", dynamic_ncols=True, disable=None) as bar:

        def step(name: str) -> None:
            bar.update(1)

        cloud = fuse(views, tolerance, stride=stride, keep_flying_pixels=write.keep_flying_pixels, progress=step)
    if not len(cloud.points):
        raise InputError(
            f"No point agrees in three views within {tolerance:.0%}; raise --fuse-tolerance or check the poses."
        )
    share = len(cloud.points) / sum(-(-view.size[0] // stride) * -(-view.size[1] // stride) for view in views)
    cloud = voxel_downsample(cloud, write.voxel or stride * pixel_size(views))
    write_cloud(path, cloud)
    upright = cloud.points @ views[len(views) // 2].pose[:3, :3]  # a camera's own axes: its "down" is down
    write_turntable(path.with_name(f"{path.stem}_turntable.jpg"), turntable(upright, cloud.colors, swing=None))
    announce(f"fused {len(views)} views: {share:.0%} of the pixels agree, {len(cloud.points)} points in {path}")
    return cloud


def mesh_sink(
    results: FolderSink | ExportSink,
    path: Path,  # .ply
    voxel: float | None = None,  # edge length; None = from the size of a pixel and of the scene
    announce: Callable[[str], None] = lambda text: None,
) -> ExportSink:
    """Return a sink that fuses all posed results into one mesh."""
    return ExportSink(results, partial(_mesh, path, voxel, announce))


def _mesh(path: Path, voxel: float | None, announce: Callable[[str], None], results: list[StoredFrame]) -> None:
    from tqdm import tqdm

    views = posed_views(results)
    with tqdm(total=len(views), unit="view", dynamic_ncols=True, disable=None) as bar:
        mesh = fuse_mesh(views, voxel, progress=lambda name: bar.update())
    write_mesh(path, mesh.vertices, mesh.faces, mesh.colors)
    announce(
        f"fused {len(views)} views: {len(mesh.vertices):,} vertices and {len(mesh.faces):,} triangles in {path}, "
        f"voxels of {mesh.voxel:.3g}"
    )
