"""RealSense and Azure Kinect recordings as Open3D's tools write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnidc.errors import FileError
from omnidc.geometry.camera import intrinsics_matrix
from omnidc.io.calibration import Calibration, read_table
from omnidc.sensors.rgbd.pairs import pair_records
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, Rig

FILES = ("camera_intrinsic.json", "intrinsic.json")


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read RealSense and Azure Kinect recordings by Open3D's tools: color/, depth/ (aligned), intrinsic.json."""
    file = next(folder / name for name in FILES if (folder / name).is_file())
    table = read_table(file)
    try:
        K = intrinsics_matrix(np.reshape(table["intrinsic_matrix"], (3, 3)).T, f"intrinsic_matrix in {file}")
        size = (int(table["width"]), int(table["height"])) if "width" in table else None
        rig = Rig(color=Calibration(K, image_size=size), depth_scale=float(table.get("depth_scale", 1000.0)))
    except (KeyError, TypeError) as error:
        raise FileError(f"{file} has no intrinsic_matrix of nine numbers ({error}).") from error
    note = f"RealSense / Azure Kinect recording: depth ÷ {rig.depth_scale:g}, aligned to color"
    return pair_records(folder / "color", folder / "depth", rig), note
