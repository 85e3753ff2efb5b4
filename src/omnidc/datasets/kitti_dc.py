"""KITTI depth completion, the 1000 selected validation frames, 1216x352.

    ROOT/depth_selection/val_selection_cropped/
        image/2011_09_26_drive_0002_sync_image_0000000005_image_02.png
        velodyne_raw/2011_09_26_drive_0002_sync_velodyne_raw_0000000005_image_02.png           16 bit, depth * 256
        groundtruth_depth/2011_09_26_drive_0002_sync_groundtruth_depth_0000000005_image_02.png
        intrinsics/2011_09_26_drive_0002_sync_image_0000000005_image_02.txt                    3x3

ROOT may also be depth_selection, val_selection_cropped, or the folder that holds data_depth_selection. As in the
released evaluation the top 96 rows, which the laser never sees, are cut away (crop_top=0 keeps them), "test" is the
first 749 frames of the sorted list and "val" the last 251. lines = 64 is the input as it is; 32, 16 and 8 keep every
second, fourth, eighth line of the laser.
Checked: line subsampling against the released code, depth PNGs of the original format; not the folder names
(as in public readers).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import Depth, read_depth, read_image, read_numbers, valid
from omnidc.datasets.resample import crop_camera
from omnidc.datasets.source import Frames, choose, first_folder, need_entries
from omnidc.errors import ConfigError
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted

TEST_FRAMES = 749
LINES = 64


def open_frames(root: Path, *, lines: int = 64, split: str = "all", crop_top: int = 96) -> Frames:
    """Open the frames. lines: 64, 32, 16 or 8; split: all, test or val; crop_top: rows cut away."""
    choose("lines", lines, (64, 32, 16, 8))
    choose("split", split, ("all", "test", "val"))
    if crop_top < 0:
        raise ConfigError(f"crop_top={crop_top} is not possible: it is a number of rows.")
    selected = "depth_selection/val_selection_cropped"
    places = (selected, f"data_depth_selection/{selected}", "data_" + selected, "val_selection_cropped", "")
    folder = first_folder(root, [f"{place}/image".lstrip("/") for place in places], "KITTI's selected images").parent
    entries = sorted((folder / "image").glob("*.png"))
    if split != "all":
        entries = entries[:TEST_FRAMES] if split == "test" else entries[TEST_FRAMES:]
    layout = "image/2011_09_26_drive_0002_sync_image_0000000005_image_02.png"
    return Frames(need_entries(entries, folder, layout), partial(read_frame, lines, crop_top))


def subsample_lines(sparse: Depth, K: npt.NDArray[np.float64], lines: int) -> Depth:
    """Keep every (64 / lines)-th laser line of a projected 64-line scan.

    The elevation asin(Y / |X|) of each point, between the lowest and the highest of the frame, is rounded to one of
    64 steps; steps divisible by 64 / lines stay.
    """
    rows, columns = np.nonzero(sparse > 0)
    if lines == LINES or len(rows) == 0:
        return sparse.copy()
    z = sparse[rows, columns].astype(np.float64)
    x, y = (columns - K[0, 2]) / K[0, 0] * z, (rows - K[1, 2]) / K[1, 1] * z
    elevation = np.arcsin(y / np.sqrt(x * x + y * y + z * z))
    step = (elevation.max() - elevation.min()) / LINES
    label = np.rint((elevation - elevation.min()) / step).astype(int) if step > 0 else np.zeros(len(rows), int)
    keep = label % (LINES // lines) == 0
    out = np.zeros_like(sparse)
    out[rows[keep], columns[keep]] = sparse[rows[keep], columns[keep]]
    return out


def read_frame(lines: int, crop_top: int, image_path: Path) -> Frame:
    folder = image_path.parents[1]
    sparse_path, gt_path = (
        folder / what / image_path.name.replace("_sync_image_", f"_sync_{what}_")
        for what in ("velodyne_raw", "groundtruth_depth")
    )
    camera_path = folder / "intrinsics" / f"{image_path.stem}.txt"
    with untrusted(camera_path, "a camera matrix"):
        K = crop_camera(read_numbers(camera_path, "a camera matrix").reshape(3, 3), crop_top, 0)
    sparse = valid(read_depth(sparse_path, 256.0))[crop_top:]
    gt_depth = valid(read_depth(gt_path, 256.0))[crop_top:]
    return Frame(
        read_image(image_path)[crop_top:].copy(), sparse=subsample_lines(sparse, K, lines), depth=gt_depth,
        intrinsics=K, name=image_path.stem, source=str(image_path),
    )  # fmt: skip
