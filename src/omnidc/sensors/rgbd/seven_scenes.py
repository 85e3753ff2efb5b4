"""7-Scenes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnidc.geometry.camera import intrinsics_matrix
from omnidc.geometry.transforms import inverse
from omnidc.io.calibration import Calibration
from omnidc.io.images import find_images
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig, depth_file, pose_file

# 7-Scenes publishes no calibration of its color camera. This one was estimated on red kitchen by this project.
SEVEN_SCENES = Rig(
    color=Calibration(intrinsics_matrix((529.0, 529.0, 321.0, 239.0), "7-Scenes color")),
    depth=Calibration(intrinsics_matrix((585.0, 585.0, 320.0, 240.0), "7-Scenes depth")),
    color_from_depth=np.array(
        [[1.0, 0.0, 0.0, -0.02556], [0.0, 1.0, 0.0, 0.0001], [0.0, 0.0, 1.0, 0.00203], [0.0, 0.0, 0.0, 1.0]]
    ),
    depth_scale=1000.0,
)


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read 7-Scenes: frame-N.color.*, frame-N.depth.png (mm, unregistered), frame-N.pose.txt; one folder or three."""
    colors = find_images(folder, "*.color.*") or find_images(folder / "images", "*.color.*")
    depth_home = folder / "depth" if (folder / "depth").is_dir() else folder
    pose_home = folder / "pose" if (folder / "pose").is_dir() else folder
    to_depth = inverse(SEVEN_SCENES.color_from_depth)
    records = []
    for image in colors:
        stem = image.name.split(".color.")[0]
        path = depth_file(depth_home, f"{stem}.depth")
        if path is not None:
            pose = pose_file(pose_home / f"{stem}.pose.txt")  # of the depth camera
            moved = pose @ to_depth if pose is not None else None
            records.append(RgbdRecord(stem, image, path, pose=moved, rig=SEVEN_SCENES))
    note = "7-Scenes: depth in mm, registered with a color calibration that we estimated (none is published)"
    return records, note
