"""DIODE, the validation set: laser scans in- and outdoors, 1024x768 (325 + 446 frames).

    ROOT/indoors/scene_00019/scan_00183/00019_00183_indoors_000_010.png
    ROOT/indoors/scene_00019/scan_00183/00019_00183_indoors_000_010_depth.npy         float32 meters, HxWx1
    ROOT/indoors/scene_00019/scan_00183/00019_00183_indoors_000_010_depth_mask.npy    1 = measured

ROOT/val/indoors works too; list_file=PATH reads a list (image, depth, mask; the Marigold archive has one).
As in the released evaluation: known is mask > 0 and z > 0.1 m; smeared edges go (a pixel that differs by more than
5 % indoors, 15 % outdoors, from one of its eight neighbors, where unknown and outside count as 0); the middle
1000x750 becomes 640x480. native=True keeps all pixels and sizes, without the edge filter.
Checked: the camera against the dataset's development kit; not against the data (none at hand).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import cv2
import numpy as np

from omnidc.datasets.decode import Depth, camera, read_columns, read_depth, read_image, valid
from omnidc.datasets.resample import center, crop_camera, resize_camera, resize_image, resize_nearest
from omnidc.datasets.source import Frames, choose, need_entries, safe_name
from omnidc.frame import Frame

CROP, SIZE = (750, 1000), (480, 640)
K = camera(886.81, 927.06, 512.0, 384.0)
FOLDER = {"indoor": "indoors", "outdoor": "outdoor"}
EDGE = {"indoor": 0.05, "outdoor": 0.15}


def open_frames(root: Path, *, part: str = "all", list_file: str | Path | None = None, native: bool = False) -> Frames:
    """Open frames. part: indoor, outdoor or all; list_file: image, depth, mask paths below ROOT; native: as stored."""
    choose("part", part, ("all", "indoor", "outdoor"))
    parts = ("indoor", "outdoor") if part == "all" else (part,)
    entries: list[tuple[Path, Path, Path, str]] = []
    if list_file is not None:
        for row in read_columns(Path(list_file), 3, "a list of image, depth and mask paths"):
            kind = "indoor" if "indoor" in row[0] else "outdoor"
            if kind in parts:
                entries.append((root / row[0], root / row[1], root / row[2], kind))
    else:
        base = root / "val" if (root / "val").is_dir() else root
        for kind in parts:
            for depth in sorted((base / FOLDER[kind]).glob("**/*_depth.npy")):
                stem = depth.name.removesuffix("_depth.npy")
                mask = depth.with_name(f"{stem}_depth_mask.npy")
                entries.append((depth.with_name(f"{stem}.png"), depth, mask, kind))
    layout = "indoors/scene_00019/scan_00183/00019_00183_indoors_000_010_depth.npy"
    return Frames(need_entries(entries, root, layout), partial(read_frame, root, native))


def without_edges(depth: Depth, share: float) -> Depth:
    """Return `depth` without pixels that differ from a 3x3 neighbor by more than `share` of themselves.

    max |d - n| over the neighborhood is max(d_max - d, d - d_min), so two rank filters do it.
    """
    kernel = np.ones((3, 3), np.uint8)
    highest = cv2.dilate(depth, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    lowest = cv2.erode(depth, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    return np.where(np.maximum(highest - depth, depth - lowest) > share * depth, np.float32(0), depth)


def read_frame(root: Path, native: bool, entry: tuple[Path, Path, Path, str]) -> Frame:
    image_path, depth_path, mask_path, kind = entry
    image = read_image(image_path)
    depth = np.where(read_depth(mask_path) > 0, read_depth(depth_path), np.float32(0))
    intrinsics = K.copy()
    if native:
        depth = valid(depth)
    else:
        depth = without_edges(valid(depth, low=0.1), EDGE[kind])
        top, left = center(depth.shape, CROP)
        window = np.s_[top : top + CROP[0], left : left + CROP[1]]
        image, depth = resize_image(image[window], SIZE), resize_nearest(depth[window], SIZE)
        intrinsics = resize_camera(crop_camera(K, top, left), CROP, SIZE)
    return Frame(
        image, depth=depth, intrinsics=intrinsics, name=safe_name(image_path, root),
        source=str(image_path),
    )  # fmt: skip
