"""`View`: a completed frame with its camera, read from disk when asked for; what the exports for other tools take."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.io.files import atomic_path


@dataclass(frozen=True)
class View:
    """One posed result. `file` is the image's name at its source ("left/0001.jpg"), `name` the same without suffix."""

    name: str
    file: str
    image: Path  # the photograph at the size of the depth map, free of distortion
    depth: Callable[[], npt.NDArray[np.float32]]  # [H, W] > 0
    intrinsics: npt.NDArray[np.float64]  # [3, 3], pixel centres at integers
    pose: npt.NDArray[np.float64]  # [4, 4], camera to world, OpenCV axes
    size: tuple[int, int]  # height, width
    unit: str = "m"
    uncertainty: Callable[[], npt.NDArray[np.float32]] | None = None  # [H, W] > 0


def place_image(view: View, folder: Path) -> None:
    """Put the view's photograph into `folder` under its file name, as a hard link where the disk allows."""
    target = folder / view.file
    with atomic_path(target) as temporary:
        temporary.unlink()
        try:
            os.link(view.image, temporary)
        except OSError:  # another disk, or a file system without links
            shutil.copyfile(view.image, temporary)


def common_unit(views: list[View]) -> str:
    """Return the unit that all views share."""
    units = {view.unit for view in views}
    if len(units) > 1:
        raise InputError(f"The frames are in different units ({', '.join(sorted(units))}); export them one by one.")
    return units.pop() if units else "m"
