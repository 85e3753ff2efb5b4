"""iBims-1 (TU Munich): 100 indoor photographs with laser truth, 640x480.

    ROOT/imagelist.txt                one name per line
    ROOT/gt_depth/corridor_01.mat     struct `data` with rgb, depth (meters), calib, mask_invalid, mask_transp, ...

The released evaluation applies no mask (depth 0 is unknown); masks=True also removes the pixels that `mask_invalid`
and `mask_transp` mark (0 = marked). Only MATLAB files before version 7.3 are read (the published ones are).
Checked: nothing of the original (none at hand); fields as in the published evaluation code, whose `calib` is the
transposed camera matrix (both orientations are recognized) and counts pixels from 1, as MATLAB does.
"""

from __future__ import annotations

import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from omnidc.datasets.decode import read_lines, valid
from omnidc.datasets.source import Frames, need_entries, need_file
from omnidc.frame import Frame
from omnidc.io.sandbox import Answer, Sandbox
from omnidc.io.untrusted import untrusted


def open_frames(root: Path, *, masks: bool = False) -> Frames:
    """Open the frames. masks: also drop invalid and transparent pixels (the release does not)."""
    names = read_lines(root / "imagelist.txt", "iBims-1's list of images")
    return Frames(need_entries(names, root, "gt_depth/corridor_01.mat"), partial(read_frame, root, masks))


def read_frame(root: Path, masks: bool, name: str) -> Frame:
    path = need_file(root / "gt_depth" / f"{name}.mat", "an iBims-1 frame")
    with untrusted(path, "a MATLAB file"):
        # SciPy's reader ends the process on some damaged files.
        with _LOCK:
            fields, arrays = _SANDBOX.call(
                "read_mat", path, timeout=READ_SECONDS + path.stat().st_size / BYTES_PER_SECOND
            )
        data = dict(zip(fields["names"], arrays))
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


FIELDS = ("rgb", "depth", "calib", "mask_invalid", "mask_transp")
READ_SECONDS, BYTES_PER_SECOND = 3.0, 2**20  # slower than any computer that reads them
_SANDBOX = Sandbox("omnidc.datasets.ibims")
_LOCK = threading.Lock()


def read_mat(path: Path) -> Answer:
    """Read the arrays of a frame that are known here; runs in a sandbox."""
    with untrusted(path, "a MATLAB file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = _struct(scipy.io.loadmat(path)["data"])
        found = {name: np.asarray(data[name]) for name in FIELDS if name in data}
        if any(array.dtype.kind not in "fiub" for array in found.values()):
            raise ValueError("its fields are no numbers")
    return {"names": list(found)}, list(found.values())


def _struct(array: Any) -> dict[str, Any]:
    """Return the fields of a 1x1 MATLAB struct."""
    record = array[0, 0]
    return {field: record[field] for field in array.dtype.names}
