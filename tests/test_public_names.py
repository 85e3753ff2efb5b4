"""The public names as a snapshot: a change here is a change for users and belongs in the changelog."""

from __future__ import annotations

import inspect
from dataclasses import fields

import omnidc
import omnidc.pipeline
import omnidc.sensors
from omnidc.frame import Frame, Unit
from omnidc.pipeline import CompleteOptions, Completion, make_frame

PUBLIC = {
    "omnidc": ["Completion", "DepthCompleter", "OmnidcError", "__version__", "complete", "load"],
    "pipeline": [
        "CompleteOptions",
        "Completion",
        "DepthCompleter",
        "FolderSink",
        "Sink",
        "complete_source",
        "default_model",
        "load",
        "make_frame",
    ],
    "sensors": [
        *("BagOptions", "Filters", "LidarOptions", "RgbdOptions", "bag_source", "kitti_frames", "lidar_frame"),
        *("open_model", "open_pairs", "open_recording", "project_to_depth", "radar_frame", "read_calibration"),
        *("read_cloud", "transform"),
    ],
    "CompleteOptions": ["keep_input", "max_long_side", "tile", "clip_depth", "sky", "max_uncertainty"],
    "make_frame": [
        *("image", "sparse", "intrinsics", "depth_scale", "ray_depth", "resize_sparse", "disparity", "mask"),
        *("ignore_exif", "name"),
    ],
    "Frame": [
        *("image", "sparse", "depth", "intrinsics", "pose", "unit", "name", "sky", "mask", "normals"),
        *("timestamp", "source", "returns", "unit_reason", "warnings", "notes", "pixels", "original"),
    ],
    "Unit": ["m", "scene", "input's unit", "relative"],
    "Completion": [
        *("depth", "uncertainty", "input_confidence", "sparse", "image", "intrinsics", "unit", "warnings", "details"),
        "sky",
        "returns",
    ],
    "Completion methods": ["metadata", "points", "preview", "relative", "residual", "save", "save_maps", "to_torch"],
    "DepthCompleter methods": ["complete", "complete_frames", "complete_inputs"],
}


def members(kind: type) -> list[str]:
    names = [
        name for name, value in inspect.getmembers(kind) if inspect.isfunction(value) or isinstance(value, property)
    ]
    return sorted(name for name in names if not name.startswith("_"))


def test_public_names_are_the_snapshot() -> None:
    actual = {
        "omnidc": omnidc.__all__,
        "pipeline": omnidc.pipeline.__all__,
        "sensors": omnidc.sensors.__all__,
        "CompleteOptions": [field.name for field in fields(CompleteOptions)],
        "make_frame": list(inspect.signature(make_frame).parameters),
        "Frame": [field.name for field in fields(Frame)],
        "Unit": [unit.value for unit in Unit],
        "Completion": [field.name for field in fields(Completion)],
        "Completion methods": members(Completion),
        "DepthCompleter methods": members(omnidc.DepthCompleter),
    }
    assert actual == PUBLIC


def test_public_names_exist() -> None:
    for module in (omnidc, omnidc.pipeline, omnidc.sensors):
        for name in module.__all__:
            assert getattr(module, name) is not None
            assert name in dir(module)
