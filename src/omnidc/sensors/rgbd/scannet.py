"""ScanNet's export."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnidc.geometry.camera import intrinsics_matrix
from omnidc.geometry.transforms import inverse, rigid
from omnidc.io.calibration import Calibration, read_matrix
from omnidc.io.images import find_images
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig, depth_file, pose_file


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read ScanNet's export: color/, depth/ (mm), pose/, intrinsic/ with both cameras."""
    home = folder / "intrinsic"
    color = Calibration(intrinsics_matrix(read_matrix(home / "intrinsic_color.txt"), "intrinsic_color.txt"))
    depth = Calibration(intrinsics_matrix(read_matrix(home / "intrinsic_depth.txt"), "intrinsic_depth.txt"))
    move = np.eye(4)
    if (home / "extrinsic_color.txt").is_file() and (home / "extrinsic_depth.txt").is_file():
        to_color = rigid(read_matrix(home / "extrinsic_color.txt"), "extrinsic_color.txt")
        move = inverse(to_color) @ rigid(read_matrix(home / "extrinsic_depth.txt"), "extrinsic_depth.txt")
    rig = Rig(color, depth, move, 1000.0)
    records = []
    for image in find_images(folder / "color"):
        path = depth_file(folder / "depth", image.stem)
        if path is not None:
            pose = pose_file(folder / "pose" / f"{image.stem}.txt")
            records.append(RgbdRecord(image.stem, image, path, pose=pose, rig=rig))
    return records, "ScanNet layout: depth in mm, registered with both intrinsics"
