"""Hypersim (Apple): 77,400 rendered pictures of interiors.

    ROOT/ai_001_001/images/scene_cam_00_final_preview/frame.0000.tonemap.jpg
    ROOT/ai_001_001/images/scene_cam_00_geometry_hdf5/frame.0000.depth_meters.hdf5    "dataset", 768x1024
    ROOT/metadata_camera_parameters.csv           from ml-hypersim, contrib/mikeroberts3000
    ROOT/metadata_images_split_scene_v1.csv       from ml-hypersim, evermotion_dataset/analysis (optional)

The scenes may also lie in ROOT/dataset or ROOT/scenes. With the list of images only public ones are read (all splits,
or one of them); without it, every depth file that has a picture. Files hold the distance along the ray; it is turned
into z with the scene's camera. Scenes with a tilted or shifted camera are left out, as in the released training.
Beyond 50 m is unknown. Checked: an original depth file. Not checked: the two tables themselves (columns as in several
public readers of them).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import Depth, camera, read_h5, read_image, valid
from omnidc.datasets.source import Frames, choose, need_entries, need_file
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted

CAMERAS = "metadata_camera_parameters.csv"
IMAGES = "metadata_images_split_scene_v1.csv"
# tan(30 degrees): the camera of nearly every scene; others have tilt-shift lenses that a pinhole cannot describe.
STANDARD_M00 = 0.57735029
MAX_DEPTH = 50.0


class Entry(NamedTuple):
    image: Path
    depth: Path
    # M_cam_from_uv 00, 02, 11, 12: uv in [-1, 1] to a point on the plane z = -1, y up.
    lens: tuple[float, float, float, float]
    name: str


def open_frames(root: Path, *, split: str = "all") -> Frames:
    """Open the frames. split: "all", "train", "val" or "test" of the official list."""
    choose("split", split, ("all", "train", "val", "test"))
    scenes = next((root / name for name in ("dataset", "scenes") if (root / name).is_dir()), root)
    lenses = read_lenses(need_file(root / CAMERAS, "Hypersim's table of cameras (ml-hypersim, contrib)"))
    if (root / IMAGES).is_file():
        frames = _listed(root / IMAGES, split)
    else:
        if split != "all":
            need_file(root / IMAGES, f"Hypersim's list of images, which split={split!r} needs")
        frames = _found(scenes)
    entries = []
    for scene, cam, frame in frames:
        if scene in lenses:
            images = scenes / scene / "images"
            image = images / f"scene_{cam}_final_preview" / f"frame.{frame:04d}.tonemap.jpg"
            depth = images / f"scene_{cam}_geometry_hdf5" / f"frame.{frame:04d}.depth_meters.hdf5"
            entries.append(Entry(image, depth, lenses[scene], f"{scene}/{cam}/{frame:04d}"))
    layout = "ai_001_001/images/scene_cam_00_geometry_hdf5/frame.0000.depth_meters.hdf5"
    return Frames(need_entries(entries, scenes, layout), read_frame)


def read_lenses(path: Path) -> dict[str, tuple[float, float, float, float]]:
    """Read the lens of each scene that has an ordinary camera."""
    lenses = {}
    with untrusted(path, "a table of cameras"), path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            m00, m02, m11, m12, m22 = (float(row[f"M_cam_from_uv_{ij}"]) for ij in ("00", "02", "11", "12", "22"))
            if abs(m00 - STANDARD_M00) <= 0.01 and abs(m22 + 1.0) <= 0.01:
                lenses[row["scene_name"]] = (m00, m02, m11, m12)
    return lenses


def _listed(path: Path, split: str) -> Iterator[tuple[str, str, int]]:
    with untrusted(path, "a list of images"), path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            public = row["included_in_public_release"].strip().lower() == "true"
            if public and split in ("all", row["split_partition_name"]):
                yield row["scene_name"], row["camera_name"], int(row["frame_id"])


def _found(scenes: Path) -> Iterator[tuple[str, str, int]]:
    for folder in sorted(scenes.glob("ai_*/images/scene_*_geometry_hdf5")):
        cam = folder.name.removeprefix("scene_").removesuffix("_geometry_hdf5")
        preview = folder.with_name(f"scene_{cam}_final_preview")
        for depth in sorted(folder.glob("frame.*.depth_meters.hdf5")):
            frame = depth.name.split(".")[1]
            if frame.isdigit() and (preview / f"frame.{frame}.tonemap.jpg").is_file():
                yield folder.parents[1].name, cam, int(frame)


def intrinsics(lens: tuple[float, float, float, float], height: int, width: int) -> npt.NDArray[np.float64]:
    """Return the pinhole matrix with centers at integers: X/Z = M00 u + M02 with u = (2x + 1)/W - 1; v points up."""
    m00, m02, m11, m12 = lens
    fx, fy = width / (2 * m00), height / (2 * m11)
    return camera(fx, fy, width / 2 - fx * m02 - 0.5, height / 2 + fy * m12 - 0.5)


def ray_to_z(distance: npt.NDArray[np.floating], K: npt.NDArray[np.float64]) -> Depth:
    """Convert distance along the ray: z = distance / |K^-1 (x, y, 1)|."""
    height, width = distance.shape
    x = (np.arange(width) - K[0, 2]) / K[0, 0]
    y = (np.arange(height) - K[1, 2]) / K[1, 1]
    return np.asarray(distance / np.sqrt(x[None, :] ** 2 + y[:, None] ** 2 + 1.0), dtype=np.float32)


def read_frame(entry: Entry) -> Frame:
    (distance,) = read_h5(entry.depth, "dataset")
    K = intrinsics(entry.lens, *distance.shape)
    z = ray_to_z(distance.astype(np.float32), K)
    return Frame(
        read_image(entry.image), depth=valid(z, high=MAX_DEPTH), intrinsics=K, name=entry.name,
        source=str(entry.image),
    )  # fmt: skip
