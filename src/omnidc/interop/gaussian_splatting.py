"""Depth for Gaussian splatting tools: Inria's 3DGS (inverse-depth PNG) and dn-splatter (aligned .npy).

Both read a COLMAP model of undistorted images beside it; `omnidc.sensors.colmap.write_pinhole_model` writes that.
"""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.interop.views import PosedView, place_image
from omnidc.io.depth import write_depth
from omnidc.io.files import atomic_path

# 3DGS divides the stored number by 65536, then applies scale and offset.
STEPS = 65536.0
# Of all inverse depths this share is stored unclipped; a few pixels at the lens would otherwise cost all precision.
KEPT = 0.9995


def inverse_depth_scale(views: list[PosedView]) -> float:
    """Return the scale that all views share: 3DGS distrusts images whose scale is far from the median of the scales."""
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
    """Return round(65536 / (depth · scale)), so that stored / 65536 · scale = 1 / depth; 0 where there is none."""
    inverse = np.zeros(depth.shape)
    np.divide(STEPS / scale, depth, out=inverse, where=depth > 0)
    return np.clip(np.rint(inverse), 0, STEPS - 1).astype(np.uint16)


def write_inria(
    folder: Path,
    views: list[PosedView],
) -> None:
    """Write images/, depths/*.png and sparse/0/depth_params.json; train with `-s FOLDER -d depths`."""
    if not views:
        raise InputError("There is no posed frame to export; 3DGS needs poses.")
    scale = inverse_depth_scale(views)
    for view in views:
        place_image(view, folder / "images")
        path = folder / "depths" / f"{view.name}.png"
        with atomic_path(path) as temporary:
            if not cv2.imwrite(str(temporary), encode_inverse_depth(view.depth(), scale)):
                raise FileError(f"Cannot write {path}; is the disk full?")
    table = {view.name: {"scale": scale, "offset": 0.0} for view in views}
    with atomic_path(folder / "sparse" / "0" / "depth_params.json") as temporary:
        temporary.write_text(json.dumps(table, indent=2), encoding="utf-8")


def write_dn_splatter(
    folder: Path,
    views: list[PosedView],
) -> None:
    """Write images/ and mono_depth/<name>_aligned.npy in the unit of the poses (`coolermap` data parser).

    The parser pairs depth with images by sorted file name, so every image of the model at colmap/sparse/0 needs one.
    """
    nested = [view.name for view in views if "/" in view.name]
    if nested:
        raise InputError(
            f"dn-splatter reads depth from one flat folder, but the images are in sub-folders (such as {nested[0]}); "
            "put them into one folder before running COLMAP."
        )
    for view in views:
        place_image(view, folder / "images")
        write_depth(folder / "mono_depth" / f"{view.name}_aligned.npy", view.depth())
