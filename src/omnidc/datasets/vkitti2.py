"""Virtual KITTI 2.0.3: rendered driving, 1242x375, two cameras, ten variations of light and weather.

    ROOT/Scene01/clone/frames/rgb/Camera_0/rgb_00000.jpg
    ROOT/Scene01/clone/frames/depth/Camera_0/depth_00000.png     16 bit, centimeters; sky = 65535

or the archives as they unpack, ROOT/vkitti_2.0.3_rgb/Scene01/..., ROOT/vkitti_2.0.3_depth/Scene01/...
A text file with "rgb depth" per line (paths below ROOT) restricts the frames: pairs_file=PATH.
Known is 0 < z < 250 m. The camera is that of the data's documentation, f = 725.0087, c = (620.5, 187).
Checked: layout and camera against several public readers; not against the data (none at hand).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from omnidc.datasets.decode import camera, read_columns, read_depth, read_image, valid
from omnidc.datasets.source import Frames, need_entries, safe_name
from omnidc.frame import Frame

MAX_DEPTH = 250.0


def open_frames(root: Path, *, pairs_file: str | Path | None = None) -> Frames:
    """Open the frames. pairs_file: a list "rgb depth", for example the released training's."""
    if pairs_file is not None:
        rows = read_columns(Path(pairs_file), 2, "a list of rgb and depth paths")
        entries = [(root / row[0], root / row[1]) for row in rows]
    else:
        folders = [(root, root), (root / "vkitti_2.0.3_rgb", root / "vkitti_2.0.3_depth")]
        entries = [
            (image, depths / image.relative_to(images).parents[2] / "depth" / image.parent.name
             / image.name.replace("rgb_", "depth_").replace(".jpg", ".png"))
            for images, depths in folders
            for image in sorted(images.glob("Scene*/*/frames/rgb/Camera_*/rgb_*.jpg"))
        ]  # fmt: skip
    layout = "Scene01/clone/frames/rgb/Camera_0/rgb_00000.jpg"
    return Frames(need_entries(entries, root, layout), partial(read_frame, root))


def read_frame(root: Path, entry: tuple[Path, Path]) -> Frame:
    image_path, depth_path = entry
    return Frame(
        read_image(image_path), depth=valid(read_depth(depth_path, 100.0), low=1e-5, high=MAX_DEPTH),
        intrinsics=camera(725.0087, 725.0087, 620.5, 187.0), name=safe_name(image_path, root),
        source=str(image_path),
    )  # fmt: skip
