"""Depth for Gaussian splatting tools: Inria's 3DGS (inverse-depth PNG) and dn-splatter (aligned .npy).

Both read a COLMAP model of undistorted images beside it; `omnidc.sensors.colmap.write_pinhole_model` writes that.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.geometry.camera import centered_crop
from omnidc.interop.views import View, place_image
from omnidc.io.depth import write_depth
from omnidc.io.files import atomic_path
from omnidc.io.images import natural, read_image, write_picture

# 3DGS divides the stored number by 65536, then applies scale and offset.
STEPS = 65536.0
# Of all inverse depths this share is stored unclipped; a few pixels at the lens would otherwise cost all precision.
KEPT = 0.9995


def inverse_depth_scale(views: list[View]) -> float:
    """Return the scale that all views share: 3DGS distrusts images whose scale is far from the median of the scales."""
    tops = [float(np.quantile(1.0 / depth[depth > 0], KEPT)) for view in views if ((depth := view.depth()) > 0).any()]
    if not tops:
        raise InputError("None of the frames has any depth to export.")
    return max(tops) * STEPS / (STEPS - 1)


def encode_inverse_depth(
    depth: npt.NDArray[np.float32],  # [H, W] ≥ 0, 0 = sky or none
    scale: float,
) -> npt.NDArray[np.uint16]:
    """Return round(65536 / (depth · scale)), so that stored / 65536 · scale = 1 / depth.

    Where there is no depth, 0 is stored: the trainer has no mask and takes it as infinitely far, which sky is.
    """
    known = depth > 0
    codes = np.rint(STEPS / (np.where(known, depth, 1.0).astype(np.float64) * scale))
    return np.where(known, np.clip(codes, 0, STEPS - 1), 0).astype(np.uint16)


def write_inria(
    folder: Path,
    views: list[View],
) -> None:
    """Write images/, depths/*.png and sparse/0/depth_params.json; train with `-s FOLDER -d depths`.

    The loader takes the middle of the picture for the principal point, so both are cropped until that is true. The
    model beside them must be cropped alike (`write_pinhole_model` with `centered`).
    """
    if not views:
        raise InputError("There is no posed frame to export; 3DGS needs poses.")
    scale = inverse_depth_scale(views)
    for view in views:
        top, left, height, width = centered_crop(view.intrinsics, view.size)
        crop = slice(top, top + height), slice(left, left + width)
        if (height, width) == view.size:
            place_image(view, folder / "images")
        else:
            write_picture(folder / "images" / view.file, np.ascontiguousarray(read_image(view.image, turn=False)[crop]))
        path = folder / "depths" / f"{view.name}.png"
        with atomic_path(path) as temporary:
            if not cv2.imwrite(str(temporary), encode_inverse_depth(view.depth()[crop], scale)):
                raise FileError(f"Cannot write {path}; is the disk full?")
    table = {view.name: {"scale": scale, "offset": 0.0} for view in views}
    with atomic_path(folder / "sparse" / "0" / "depth_params.json") as temporary:
        temporary.write_text(json.dumps(table, indent=2), encoding="utf-8")


def ordered_names(views: list[View]) -> dict[str, str]:
    """Return file names for dn-splatter: the views' own, or frame_00000 … where sorting would mispair.

    The parser sorts the names of the images and those of the depth files naturally and pairs them by place:
    "shot_0.png" comes before "shot_0_2.png", but "shot_0_aligned.npy" after "shot_0_2_aligned.npy".
    """
    files = sorted((view.file for view in views), key=natural)
    depths = sorted((f"{view.name}_aligned.npy" for view in views), key=natural)
    names = {view.file: view.name for view in views}
    if depths == [f"{names[file]}_aligned.npy" for file in files] and files == sorted(files):
        return {file: file for file in files}
    return {file: f"frame_{k:05d}{Path(file).suffix}" for k, file in enumerate(files)}


def write_dn_splatter(
    folder: Path,
    views: list[View],
) -> None:
    """Write images/ and mono_depth/<name>_aligned.npy in the unit of the poses (`coolermap` data parser).

    The parser pairs depth with images by sorted file name, so every image of the model at colmap/sparse/0 needs one.
    Files are named by `ordered_names`, and so must be the images of the model.
    """
    nested = [view.name for view in views if "/" in view.name]
    if nested:
        raise InputError(
            f"dn-splatter reads depth from one flat folder, but the images are in sub-folders (such as {nested[0]}); "
            "put them into one folder before running COLMAP."
        )
    renamed = ordered_names(views)
    for view in views:
        file = renamed[view.file]
        place_image(replace(view, file=file), folder / "images")
        write_depth(folder / "mono_depth" / f"{Path(file).stem}_aligned.npy", view.depth())
