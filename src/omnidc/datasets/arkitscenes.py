"""ARKitScenes, the upsampling set (Apple): iPad photographs with truth from laser scans, 1920x1440.

    ROOT/Validation/41069021/wide/41069021_305.244.png             or color/
    ROOT/Validation/41069021/highres_depth/41069021_305.244.png    16 bit, millimeters
    ROOT/Validation/41069021/lowres_depth/41069021_305.244.png     the iPad's own depth, 256x192 (optional)
    ROOT/Validation/41069021/wide_intrinsics/41069021_305.244.pincam    width height fx fy cx cy (optional)
    ROOT/metadata.csv                                              video_id, sky_direction

ROOT may also be the folder above (depth/upsampling, depth_upsampling or upsampling). As in the released evaluation,
only videos held upright (sky direction Up) or upside down (Down, turned by 180 degrees) are read, and frames become
640x480: the photograph by area, depth by nearest. native=True keeps 1920x1440.
sensor=True puts the iPad's depth at the pixel under each of its samples into `sparse`.
Checked: nothing of the original (none at hand); layout, units and formats as in Apple's documentation.
"""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np

from omnidc.datasets.decode import Depth, camera, read_depth, read_image, read_numbers, valid
from omnidc.datasets.resample import resize_camera, resize_image, resize_nearest
from omnidc.datasets.source import Frames, choose, first_folder, need_entries, need_file, safe_name
from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted

SIZE = (480, 640)


def open_frames(root: Path, *, split: str = "Validation", native: bool = False, sensor: bool = False) -> Frames:
    """Open the frames. split: Validation or Training; native: full size; sensor: the iPad's depth as sparse input."""
    choose("split", split, ("Validation", "Training"))
    places = ("", "depth/upsampling", "depth_upsampling", "upsampling", "ARKitScenes/depth/upsampling")
    folder = first_folder(root, [f"{place}/{split}".lstrip("/") for place in places], f"ARKitScenes's {split} videos")
    sky = read_sky(need_file(folder.parent / "metadata.csv", "ARKitScenes's table of sky directions"))
    entries = []
    for depth in sorted(folder.glob("*/highres_depth/*.png")):
        direction = sky.get(depth.parents[1].name)
        if direction in ("Up", "Down"):
            entries.append((depth, direction == "Down"))
    layout = "41069021/highres_depth/41069021_305.244.png"
    return Frames(need_entries(entries, folder, layout), partial(read_frame, folder, native, sensor))


def read_sky(path: Path) -> dict[str, str]:
    """Return the sky direction of each video: Up, Down, Left, Right or NA."""
    with untrusted(path, "a table of sky directions"), path.open(encoding="utf-8-sig", newline="") as file:
        return {row["video_id"].strip(): row["sky_direction"].strip().capitalize() for row in csv.DictReader(file)}


def read_frame(root: Path, native: bool, sensor: bool, entry: tuple[Path, bool]) -> Frame:
    depth_path, upside_down = entry
    video = depth_path.parents[1]
    image_path = next((p for p in (video / f / depth_path.name for f in ("wide", "color")) if p.is_file()), None)
    if image_path is None:
        raise FileError(f"The file {video / 'wide' / depth_path.name} is missing: it should be the photograph.")
    image, depth = read_image(image_path), valid(read_depth(depth_path, 1000.0))
    full = image.shape[0], image.shape[1]
    K = None
    pincam = video / "wide_intrinsics" / f"{depth_path.stem}.pincam"
    if pincam.is_file():
        with untrusted(pincam, "a camera file"):
            width, height, fx, fy, cx, cy = read_numbers(pincam, "a camera file")
        K = resize_camera(camera(fx, fy, cx, cy), (int(height), int(width)), full)
    size = full if native else SIZE
    sparse = None
    if sensor:
        sparse = scatter(valid(read_depth(video / "lowres_depth" / depth_path.name, 1000.0)), size)
    image, depth = resize_image(image, size), resize_nearest(depth, size)
    K = None if K is None else resize_camera(K, full, size)
    if upside_down:
        image, depth = image[::-1, ::-1].copy(), depth[::-1, ::-1].copy()
        sparse = None if sparse is None else sparse[::-1, ::-1].copy()
        if K is not None:
            K[0, 2], K[1, 2] = size[1] - 1 - K[0, 2], size[0] - 1 - K[1, 2]
    return Frame(
        image, sparse=sparse, depth=depth, intrinsics=K, name=safe_name(depth_path, root),
        source=str(image_path),
    )  # fmt: skip


def scatter(low: Depth, size: tuple[int, int]) -> Depth:
    """Put the samples of a small depth map at the pixels under their centers; 0 elsewhere."""
    rows = ((np.arange(low.shape[0]) + 0.5) * (size[0] / low.shape[0])).astype(int)
    columns = ((np.arange(low.shape[1]) + 0.5) * (size[1] / low.shape[1])).astype(int)
    out = np.zeros(size, np.float32)
    out[np.ix_(rows, columns)] = low
    return out
