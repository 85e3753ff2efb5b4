"""CARLA-Night-DC (of LDCNet): simulated driving at night, 640x320.

    ROOT/rgb/night-0001/1-20220815131626035_rgb.png
    ROOT/sparse/night-0001/1-20220815131626035_depth.png     whole numbers; laser
    ROOT/semi/night-0001/1-20220815131626035_depth.png       semi-dense truth
    ROOT/carla_test.txt, carla_train.txt                     paths below rgb/ (from LDCNet's carla_datalist; optional)

Without a list every picture is read. The authors' code takes the stored numbers as they are, so `scale` (steps per
meter) is 1. Checked: names, lists and that scale against the authors' public code; not against the data (none at
hand): look at the depths that `omnidc data check` prints before you trust the unit.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from omnidc.datasets.decode import read_gray, read_image, read_lines, valid
from omnidc.datasets.source import Frames, choose, need_entries, need_folder, positive
from omnidc.frame import Frame


def open_frames(root: Path, *, split: str = "test", list_file: str | Path | None = None, scale: float = 1.0) -> Frames:
    """Open the frames. split: test, train (both need their list) or all; scale: stored steps per meter."""
    choose("split", split, ("test", "train", "all"))
    images = need_folder(root / "rgb", "CARLA-Night-DC's pictures")
    listed = Path(list_file) if list_file is not None else root / f"carla_{split}.txt"
    if list_file is not None or listed.is_file():
        names = read_lines(listed, "a list of pictures below rgb/")
    elif split == "train":
        names = read_lines(listed, "LDCNet's list of training frames, which split='train' needs")
    else:
        names = [path.relative_to(images).as_posix() for path in sorted(images.glob("*/*_rgb.png"))]
    layout = "rgb/night-0001/1-20220815131626035_rgb.png"
    return Frames(need_entries(names, root, layout), partial(read_frame, root, positive("scale", scale)))


def read_frame(root: Path, scale: float, name: str) -> Frame:
    image_path = root / "rgb" / name
    depth_name = name.removesuffix("_rgb.png") + "_depth.png"
    sparse_path, gt_path = root / "sparse" / depth_name, root / "semi" / depth_name
    return Frame(
        read_image(image_path),
        sparse=valid(read_gray(sparse_path) / np.float32(scale)),
        depth=valid(read_gray(gt_path) / np.float32(scale)),
        name=name.removesuffix("_rgb.png"), source=str(image_path),
    )  # fmt: skip
