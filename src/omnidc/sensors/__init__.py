"""Real sensors: each reader turns the files that people have into `Frame`s, and says what it did with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnidc.lazy import lazy_names

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
    "BagOptions": "omnidc.sensors.rosbag",
    "Filters": "omnidc.sensors.colmap",
    "LidarOptions": "omnidc.sensors.lidar",
    "RgbdOptions": "omnidc.sensors.rgbd",
    "bag_source": "omnidc.sensors.rosbag",
    "kitti_frames": "omnidc.sensors.lidar",
    "lidar_frame": "omnidc.sensors.lidar",
    "open_model": "omnidc.sensors.colmap",
    "open_pairs": "omnidc.sensors.rgbd",
    "open_recording": "omnidc.sensors.rgbd",
    "project_to_depth": "omnidc.geometry.rasterize",
    "radar_frame": "omnidc.sensors.radar",
    "read_calibration": "omnidc.io.calibration",
    "read_cloud": "omnidc.io.pointcloud",
    "transform": "omnidc.geometry.transforms",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
