"""KITTI depth completion, the training (or whole validation) drives, 1216x352 cut from about 1242x375.

    ROOT/data_depth_annotated/train/2011_09_26_drive_0001_sync/proj_depth/groundtruth/image_02/0000000005.png
    ROOT/data_depth_velodyne/train/2011_09_26_drive_0001_sync/proj_depth/velodyne_raw/image_02/0000000005.png
    ROOT/kitti_raw/2011_09_26/2011_09_26_drive_0001_sync/image_02/data/0000000005.png
    ROOT/kitti_raw/2011_09_26/calib_cam_to_cam.txt                      P_rect_02, P_rect_03: 12 numbers each

The archives may also lie in ROOT itself (ROOT/train/...), both depth archives merged as KITTI's development kit does.
Depth is 16 bit, meters * 256. The window is the bottom 352 rows and the middle 1216 columns, as in the selected
validation frames; crop_top rows of it are cut away, 96 as in the released evaluation.
Checked: depth PNGs of the original format; not the folder names (as documented by KITTI and the release).
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import read_depth, read_image, read_lines, valid
from omnidc.datasets.kitti_dc import subsample_lines
from omnidc.datasets.resample import crop_camera
from omnidc.datasets.source import Frames, choose, first_folder, need_entries, need_file
from omnidc.errors import ConfigError, FileError
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted

SIZE = (352, 1216)
CAMERAS = ("image_02", "image_03")


def open_frames(
    root: Path, *, split: str = "train", lines: int = 64, crop_top: int = 96, camera: str = "all"
) -> Frames:
    """Open frames. split: train or val; lines: 64, 32, 16 or 8; crop_top: rows cut; camera: image_02, _03, all."""
    choose("split", split, ("train", "val"))
    choose("lines", lines, (64, 32, 16, 8))
    choose("camera", camera, ("all", *CAMERAS))
    if not 0 <= crop_top < SIZE[0]:
        raise ConfigError(f"crop_top={crop_top} is not possible: it is a number of rows below {SIZE[0]}.")
    places = (f"data_depth_annotated/{split}", f"kitti_depth/data_depth_annotated/{split}", split)
    folder = first_folder(root, places, f"KITTI's {split} drives")
    wanted = CAMERAS if camera == "all" else (camera,)
    entries = sorted(path for one in wanted for path in folder.glob(f"*/proj_depth/groundtruth/{one}/*.png"))
    layout = "2011_09_26_drive_0001_sync/proj_depth/groundtruth/image_02/0000000005.png"
    return Frames(need_entries(entries, folder, layout), partial(read_frame, folder, lines, crop_top))


@cache
def read_camera(path: Path, camera: str) -> npt.NDArray[np.float64]:
    """Read intrinsics of a rectified color camera: the left 3 × 3 of P_rect."""
    key = f"P_rect_{camera[-2:]}"
    for line in read_lines(need_file(path, "KITTI's camera calibration"), "KITTI's camera calibration"):
        name, _, values = line.partition(":")
        if name.strip() == key:
            with untrusted(path, "a calibration file"):
                return np.array([float(value) for value in values.split()]).reshape(3, 4)[:, :3].copy()
    raise FileError(f"{path} has no line {key}: it is not KITTI's camera calibration.")


def _first(paths: list[Path], what: str) -> Path:
    return need_file(next((path for path in paths if path.is_file()), paths[0]), what)


def read_frame(folder: Path, lines: int, crop_top: int, gt_path: Path) -> Frame:
    camera, drive = gt_path.parent.name, gt_path.parents[3].name
    split, inside = folder.name, Path(drive) / "proj_depth" / "velodyne_raw" / camera / gt_path.name
    above = [folder.parent, folder.parents[1]]
    sparse_path = _first(
        [folder / inside, *(place / "data_depth_velodyne" / split / inside for place in above)], "the laser's points"
    )
    image_name = Path(drive[:10]) / drive / camera / "data" / gt_path.name
    image_path = _first([place / "kitti_raw" / image_name for place in above], "KITTI's photograph (raw data)")
    K = read_camera(image_path.parents[3] / "calib_cam_to_cam.txt", camera)
    image = read_image(image_path)
    top, left = image.shape[0] - SIZE[0], (image.shape[1] - SIZE[1]) // 2
    if top < 0 or left < 0:
        raise FileError(f"{image_path} has {image.shape[0]}x{image.shape[1]} pixels: KITTI's photographs are larger.")
    window = np.s_[top + crop_top :, left : left + SIZE[1]]
    K = crop_camera(K, top + crop_top, left)
    sparse, gt_depth = (valid(read_depth(path, 256.0))[window].copy() for path in (sparse_path, gt_path))
    return Frame(
        image[window].copy(),
        sparse=subsample_lines(sparse, K, lines),
        depth=gt_depth,
        intrinsics=K,
        name=f"{drive}/{camera}/{gt_path.stem}",
        source=str(image_path),
    )
