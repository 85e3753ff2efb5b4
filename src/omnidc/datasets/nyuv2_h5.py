"""NYU Depth v2 as h5 files: the usual test set of depth completion (654 frames), and its training set.

    ROOT/val/official/00001.h5          arrays `rgb` 3x480x640 uint8 and `depth` 480x640 meters
    ROOT/train/bathroom_0001/00001.h5   the same; a folder is a scene

As everyone does on this set, frames are resized to 320x240 (bilinear, depth too) and the middle 304x228 is cut out;
native=True keeps 640x480. ROOT may also be val/official itself, or hold the folder nyudepthv2_h5.
Checked: the arrays of an original frame; not the folder names (as in the released code).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from omnidc.datasets.decode import read_h5, valid
from omnidc.datasets.nyu_camera import NYU_K
from omnidc.datasets.resample import center, crop_camera, resize_bilinear, resize_camera, resize_image
from omnidc.datasets.source import Frames, first_folder, need_entries, safe_name
from omnidc.errors import FileError
from omnidc.frame import Frame

HALF, CROP = (240, 320), (228, 304)


def open_train_frames(root: Path, *, native: bool = True) -> Frames:
    """Open the frames. native: 640x480, as trainings crop themselves; False gives 304x228."""
    folder = first_folder(root, ("train", "nyudepthv2_h5/train"), "NYUv2's training scenes")
    entries = need_entries(sorted(folder.glob("*/*.h5")), folder, "bathroom_0001/00001.h5")
    return Frames(entries, partial(read_frame, folder, native))


def open_frames(root: Path, *, native: bool = False) -> Frames:
    """Open the frames. native: 640x480 instead of 304x228."""
    folder = next((root / f for f in ("val/official", "nyudepthv2_h5/val/official") if (root / f).is_dir()), root)
    return Frames(
        need_entries(sorted(folder.glob("*.h5")), folder, "val/official/00001.h5"), partial(read_frame, folder, native)
    )


def read_frame(root: Path, native: bool, path: Path) -> Frame:
    rgb, depth = read_h5(path, "rgb", "depth")
    if rgb.ndim != 3 or rgb.shape[0] != 3 or rgb.shape[1:] != depth.shape:
        raise FileError(f"{path} holds rgb {list(rgb.shape)} and depth {list(depth.shape)}, not [3, H, W] and [H, W].")
    image = np.ascontiguousarray(rgb.transpose(1, 2, 0), dtype=np.uint8)
    z, K = valid(depth), NYU_K.copy()
    if not native:
        full = z.shape[0], z.shape[1]
        image, z, K = resize_image(image, HALF), resize_bilinear(z, HALF), resize_camera(K, full, HALF)
        top, left = center(HALF, CROP)
        window = np.s_[top : top + CROP[0], left : left + CROP[1]]
        image, z, K = image[window].copy(), z[window].copy(), crop_camera(K, top, left)
    return Frame(image, depth=z, intrinsics=K, name=safe_name(path, root), source=str(path))
