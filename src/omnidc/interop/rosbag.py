"""Depth back into a ROS bag, as a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from omnidc.geometry.rasterize import Map
from omnidc.geometry.surface import SKY_PROBABILITY
from omnidc.geometry.transforms import Array
from omnidc.pipeline.sinks import ExportSink, FolderSink, StoredFrame
from omnidc.sensors.rosbag import write_depth_bag


def bag_sink(
    results: FolderSink | ExportSink,
    path: Path,  # ends in .bag for ROS 1; otherwise the folder of a ROS 2 bag
    topic: str,
    frame_id: str,  # of the camera
    announce: Callable[[str], None] = lambda text: None,
) -> ExportSink:
    """Return a sink that writes depth images with the stamps of their frames."""
    return ExportSink(results, partial(_write, path, topic, frame_id, announce))


def _write(path: Path, topic: str, frame_id: str, announce: Callable[[str], None], results: list[StoredFrame]) -> None:
    written = write_depth_bag(path, _messages(results, frame_id), topic)
    announce(f"wrote {written} depth images to {topic} in {path}")


def _messages(results: list[StoredFrame], frame_id: str) -> Iterator[tuple[float, Map, Array, str]]:
    """Stamp, depth, intrinsics and frame of every result, in order of time."""
    stamped = [(stored.timestamp, stored) for stored in results if stored.timestamp is not None]
    for stamp, stored in sorted(stamped, key=lambda entry: entry[0]):
        if stored.intrinsics is None:
            continue
        depth = stored.depth()
        if stored.sky is not None:  # REP 118: +Inf beyond the range, NaN where nothing is known
            depth = np.where((depth == 0) & (stored.sky() > SKY_PROBABILITY), np.float32(np.inf), depth)
        yield stamp, depth, stored.intrinsics, frame_id
