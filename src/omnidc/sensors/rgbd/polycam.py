"""Polycam's raw export."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnidc.errors import FileError
from omnidc.geometry.transforms import from_opengl
from omnidc.io.calibration import parse_camera, read_table
from omnidc.io.images import find_images
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig, depth_file


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read Polycam's raw export: keyframes/ with (corrected_)images, depth (mm), confidence and (corrected_)cameras."""
    home = folder / "keyframes" if (folder / "keyframes").is_dir() else folder
    kind = "corrected_" if (home / "corrected_cameras").is_dir() and (home / "corrected_images").is_dir() else ""
    records = []
    for image in find_images(home / f"{kind}images"):
        path, camera = depth_file(home / "depth", image.stem), home / f"{kind}cameras" / f"{image.stem}.json"
        if path is None or not camera.is_file():
            continue
        table = read_table(camera)
        try:
            pose = np.eye(4)
            pose[:3] = [[table[f"t_{row}{column}"] for column in range(4)] for row in range(3)]
            if "width" in table and "height" in table:
                table["image_size"] = [table["width"], table["height"]]
        except KeyError as error:
            raise FileError(f"{camera} has no {error}; is it a Polycam camera?") from error
        sure = home / "confidence" / f"{image.stem}.png"
        rig = Rig(color=parse_camera(table, camera), depth_scale=1000.0)
        records.append(
            RgbdRecord(
                image.stem,
                image,
                path,
                sure if sure.is_file() else None,
                from_opengl(pose, f"The pose in {camera}"),
                rig,
            )
        )
    return records, "Polycam: depth in mm at low resolution, same view as color"
