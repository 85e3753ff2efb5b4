"""ETH3D, the high-resolution training scenes: DSLR photographs with laser truth, 6048x4032.

    ROOT/courtyard/images/dslr_images/DSC_0286.JPG
    ROOT/courtyard/ground_truth_depth/dslr_images/DSC_0286.JPG    not a JPEG: float32, row by row, inf = unknown
    ROOT/courtyard/dslr_calibration_jpg/cameras.txt, images.txt, points3D.txt     for eth3d-sfm, .bin works too

The archives may lie unpacked side by side (ROOT/courtyard_dslr_jpg/courtyard/..., ROOT/courtyard_dslr_depth/...) or as
Marigold packs them (ROOT/rgb/courtyard/..., ROOT/depth/courtyard_dslr_depth/courtyard/...); list_file=PATH reads a
list of image and depth paths below ROOT.
As in the released evaluation the middle 5120x3840 becomes 640x480: the photograph by area, depth as the mean of the
known pixels of each 8x8 block. native=True keeps the full size. The lens is a fisheye: `intrinsics` (f = 425 at
640x480) is the release's nominal pinhole, good for a rough cloud only.
eth3d-sfm: `sparse` holds every COLMAP point the photograph observed, projected with the full lens model, at the pixel
it falls into; of two points in one pixel the later one stays, as in the release.
Checked: nothing of the original (none at hand); layout as documented by ETH3D and public readers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from omnidc.datasets.decode import Depth, camera, image_size, read_columns, read_image, read_raw, valid
from omnidc.datasets.resample import block_mean, center, crop_camera, resize_image
from omnidc.datasets.source import Frames, choose, need_entries
from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.io.colmap_model import Model, observed_points, read_model

FACTOR, CROP, SIZE = 8, (3840, 5120), (480, 640)
INDOOR = ("delivery_area", "kicker", "pipes", "relief", "relief_2", "terrains")
OUTDOOR = ("electro", "facade", "meadow", "playground", "terrace")
VALIDATION = {"indoor": ("office",), "outdoor": ("courtyard",)}
PARTS: dict[str, tuple[str, ...]] = {
    "all": (*INDOOR, *OUTDOOR, "office", "courtyard"),
    "indoor": INDOOR,
    "outdoor": OUTDOOR,
    "indoor-val": VALIDATION["indoor"],
    "outdoor-val": VALIDATION["outdoor"],
}
IMAGE_PLACES = (
    "{s}/images/dslr_images", "{s}_dslr_jpg/{s}/images/dslr_images", "rgb/{s}/images/dslr_images", "rgb/{s}",
    "rgb/{s}_dslr_jpg/{s}/images/dslr_images",
)  # fmt: skip
DEPTH_PLACES = (
    "{s}/ground_truth_depth/dslr_images", "{s}_dslr_depth/{s}/ground_truth_depth/dslr_images",
    "depth/{s}_dslr_depth/{s}/ground_truth_depth/dslr_images",
)  # fmt: skip
MODEL_PLACES = (
    "{s}/dslr_calibration_jpg", "{s}_dslr_jpg/{s}/dslr_calibration_jpg", "rgb/{s}/dslr_calibration_jpg",
    "colmap/{s}/dslr_calibration_jpg", "multi_view_training_dslr_jpg/{s}/dslr_calibration_jpg",
)  # fmt: skip

Entry = tuple[str, Path, Path]  # scene, photograph, depth


def open_frames(root: Path, *, part: str = "all", list_file: str | Path | None = None, native: bool = False) -> Frames:
    """Open frames. part: all, indoor, outdoor (released test scenes), indoor-val or outdoor-val (for validation)."""
    return Frames(_entries(root, part, list_file), partial(read_frame, native))


def open_sfm_frames(root: Path, *, part: str = "all", list_file: str | Path | None = None) -> Frames:
    """Open the same photographs with COLMAP's points as sparse input."""
    entries = _entries(root, part, list_file)
    models = {scene: _folder(root, MODEL_PLACES, scene) for scene in {entry[0] for entry in entries}}
    return Frames(entries, partial(read_sfm_frame, models))


