"""Exports as sinks: each fills a `FolderSink` during the run and writes for its tool when the run ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from omnidc.errors import ConfigError, InputError
from omnidc.interop.colmap import write_dense
from omnidc.interop.fusion import fuse, pixel_size, voxel_downsample, write_cloud
from omnidc.interop.gaussian_splatting import write_dn_splatter, write_inria
from omnidc.interop.nerfstudio import write_nerfstudio
from omnidc.interop.views import PosedView, posed_views
from omnidc.pipeline.sinks import ExportSink, FolderSink, StoredFrame
from omnidc.sensors.colmap import ColmapModel, write_pinhole_model
from omnidc.viz.orbit import turntable, write_turntable

# What writes a tool's folder, and where in it the COLMAP model of the undistorted images belongs.
COLMAP_EXPORTS: dict[str, tuple[Callable[[Path, list[PosedView]], None], str]] = {
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
    if model is None or name == "nerfstudio":
        points, colors = (None, None) if model is None else model.colored_points()
        write_nerfstudio(folder, views, points, colors)
    else:
        write, place = COLMAP_EXPORTS[name]
        write(folder, views)
        write_pinhole_model(model, folder / place, [view.source for view in views])
    announce(f"wrote {folder} with {len(views)} images")


def fusion_sink(
    results: FolderSink | ExportSink,
    path: Path,  # .ply; a turntable is written beside it
    tolerance: float,  # relative difference of depth that counts as agreement
    keep_flying_pixels: bool = False,
    announce: Callable[[str], None] = lambda text: None,
) -> ExportSink:
    """Return a sink that fuses all posed results into one cloud."""
    return ExportSink(results, partial(_fuse, path, tolerance, keep_flying_pixels, announce))


def _fuse(
    path: Path,
    tolerance: float,
    keep_flying_pixels: bool,
    announce: Callable[[str], None],
    results: list[StoredFrame],
) -> None:
    from tqdm import tqdm

    views = posed_views(results)
    with tqdm(total=len(views), unit="view", dynamic_ncols=True, disable=None) as bar:

        def step(name: str) -> None:
            bar.update(1)

        cloud = fuse(views, tolerance, keep_flying_pixels=keep_flying_pixels, progress=step)
    if not len(cloud.points):
        raise InputError(
            f"No point agrees in three views within {tolerance:.0%}; raise --fuse-tolerance or check the poses."
        )
    share = len(cloud.points) / sum(view.size[0] * view.size[1] for view in views)
    cloud = voxel_downsample(cloud, pixel_size(views))
    write_cloud(path, cloud)
    upright = cloud.points @ views[len(views) // 2].pose[:3, :3]  # a camera's own axes: its "down" is down
    write_turntable(path.with_name(f"{path.stem}_turntable.jpg"), turntable(upright, cloud.colors, swing=None))
    announce(f"fused {len(views)} views: {share:.0%} of the pixels agree, {len(cloud.points)} points in {path}")
