"""ARKitScenes."""

from __future__ import annotations

from pathlib import Path

from omnidc.geometry.camera import intrinsics_matrix
from omnidc.io.calibration import Calibration, read_matrix
from omnidc.io.images import find_images
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig, depth_file


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read ARKitScenes: lowres_wide/ or vga_wide/, lowres_depth/ (mm), confidence/, <images>_intrinsics/*.pincam."""
    home = next(folder / name for name in ("wide", "vga_wide", "lowres_wide") if (folder / name).is_dir())
    records = []
    for image in find_images(home):
        path = depth_file(folder / "lowres_depth", image.stem)
        pincam = folder / f"{home.name}_intrinsics" / f"{image.stem}.pincam"
        if path is None:
            continue
        rig = Rig(depth_scale=1000.0)
        if pincam.is_file():
            width, height, *camera = read_matrix(pincam).ravel()
            rig.color = Calibration(intrinsics_matrix(camera, str(pincam)), image_size=(int(width), int(height)))
        sure = folder / "confidence" / f"{image.stem}.png"
        records.append(RgbdRecord(image.stem, image, path, sure if sure.is_file() else None, rig=rig))
    return records, "ARKitScenes: depth in mm at low resolution, same view as color"
