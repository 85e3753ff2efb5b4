"""TartanAir: flights through rendered worlds, 640x480.

    ROOT/abandonedfactory/Easy/P000/image_left/000000_left.png
    ROOT/abandonedfactory/Easy/P000/depth_left/000000_left_depth.npy       float32 meters
    ROOT/abandonedfactory/Easy/P000/pose_left.txt                          tx ty tz qx qy qz qw, one line per frame

ROOT may be any level above image_left, up to three. Beyond 100 m is unknown. The camera is f = 320, c = (320, 240).
Poses are camera to world; the file's north-east-down camera axes (x forward) are turned into OpenCV's.
Checked: an original frame with its pose file.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from omnidc.datasets.decode import camera, read_depth, read_image, valid
from omnidc.datasets.source import Frames, need_entries, nested, safe_name
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted

MAX_DEPTH = 100.0
# Columns: OpenCV's right, down and forward axes in the camera's north-east-down axes.
NED_FROM_OPENCV = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def open_frames(root: Path) -> Frames:
    entries = [image for folder in nested(root, "image_left") for image in sorted(folder.glob("*_left.png"))]
    layout = "abandonedfactory/Easy/P000/image_left/000000_left.png"
    return Frames(need_entries(entries, root, layout), partial(read_frame, root))


@cache
def read_poses(path: Path) -> npt.NDArray[np.float64]:
    """Read [N, 4, 4] camera to world, OpenCV camera axes."""
    with untrusted(path, "a list of poses"):
        rows = np.loadtxt(path, ndmin=2)
        if rows.shape[1] != 7:
            raise ValueError(f"{rows.shape[1]} columns, not 7")
        poses = np.tile(np.eye(4), (len(rows), 1, 1))
        poses[:, :3, :3] = Rotation.from_quat(rows[:, 3:]).as_matrix() @ NED_FROM_OPENCV
        poses[:, :3, 3] = rows[:, :3]
        return poses


def read_frame(root: Path, image_path: Path) -> Frame:
    sequence = image_path.parents[1]
    number = image_path.name.removesuffix("_left.png")
    depth_path = sequence / "depth_left" / f"{number}_left_depth.npy"
    poses = read_poses(sequence / "pose_left.txt") if (sequence / "pose_left.txt").is_file() else np.empty((0, 4, 4))
    known = number.isdigit() and int(number) < len(poses)
    return Frame(
        read_image(image_path), depth=valid(read_depth(depth_path), high=MAX_DEPTH),
        intrinsics=camera(320.0, 320.0, 320.0, 240.0), pose=poses[int(number)] if known else None,
        name=safe_name(image_path, root), source=str(image_path),
    )  # fmt: skip
