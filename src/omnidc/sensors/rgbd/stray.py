"""Stray Scanner (iPhone, iPad)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import cv2
import numpy as np
from natsort import natsorted

from omnidc.errors import FileError
from omnidc.geometry.camera import Picture, intrinsics_matrix
from omnidc.geometry.transforms import Array, pose_from_quaternion
from omnidc.io.calibration import Calibration, read_matrix
from omnidc.io.depth import CODECS
from omnidc.io.images import find_images
from omnidc.io.untrusted import read_text, untrusted
from omnidc.sensors.rgbd.record import Layout, RgbdOptions, RgbdRecord, Rig


def _video_frame(path: Path, index: int) -> Picture:
    capture = cv2.VideoCapture(str(path))
    try:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        good, frame = capture.read()
    finally:
        capture.release()
    if not good:
        raise FileError(f"Frame {index} of {path} cannot be read; extract the frames to a folder rgb/ with ffmpeg.")
    return np.ascontiguousarray(frame[..., ::-1], dtype=np.uint8)


def read(folder: Path, options: RgbdOptions) -> Layout:
    """Read Stray Scanner (iPhone, iPad): rgb.mp4 or rgb/, depth/ (mm, low resolution), confidence/, odometry.csv."""
    rig = Rig(
        color=Calibration(intrinsics_matrix(read_matrix(folder / "camera_matrix.csv"), "camera_matrix.csv")),
        depth_scale=1000.0,
    )
    poses: dict[int, Array] = {}
    if (folder / "odometry.csv").is_file():
        lines = [line.split(",") for line in read_text(folder / "odometry.csv").splitlines()[1:] if line.strip()]
        with untrusted(folder / "odometry.csv", "Stray Scanner's list of poses"):
            for words in lines:
                numbers = [float(word) for word in words[1:9]]
                poses[int(numbers[0])] = pose_from_quaternion(numbers[1:4], numbers[4:8])
    images = {path.stem: path for path in find_images(folder / "rgb")} if (folder / "rgb").is_dir() else {}
    records = []
    for path in natsorted(folder.joinpath("depth").iterdir(), key=lambda p: p.name):
        if path.suffix.lower() not in CODECS or not path.stem.isdecimal():
            continue
        if images and path.stem not in images:
            continue
        color = images.get(path.stem) or partial(_video_frame, folder / "rgb.mp4", int(path.stem))
        sure = folder / "confidence" / f"{path.stem}.png"
        records.append(
            RgbdRecord(path.stem, color, path, sure if sure.is_file() else None, poses.get(int(path.stem)), rig)
        )
    return records, "Stray Scanner: depth in mm at low resolution, same view as color"