def _entries(root: Path, part: str, list_file: str | Path | None) -> list[Entry]:
    scenes = PARTS[choose("part", part, tuple(PARTS))]
    entries: list[Entry] = []
    if list_file is not None:
        for row in read_columns(Path(list_file), 2, "a list of image and depth paths"):
            # Folders are called "courtyard" or "courtyard_dslr_depth"; "relief" must not swallow "relief_2".
            words = {word.split("_dslr")[0] for word in Path(row[0]).parts}
            scene = next((scene for scene in scenes if scene in words), None)
            if scene is not None:
                entries.append((scene, root / row[0], root / row[1]))
    else:
        for scene in sorted(scenes):
            depths = next((p for p in (root / d.format(s=scene) for d in DEPTH_PLACES) if p.is_dir()), None)
            if depths is not None:
                images = _folder(root, IMAGE_PLACES, scene)
                entries += [(scene, images / depth.name, depth) for depth in sorted(depths.glob("*.JPG"))]
    need_entries(entries, root, DEPTH_PLACES[0].format(s=scenes[0]) + "/DSC_0286.JPG")
    return entries


def _folder(root: Path, places: tuple[str, ...], scene: str) -> Path:
    for place in places:
        if (root / place.format(s=scene)).is_dir():
            return root / place.format(s=scene)
    raise FileError(f"The folder {root / places[0].format(s=scene)} is missing: ETH3D's {scene} is incomplete.")


def read_frame(native: bool, entry: Entry) -> Frame:
    scene, image_path, depth_path = entry
    height, width = image_size(image_path)
    image, depth = read_image(image_path), valid(read_raw(depth_path, height, width), low=1e-5)
    top, left = (height - CROP[0]) // 2, (width - CROP[1]) // 2
    K = camera(425.0, 425.0, 320.0, 240.0)
    if native:
        # The nominal pinhole again, undone to the full size.
        full = camera(425.0 * FACTOR, 425.0 * FACTOR, 320.5 * FACTOR - 0.5, 240.5 * FACTOR - 0.5)
        K = crop_camera(full, -top, -left)
    else:
        top, left = center((height, width), CROP)
        window = np.s_[top : top + CROP[0], left : left + CROP[1]]
        image, depth = resize_image(image[window], SIZE), block_mean(depth[window], FACTOR)
    return Frame(
        image, depth=depth, intrinsics=K, name=f"{scene}/{image_path.stem}",
        source=str(image_path),
    )  # fmt: skip


@cache
def _model(folder: Path) -> Model:
    return read_model(folder)


def read_sfm_frame(models: dict[str, Path], entry: Entry) -> Frame:
    frame = read_frame(False, entry)
    model = _model(models[entry[0]])
    name = next((name for name in model.views if Path(name).name == entry[1].name), None)
    if name is None:
        raise FileError(f"The COLMAP model in {models[entry[0]]} has no image {entry[1].name}: download it again.")
    top, left = center(image_size(entry[1]), CROP)
    pixels, z = observed_points(model, name)
    return replace(frame, sparse=rasterize(pixels, z, top, left))


def rasterize(pixels: np.ndarray, z: np.ndarray, top: int, left: int) -> Depth:
    """Rasterize sparse depth of points at full-size pixels [N, 2]; later points overwrite earlier ones."""
    column = np.floor((pixels[:, 0] - left) / FACTOR).astype(int)
    row = np.floor((pixels[:, 1] - top) / FACTOR).astype(int)
    inside = (row >= 0) & (row < SIZE[0]) & (column >= 0) & (column < SIZE[1])
    sparse = np.zeros(SIZE, np.float32)
    for r, c, depth in zip(row[inside], column[inside], z[inside]):
        sparse[r, c] = depth
    return sparse
