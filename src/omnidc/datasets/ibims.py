"""iBims-1 (TU Munich): 100 indoor photographs with laser truth, 640x480.

    ROOT/imagelist.txt                one name per line
    ROOT/gt_depth/corridor_01.mat     struct `data` with rgb, depth (meters), calib, mask_invalid, mask_transp, ...

The released evaluation applies no mask (depth 0 is unknown); masks=True also removes the pixels that `mask_invalid`
and `mask_transp` mark (0 = marked). Only MATLAB files before version 7.3 are read (the published ones are).
Checked: nothing of the original (none at hand); fields as in the published evaluation code, whose `calib` is the
transposed camera matrix (both orientations are recognized) and counts pixels from 1, as MATLAB does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from omnidc.datasets.decode import read_lines, valid
from omnidc.datasets.source import Frames, need_entries, need_file
from omnidc.frame import Frame
from omnidc.io.untrusted import untrusted


def open_frames(root: Path, *, masks: bool = False) -> Frames:
    """masks: also drop invalid and transparent pixels (the release does not)."""
    names = read_lines(root / "imagelist.txt", "iBims-1's list of images")
    return Frames(need_entries(names, root, "gt_depth/corridor_01.mat"), partial(read_frame, root, masks))


def read_frame(root: Path, masks: bool, name: str) -> Frame:
    path = need_file(root / "gt_depth" / f"{name}.mat", "an iBims-1 frame")
    with untrusted(path, "a MATLAB file"):
        data = _struct(scipy.io.loadmat(path)["data"])
        image = np.ascontiguousarray(data["rgb"], dtype=np.uint8)
        depth = valid(data["depth"])
        if masks:
            for mask in ("mask_invalid", "mask_transp"):
                depth = np.where(data[mask] > 0, depth, np.float32(0))
        K = np.asarray(data["calib"], dtype=np.float64) if "calib" in data else None
        if K is not None:
            K = (K.T if K[0, 2] == 0 else K).reshape(3, 3).copy()
            K[:2, 2] -= 1  # MATLAB's first pixel is 1
    return Frame(image, depth=depth, intrinsics=K, name=name, source=str(path))


def _struct(array: Any) -> dict[str, Any]:
    """The fields of a 1x1 MATLAB struct."""
    record = array[0, 0]
    return {field: record[field] for field in array.dtype.names}
