"""`PosedView`: a completed frame with its camera; what the exports for other tools take."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.frame import Unit
from omnidc.io.files import atomic_path
from omnidc.pipeline.completion import is_sky
from omnidc.pipeline.sinks import StoredFrame


@dataclass(frozen=True)
class PosedView:
    """One posed result. `source` is the image's name at its source ("left/0001.jpg"), `name` that without suffix."""

    name: str
    source: str
    image: Path  # the photograph at the size of the depth map, free of distortion
    depth: Callable[[], npt.NDArray[np.float32]]  # [H, W], 0 = none
    intrinsics: npt.NDArray[np.float64]  # [3, 3], pixel centers at integers
    pose: npt.NDArray[np.float64]  # [4, 4], camera to world, OpenCV axes
    size: tuple[int, int]  # height, width
    unit: Unit = Unit.METERS
    uncertainty: Callable[[], npt.NDArray[np.float32]] | None = None  # [H, W] > 0


def posed_views(results: Iterable[StoredFrame]) -> list[PosedView]:
    """Return the results with a camera and a pose. Where the results know the sky, it has no depth (0)."""
    return [
        PosedView(
            stored.name,
            stored.source,
            stored.image,
            stored.depth if stored.sky is None else partial(_depth_without_sky, stored),
            stored.intrinsics,
            stored.pose,
            stored.size,
            stored.unit,
            stored.uncertainty,
        )
        for stored in results
        if stored.pose is not None and stored.intrinsics is not None
    ]


def _depth_without_sky(stored: StoredFrame) -> npt.NDArray[np.float32]:
    """Depth [H, W] with 0 in the sky, whatever the option `sky` put there: other tools would take it for a surface."""
    assert stored.sky is not None
    depth = stored.depth()
    measured = np.full_like(depth, np.nan) if stored.input_confidence is None else stored.input_confidence()
    return np.where(is_sky(stored.sky(), measured), np.float32(0), depth)


def place_image(view: PosedView, folder: Path) -> None:
    """Put the view's photograph into `folder` under its source name, as a hard link where the disk allows."""
    target = folder / view.source
    with atomic_path(target) as temporary:
        temporary.unlink()
        try:
            os.link(view.image, temporary)
        except OSError:  # another disk, or a file system without links
            shutil.copyfile(view.image, temporary)


def place_images(folder: Path, views: list[PosedView]) -> None:
    """Put the photographs of all views into `folder`/images."""
    if not views:
        raise InputError("There is no posed frame to export; a COLMAP model needs poses.")
    for view in views:
        place_image(view, folder / "images")


def common_unit(views: list[PosedView]) -> Unit:
    """Return the unit that all views share."""
    units = {view.unit for view in views}
    if len(units) > 1:
        raise InputError(f"The frames are in different units ({', '.join(sorted(units))}); export them one by one.")
    return units.pop() if units else Unit.METERS
