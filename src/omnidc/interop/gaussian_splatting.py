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
from natsort import natsorted

from omnidc.errors import FileError, InputError
from omnidc.geometry.camera import centered_crop
from omnidc.interop.views import PosedView, place_image
from omnidc.io.depth import write_depth
from omnidc.io.files import atomic_path
from omnidc.io.images import read_image, write_picture

# 3DGS divides the stored number by 65536, then applies scale and offset.
STEPS = 65536.0
# Of all inverse depths this share is stored unclipped; a few pixels at the lens would otherwise cost all precision.
KEPT = 0.9995


def inverse_depth_scale(views: list[PosedView]) -> float:
    """Return the scale that all views share: 3DGS ignores images whose scale is far from the median of the scales."""
    tops = []
    for view in views:
        depth = view.depth()
        if (depth > 0).any():
            tops.append(float(np.quantile(1.0 / depth[depth > 0], KEPT)))
    if not tops:
        raise InputError("No frame has a depth to export: the mask or --max-uncertainty dropped all pixels.")
    return max(tops) * STEPS / (STEPS - 1)


def encode_inverse_depth(
    depth: npt.NDArray[np.float32],  # [H, W], 0 = none
    scale: float,
) -> npt.NDArray[np.uint16]:
    """Return round(65536 / (depth · scale)), so that stored / 65536 · scale = 1 / depth; 0 where there is none.

    The trainer has no mask: it takes 0 as infinitely far, which sky is.
    """
    inverse = np.zeros(depth.shape)
    np.divide(STEPS / scale, depth, out=inverse, where=depth > 0)
    return np.clip(np.rint(inverse), 0, STEPS - 1).astype(np.uint16)


def write_inria(
    folder: Path,
    views: list[PosedView],
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
            picture = read_image(view.image, apply_exif=False)[crop]
            write_picture(folder / "images" / view.source, np.ascontiguousarray(picture))
        path = folder / "depths" / f"{view.name}.png"
        with atomic_path(path) as temporary:
            if not cv2.imwrite(str(temporary), encode_inverse_depth(view.depth()[crop], scale)):
                raise FileError(f"Cannot write {path}; is the disk full?")
    table = {view.name: {"scale": scale, "offset": 0.0} for view in views}
    with atomic_path(folder / "sparse" / "0" / "depth_params.json") as temporary:
        temporary.write_text(json.dumps(table, indent=2), encoding="utf-8")


def ordered_names(views: list[PosedView]) -> dict[str, str]:
    """Return file names for dn-splatter: the views' own, or frame_00000 … where sorting would mispair.

    The parser sorts the names of the images and those of the depth files naturally and pairs them by place:
    "shot_0.png" comes before "shot_0_2.png", but "shot_0_aligned.npy" after "shot_0_2_aligned.npy".
    """
    names = {view.source: view.name for view in views}
    files = natsorted(names)
    depths = natsorted(f"{name}_aligned.npy" for name in names.values())
    if depths == [f"{names[file]}_aligned.npy" for file in files] and files == sorted(files):
        return {file: file for file in files}
    return {file: f"frame_{k:05d}{Path(file).suffix}" for k, file in enumerate(files)}


def write_dn_splatter(
    folder: Path,
    views: list[PosedView],
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
        file = renamed[view.source]
        place_image(replace(view, source=file), folder / "images")
        write_depth(folder / "mono_depth" / f"{Path(file).stem}_aligned.npy", view.depth())
