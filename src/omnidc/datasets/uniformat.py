"""Uniformat: the released evaluation sets, one file per frame with picture, sparse depth and truth.

    ROOT/000000.npy, 000001.npy, ...     theirs: a pickled dict  rgb, dep, gt, K
    ROOT/000000.npz, 000001.npz, ...     ours: the same four arrays without pickle

rgb uint8 [H, W, 3]; dep and gt float32 [H, W], 0 = none; K 3x3, or (fx, fy, cx, cy) in the KITTI sets.
A pickle can run any program when it is opened. Theirs are therefore read by an unpickler that knows NumPy arrays,
dicts, strings and numbers and refuses everything else.
The release overrides K by folder name where the stored one is wrong: ETH3D f = 425, iBims f = 490, both at (320, 240);
so do we. scale multiplies dep and gt (the release's scale-equivariance test).
Checked: against files written the documented way with numpy.save; no released file was at hand.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import camera, valid
from omnidc.datasets.source import Frames, need_entries, need_file, positive
from omnidc.errors import FileError, InputError
from omnidc.frame import Frame
from omnidc.io.files import atomic_path
from omnidc.io.untrusted import read_npz, untrusted

KEYS = ("rgb", "dep", "gt", "K")
# All that a pickled dict of arrays and numbers names besides numpy.ndarray and numpy.dtype. NumPy 1 and 2 keep the two
# functions in different modules; asking an array and a number how they are pickled finds them in both.
_BUILDERS = {"_reconstruct": np.empty(0).__reduce__()[0], "scalar": np.float64(0).__reduce__()[0]}


class ArrayUnpickler(pickle.Unpickler):
    """Knows NumPy arrays and the types pickle has opcodes for; any other name in the file is an error."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name in _BUILDERS:
            return _BUILDERS[name]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no frame needs, so it was not opened")


def open_frames(root: Path, *, scale: float = 1.0) -> Frames:
    """Open the frames. scale: factor on all depths."""
    entries = sorted([*root.glob("*.npy"), *root.glob("*.npz")])
    return Frames(
        need_entries(entries, root, "000000.npy or 000000.npz"), partial(read_frame, positive("scale", scale))
    )


def read_frame(scale: float, path: Path) -> Frame:
    need_file(path, "a frame")
    with untrusted(path, "a uniformat frame"):
        data = _read_npz(path) if path.suffix == ".npz" else _read_npy(path)
        if "rgb" not in data:
            raise ValueError("it has no array 'rgb'")
        image = np.ascontiguousarray(data["rgb"])
        sparse, gt_depth = (valid(data[key] * scale) if key in data else None for key in ("dep", "gt"))
    return Frame(
        image, sparse=sparse, depth=gt_depth, intrinsics=intrinsics(data.get("K"), path), name=path.stem,
        source=str(path),
    )  # fmt: skip


def intrinsics(stored: npt.NDArray[Any] | None, path: Path) -> npt.NDArray[np.float64] | None:
    """Return K of a frame: by folder name where the release says so, otherwise as stored."""
    folder = path.parent.name
    if path.suffix == ".npy" and folder.startswith("ETH3D"):
        return camera(425.0, 425.0, 320.0, 240.0)
    if path.suffix == ".npy" and folder.startswith("iBims"):
        return camera(490.0, 490.0, 320.0, 240.0)
    if stored is None:
        return None
    K = np.asarray(stored, dtype=np.float64)
    if K.size == 4:
        return camera(*K.ravel().tolist())
    if K.shape != (3, 3):
        raise FileError(f"{path} has a camera of shape {list(K.shape)}, not [3, 3] or [4].")
    return K


def _read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    arrays = read_npz(path)
    return {key: arrays[key].read() for key in KEYS if key in arrays}


def _read_npy(path: Path) -> dict[str, npt.NDArray[Any]]:
    with path.open("rb") as file:
        return check_arrays(unpickle_npy(file))


def unpickle_npy(file: BinaryIO) -> Any:
    """Read the object in an .npy file of one pickled object, through `ArrayUnpickler`."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(file)
    if shape != () or dtype != np.dtype(object):
        raise ValueError(f"it holds {dtype} {list(shape)}, not one pickled dict")
    loaded = ArrayUnpickler(file).load()
    return loaded.item() if isinstance(loaded, np.ndarray) and loaded.shape == () else loaded


def check_arrays(data: Any) -> dict[str, npt.NDArray[Any]]:
    """Return `data` if it is a dict of names to plain numbers or arrays of numbers."""
    if not isinstance(data, dict):
        raise ValueError(f"it holds a {type(data).__name__}, not a dict")
    arrays = {}
    for key in KEYS:
        if key in data:
            array = np.asarray(data[key])
            if array.dtype.kind not in "biuf":
                raise ValueError(f"its {key!r} is not made of numbers")
            arrays[key] = array
    return arrays


def write_uniformat(frames: Iterable[Frame], folder: Path) -> int:
    """Write frames as 000000.npz, 000001.npz, ... and return their number. Frames without sparse depth are refused."""
    count = 0
    for count, frame in enumerate(frames, start=1):
        if frame.sparse is None:
            raise InputError(f"Frame {frame.name!r} has no sparse depth: draw a pattern before writing uniformat.")
        arrays: dict[str, Any] = {"rgb": frame.image, "dep": frame.sparse.astype(np.float32)}
        if frame.depth is not None:
            arrays["gt"] = frame.depth.astype(np.float32)
        if frame.intrinsics is not None:
            arrays["K"] = frame.intrinsics.astype(np.float64)
        with atomic_path(folder / f"{count - 1:06d}.npz") as temporary:
            np.savez_compressed(temporary, **arrays)
    return count
