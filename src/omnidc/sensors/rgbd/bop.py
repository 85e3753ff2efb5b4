"""BOP scenes and single views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from omnidc.errors import FileError
from omnidc.geometry.camera import intrinsics_matrix
from omnidc.geometry.transforms import Array, inverse, rigid
from omnidc.io.calibration import Calibration, read_table
from omnidc.io.images import find_images
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig, depth_file


def _bop_camera(entry: dict[str, Any], path: Path) -> tuple[Rig, Array | None]:
    try:
        K = intrinsics_matrix(entry["cam_K"], f"cam_K in {path}")
        # BOP's depth_scale takes stored numbers to millimeters.
        rig = Rig(color=Calibration(K), depth_scale=1000.0 / float(entry.get("depth_scale", 1.0)))
        pose = None
        if "cam_R_w2c" in entry and "cam_t_w2c" in entry:
            R, t = np.reshape(entry["cam_R_w2c"], (3, 3)), np.reshape(entry["cam_t_w2c"], (3, 1)) / 1000.0
            pose = inverse(rigid(np.hstack([R, t]), f"cam_R_w2c in {path}"))
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise FileError(f"{path} is no BOP camera file ({error} is missing or wrong).") from error
    return rig, pose


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read BOP: a scene (rgb/, depth/, scene_camera.json), or one view (rgb.png, depth.png, camera.json)."""
    records = []
    if (folder / "scene_camera.json").is_file():
        table = read_table(folder / "scene_camera.json")
        home = folder / "rgb" if (folder / "rgb").is_dir() else folder / "gray"
        for image in find_images(home):
            path = depth_file(folder / "depth", image.stem)
            entry = table.get(str(int(image.stem))) if image.stem.isdecimal() else None
            if path is not None and entry is not None:
                rig, pose = _bop_camera(entry, folder / "scene_camera.json")
                records.append(RgbdRecord(image.stem, image, path, pose=pose, rig=rig))
    else:
        rig, pose = _bop_camera(read_table(folder / "camera.json"), folder / "camera.json")
        records.append(RgbdRecord(folder.name, folder / "rgb.png", folder / "depth.png", pose=pose, rig=rig))
    return records, "BOP: depth_scale and intrinsics of the camera file, depth registered"
