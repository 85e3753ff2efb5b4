"""Real sensors: each reader turns the files that people have into `Frame`s, and says what it did with them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnidc.geometry.rasterize import project_to_depth
    from omnidc.geometry.transforms import transform
    from omnidc.io.calibration import read_calibration
    from omnidc.io.pointcloud import read_cloud
    from omnidc.sensors.colmap import Filters, open_model
    from omnidc.sensors.lidar import LidarOptions, kitti_frames, lidar_frame
    from omnidc.sensors.radar import radar_frame
    from omnidc.sensors.rgbd import RgbdOptions, open_pairs, open_recording
    from omnidc.sensors.rosbag import BagOptions, bag_source

__all__ = [
    "BagOptions",
    "Filters",
    "LidarOptions",
    "RgbdOptions",
    "bag_source",
    "kitti_frames",
    "lidar_frame",
    "open_model",
    "open_pairs",
    "open_recording",
    "project_to_depth",
    "radar_frame",
    "read_calibration",
    "read_cloud",
    "transform",
]

# Fetched at first use: pycolmap and rosbags are extras.
_HOMES = {
    "BagOptions": "sensors.rosbag",
    "Filters": "sensors.colmap",
    "LidarOptions": "sensors.lidar",
    "RgbdOptions": "sensors.rgbd",
    "bag_source": "sensors.rosbag",
    "kitti_frames": "sensors.lidar",
    "lidar_frame": "sensors.lidar",
    "open_model": "sensors.colmap",
    "open_pairs": "sensors.rgbd",
    "open_recording": "sensors.rgbd",
    "project_to_depth": "geometry.rasterize",
    "radar_frame": "sensors.radar",
    "read_calibration": "io.calibration",
    "read_cloud": "io.pointcloud",
    "transform": "geometry.transforms",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"omnidc.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'omnidc.sensors' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
