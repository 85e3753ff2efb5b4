"""The list of datasets: one line each, and `open_dataset` that turns a name and a folder into frames."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidc.datasets.source import Frames, need_folder
from omnidc.errors import ConfigError


@dataclass(frozen=True)
class Dataset:
    """Where a reader is and what a user should know before downloading."""

    module: str
    function: str
    split: str  # "train", "test" or "own"
    description: str
    license: str

    @property
    def reader(self) -> Callable[..., Frames]:
        """`reader(root, **options)`; its module is imported only now."""
        function: Callable[..., Frames] = getattr(importlib.import_module(self.module), self.function)
        return function

    def annotation(self, option: str) -> str:
        """Return the type of an option, as written in the reader."""
        return str(inspect.signature(self.reader).parameters[option].annotation)

    @property
    def options(self) -> list[str]:
        """The names of the reader's options."""
        return [name for name in inspect.signature(self.reader).parameters if name != "root"]


def _line(module: str, split: str, description: str, license: str, function: str = "open_frames") -> Dataset:
    return Dataset(f"omnidc.datasets.{module}", function, split, description, license)


# Licenses as their authors state them; "?" = commonly given, but we did not see the statement. docs/datasets.md.
DATASETS: dict[str, Dataset] = {
    "hypersim": _line("hypersim", "train", "rendered interiors, 1024x768, ray distance turned into z", "CC BY-SA 3.0"),
    "irs": _line("irs", "train", "rendered indoor stereo, 960x540, disparity turned into z", "not stated"),
    "tartanair": _line("tartanair", "train", "rendered flights in- and outdoors, 640x480", "BSD 3-clause (its tools)"),
    "blendedmvs": _line("blendedmvs", "train", "renderings of photogrammetric models, 768x576", "CC BY 4.0"),
    "vkitti2": _line("vkitti2", "train", "Virtual KITTI 2, rendered driving, 1242x375", "CC BY-NC-SA 3.0?"),
    "ibims": _line("ibims", "test", "iBims-1, 100 indoor photographs with laser truth, 640x480", "not checked"),
    "arkitscenes": _line(
        "arkitscenes", "test", "iPad photographs with laser truth, indoors", "non-commercial (its tools)"
    ),
    "void": _line("void", "test", "VOID: visual-inertial odometry points, 640x480", "research only"),
    "nyuv2-h5": _line("nyuv2_h5", "test", "NYUv2 test set as h5 files, 304x228 as usual in completion", "not checked"),
    "nyuv2-png": _line("nyuv2_png", "test", "NYUv2 full-size PNG pairs, 640x480, Eigen crop", "not checked"),
    "diode": _line("diode", "test", "laser scans in- and outdoors, 1024x768", "MIT (its tools)"),
    "eth3d": _line("eth3d", "test", "DSLR photographs with laser truth, 6048x4032", "CC BY-NC-SA 4.0?"),
    "eth3d-sfm": _line("eth3d", "test", "ETH3D with its COLMAP points as input", "CC BY-NC-SA 4.0?", "open_sfm_frames"),
    "kitti-dc": _line("kitti_dc", "test", "KITTI depth completion, 64 to 8 laser lines, 1216x352", "CC BY-NC-SA 3.0?"),
    "kitti-dc-train": _line("kitti_train", "train", "KITTI depth completion, training drives", "CC BY-NC-SA 3.0?"),
    "nyuv2-train": _line("nyuv2_h5", "train", "NYUv2 training scenes as h5 files", "not checked", "open_train_frames"),
    "zju-4dradarcam": _line("zju_radar", "test", "4D radar points and laser truth, driving", "not stated"),
    "drivingstereo": _line("drivingstereo", "test", "driving in four weathers, filtered laser truth", "MIT (its site)"),
    "carla-night": _line("carla_night", "test", "CARLA-Night-DC: simulated night driving, 640x320", "not stated"),
    "uniformat": _line(
        "uniformat", "test", "the release's one-file-per-frame format, and our npz twin", "as its source"
    ),
    "pairs": _line("pairs", "own", "any two folders of images and depth maps with equal names", "yours"),
}


# Options arrive from the command line too, so their types are looked at before a reader trips over them.
_KINDS: dict[str, type | tuple[type, ...]] = {
    "bool": bool, "int": int, "float": (int, float), "str": str, "Path": Path, "None": type(None),
    "tuple[str, ...]": (tuple, list),
}  # fmt: skip


def _check_type(option: str, value: Any, annotation: str) -> None:
    kinds = annotation.split(" | ")
    fits = any(isinstance(value, _KINDS[kind]) for kind in kinds)
    if not fits or (isinstance(value, bool) and "bool" not in kinds):
        raise ConfigError(f"{option}={value!r} is not possible: it should be {' or '.join(kinds)}.")


def open_dataset(name: str, root: Path, **options: Any) -> Frames:
    """Open the dataset `name` in the folder `root`. Options are those of the reader (see its module).

    >>> import tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:  # pairs of files of the same name
    ...     for name in ("image", "depth"):
    ...         Path(folder, name).mkdir()
    ...     Image.new("RGB", (64, 48)).save(Path(folder, "image", "a.png"))
    ...     np.save(Path(folder, "depth", "a.npy"), np.full((48, 64), 2.0, np.float32))
    ...     float(open_dataset("pairs", Path(folder))[0].depth.max())
    2.0
    """
    if name not in DATASETS:
        raise ConfigError(f"There is no dataset {name!r}: choose one of {', '.join(DATASETS)}.")
    dataset = DATASETS[name]
    unknown = sorted(set(options) - set(dataset.options))
    if unknown:
        known = ", ".join(dataset.options) or "none"
        raise ConfigError(f"The dataset {name!r} has no option {unknown[0]!r}: its options are {known}.")
    for option, value in options.items():
        _check_type(option, value, dataset.annotation(option))
    root = need_folder(Path(root), f"the dataset {name!r}")
    return dataset.reader(root, **options)
