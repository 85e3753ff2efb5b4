"""ZJU-4DRadarCam: 4D radar and laser on a ground robot, 1280x720.

    ROOT/data/test.txt (train.txt, val.txt, full.txt)     one name per line, without suffix
    ROOT/data/image/NAME.png
    ROOT/data/radar_png/NAME.png    radar, depth * 256
    ROOT/data/gt/NAME.png           laser, depth * 256
    ROOT/data/gt_interp/NAME.png    laser, interpolated

ROOT may also be the folder data. `sparse` is the radar, `depth` the laser (interpolated=True: the interpolated one).
As in the authors' evaluation only rows 240 to 539 of 720 are kept, where the laser sees something; crop=False keeps
all. Checked: names and scales against the authors' public code; not against the data (none at hand). Intrinsics are
not in the archive.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from omnidc.datasets.decode import read_depth, read_image, read_lines, valid
from omnidc.datasets.source import Frames, choose, need_entries
from omnidc.frame import Frame


def open_frames(root: Path, *, split: str = "test", interpolated: bool = False, crop: bool = True) -> Frames:
    """Open frames. split: test, val, train or full; interpolated: dense laser truth; crop: the authors' rows only."""
    choose("split", split, ("test", "val", "train", "full"))
    folder = root / "data" if (root / "data").is_dir() else root
    names = read_lines(folder / f"{split}.txt", "ZJU-4DRadarCam's list of frames")
    entries = need_entries([name.removesuffix(".png") for name in names], folder, "image/NAME.png")
    return Frames(entries, partial(read_frame, folder, interpolated, crop))


def read_frame(folder: Path, interpolated: bool, crop: bool, name: str) -> Frame:
    image_path = folder / "image" / f"{name}.png"
    radar_path = folder / "radar_png" / f"{name}.png"
    gt_path = folder / ("gt_interp" if interpolated else "gt") / f"{name}.png"
    image = read_image(image_path)
    radar, gt_depth = valid(read_depth(radar_path, 256.0)), valid(read_depth(gt_path, 256.0))
    height = image.shape[0]
    rows = slice(height // 3, height // 4 * 3) if crop else slice(None)
    return Frame(
        image[rows].copy(), sparse=radar[rows].copy(), depth=gt_depth[rows].copy(), name=name,
        source=str(image_path),
    )  # fmt: skip
