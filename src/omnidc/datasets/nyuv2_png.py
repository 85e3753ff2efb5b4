"""NYU Depth v2 as full-size PNG pairs (the Marigold evaluation archive), 640x480.

    ROOT/filename_list_test.txt       columns: rgb, depth, filled depth; paths below ROOT
    ROOT/test/kitchen_0004/rgb_0001.png, depth_0001.png     16 bit, millimeters

Without the list, every rgb_*.png with its depth_*.png is read. list_file=PATH names another list.
Known is 1 mm < z < 10 m inside the Eigen crop (rows 45 to 470, columns 41 to 600); eigen=False keeps the borders.
Checked: an original depth PNG; not the archive itself.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from omnidc.datasets.decode import read_columns, read_depth, read_image, valid
from omnidc.datasets.nyu_camera import NYU_K
from omnidc.datasets.source import Frames, need_entries, safe_name
from omnidc.frame import Frame

EIGEN = np.s_[45:471, 41:601]


def open_frames(root: Path, *, list_file: str | Path | None = None, eigen: bool = True) -> Frames:
    """Open the frames. list_file: another list of rgb and depth paths; eigen: truth only inside the Eigen crop."""
    listed = Path(list_file) if list_file is not None else root / "filename_list_test.txt"
    if list_file is not None or listed.is_file():
        rows = read_columns(listed, 2, "a list of rgb and depth paths")
        entries = [(root / row[0], root / row[1]) for row in rows]
    else:
        images = sorted(root.glob("**/rgb_*.png"))
        entries = [(image, image.with_name(image.name.replace("rgb_", "depth_"))) for image in images]
    return Frames(need_entries(entries, root, "test/kitchen_0004/rgb_0001.png"), partial(read_frame, root, eigen))


def read_frame(root: Path, eigen: bool, entry: tuple[Path, Path]) -> Frame:
    image_path, depth_path = entry
    depth = valid(read_depth(depth_path, 1000.0), low=1e-3, high=10.0)
    if eigen:
        inside = np.zeros(depth.shape, bool)
        inside[EIGEN] = True
        depth = np.where(inside, depth, np.float32(0))
    return Frame(
        read_image(image_path), depth=depth, intrinsics=NYU_K.copy(), name=safe_name(image_path, root),
        source=str(image_path),
    )  # fmt: skip
