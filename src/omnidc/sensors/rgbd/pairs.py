"""Color and depth files paired by name, and rigs from a calibration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from natsort import natsorted

from omnidc.errors import InputError
from omnidc.geometry.transforms import inverse, rigid
from omnidc.io.calibration import parse_camera, read_table
from omnidc.io.depth import CODECS
from omnidc.io.images import find_images
from omnidc.io.trajectory import Trajectory, poses_by_name, read_trajectory
from omnidc.io.untrusted import untrusted
from omnidc.sensors.rgbd.record import RgbdRecord, Rig


def pair_records(colors: Path, depths: Path, rig: Rig, confidences: Path | None = None) -> list[RgbdRecord]:
    """Match files by stem; by order when no stem is shared and the counts are equal (recorders that write stamps)."""
    images = find_images(colors)
    maps = [path for path in depths.iterdir() if path.suffix.lower() in CODECS] if depths.is_dir() else []
    maps = natsorted(maps, key=lambda path: path.name)
    by_stem = {path.stem: path for path in maps}
    sure = {path.stem: path for path in find_images(confidences)} if confidences is not None else {}
    records = [
        RgbdRecord(image.stem, image, by_stem[image.stem], sure.get(image.stem), rig=rig)
        for image in images
        if image.stem in by_stem
    ]
    if not records and maps and len(images) == len(maps):
        note = "paired by order, since no file names are shared"
        records = [RgbdRecord(image.stem, image, path, rig=rig, note=note) for image, path in zip(images, maps)]
    return records


def calibrated_rig(path: Path) -> Rig:
    """Read a rig from JSON or YAML: `color`, `depth` (cameras as for LiDAR), `color_from_depth`, `depth_scale`.

    Without `depth` (or with the color camera's own keys at the top) the depth map is taken as registered.
    """
    with untrusted(path, "a calibration of two cameras", "docs/bridges.md shows one"):
        return _parse_rig(read_table(path), path)


def calibrated_poses(path: Path) -> Trajectory | None:
    """Return the `poses` of a calibration file: a table from names to 4×4, or the path of a trajectory beside it."""
    table = read_table(path).get("poses")
    if isinstance(table, str):
        return read_trajectory(path.parent / table)
    if table is not None and not isinstance(table, dict):
        raise InputError(f"poses in {path} is a table from names to 4x4 matrices, or the name of a trajectory file.")
    return None if table is None else poses_by_name(table, f"The pose in {path} of")


def _parse_rig(table: dict[str, Any], path: Path) -> Rig:
    rig = Rig()
    top = table.get("color", table.get("colour"))
    if isinstance(top, dict):
        rig.color = parse_camera(top, path)
    elif "K" in table or "fx" in table:
        rig.color = parse_camera(table, path)
    if isinstance(table.get("depth"), dict):
        rig.depth = parse_camera(table["depth"], path)
    if "color_from_depth" in table:
        rig.color_from_depth = rigid(table["color_from_depth"], f"color_from_depth in {path}")
        if rig.depth is None:
            raise InputError(f"{path} gives color_from_depth but no depth camera; add depth with its K.")
    elif "depth_from_color" in table:
        rig.color_from_depth = inverse(rigid(table["depth_from_color"], f"depth_from_color in {path}"))
    elif rig.depth is not None:
        raise InputError(f"{path} has two cameras; add color_from_depth (4x4), which takes depth points to color.")
    if "depth_scale" in table:
        rig.depth_scale = float(table["depth_scale"])
    return rig
