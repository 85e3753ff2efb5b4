"""The one rule for EXIF orientations: results show the photograph as viewers do.

A depth map, mask or camera that fits only the stored pixels is turned along with the photograph; `--ignore-exif` takes
stored pixels as they are. Masks hold for stored pixels where both fit, as docs/conventions.md says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.frame import Frame, OriginalPixels
from omnidc.geometry.orientation import UPRIGHT, Orientation
from omnidc.geometry.transforms import Array
from omnidc.io.images import Photograph, Picture, as_mask

UNCERTAIN = (1, 1)  # shape of measurements that fit either way
SAME_SHAPE = 0.02  # relative difference of the aspect ratios of maps of one view


@dataclass(frozen=True)
class ArrangedPhoto:
    """A photograph in the pixels that its depth map and camera belong to."""

    photo: Photograph
    image: Picture  # [H, W, 3]
    remaining: Orientation = UPRIGHT  # the turn that the whole frame still needs
    warnings: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.image.shape[0], self.image.shape[1]

    def mask(self, values: npt.NDArray[Any], name: str) -> npt.NDArray[np.bool_]:  # [H, W] or [H, W, C]
        """Return a mask of the stored or the viewed photograph for the pixels of `image`."""
        orientation = self.photo.orientation
        is_stored = bool(self.remaining) or not orientation  # `image` has the stored pixels
        if values.shape[:2] == self.photo.shape:
            mask = as_mask(values, self.photo.shape, name)
            return mask if is_stored else orientation.apply(mask)
        mask = as_mask(values, orientation.shape(self.photo.shape), name)
        return orientation.undo(mask) if is_stored else mask

    def finish(self, frame: Frame) -> Frame:
        """Turn a frame of `image` by what remains, and say so."""
        if not self.photo.orientation:
            return frame
        along = ", its measurements and camera with it" if self.remaining else ""
        text = f"photo {self.photo.orientation}, as its EXIF tag says{along}"
        return replace(turn_frame(frame, self.remaining), pixels="; ".join(filter(None, (text, frame.pixels))))


def arrange(
    photo: Photograph,
    depth_shape: tuple[int, int] | None = None,  # of a depth map of the same view, at any resolution
    K: Array | None = None,  # [3, 3]
    camera_size: tuple[int, int] | None = None,  # width and height that K belongs to; None = not known
) -> ArrangedPhoto:
    """Decide whether depth map and camera belong to the stored or to the viewed pixels of a photograph."""
    orientation = photo.orientation
    if not orientation:
        return ArrangedPhoto(photo, photo.image)
    if orientation.mirrored and K is not None:
        warning = "The photograph's EXIF tag mirrors it, which no camera does: it is taken as stored."
        return ArrangedPhoto(replace(photo, orientation=UPRIGHT), photo.image, warnings=(warning,))
    stored, viewed = photo.shape, orientation.shape(photo.shape)
    fits: dict[str, bool | None] = {}
    if depth_shape is not None:
        fits["depth map"] = _fits_first(depth_shape, stored, viewed)
    if camera_size is not None:
        fits["camera"] = _fits_first((camera_size[1], camera_size[0]), stored, viewed)
    elif K is not None:
        here, there = _off_center(K, stored), _off_center(K, viewed)
        fits["camera"] = None if here == there else here < there
    verdicts = {verdict for verdict in fits.values() if verdict is not None}
    if len(verdicts) > 1:
        stored_one, viewed_one = ("depth map", "camera") if fits["depth map"] else ("camera", "depth map")
        raise InputError(
            f"The {stored_one} fits the photograph as it is stored, but the {viewed_one} as its EXIF tag turns it: "
            "give both for the same pixels."
        )
    if True in verdicts:
        return ArrangedPhoto(photo, photo.image, orientation)
    warnings: tuple[str, ...] = ()
    if fits and not verdicts:
        warnings = (
            f"The photograph is {orientation} by its EXIF tag, and the {' and '.join(fits)} would fit either way: "
            "taken as turned already. Give --ignore-exif (ignore_exif=True) if they belong to the stored pixels.",
        )
    return ArrangedPhoto(photo, photo.viewed, warnings=warnings)


def _fits_first(shape: tuple[int, int], first: tuple[int, int], second: tuple[int, int]) -> bool | None:
    """Return True where a map of this shape fits only the first, False where only the second, else None."""
    if shape in (first, second) and first != second:
        return shape == first
    one, two = same_view(shape, first), same_view(shape, second)
    return None if one == two else one


def same_view(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return True for two resolutions of one view; sizes are whole numbers, so that small maps are a little off."""
    return abs(one[1] * other[0] - one[0] * other[1]) <= SAME_SHAPE * one[1] * other[0] + max(other)


def _off_center(K: Array, shape: tuple[int, int]) -> float:
    """Return how far the principal point lies from the middle, as a fraction of the image."""
    x, y = float(K[0, 2]), float(K[1, 2])
    return max(abs(x - (shape[1] - 1) / 2) / shape[1], abs(y - (shape[0] - 1) / 2) / shape[0])


def turn_frame(frame: Frame, orientation: Orientation) -> Frame:
    """Return a frame with its image, maps, camera and pose turned."""
    if not orientation:
        return frame
    names = ("image", "sparse", "depth", "sky", "mask")
    maps: dict[str, Any] = {
        name: orientation.apply(values) for name in names if (values := getattr(frame, name)) is not None
    }
    shape = (frame.height, frame.width)
    return replace(
        frame,
        **maps,
        intrinsics=None if frame.intrinsics is None else orientation.intrinsics(frame.intrinsics, shape),
        pose=None if frame.pose is None else orientation.pose(frame.pose),
        original=None if frame.original is None else _turn_original(frame.original, orientation, shape),
    )


def _turn_original(original: OriginalPixels, orientation: Orientation, shape: tuple[int, int]) -> OriginalPixels:
    return OriginalPixels(
        orientation.apply(original.image), partial(_turned_places, original.places, orientation, shape)
    )


def _turned_places(
    places: Callable[[], npt.NDArray[np.float32]], orientation: Orientation, shape: tuple[int, int]
) -> npt.NDArray[np.float32]:
    """Return a map of columns and rows whose own pixels, and those that it points to, are turned."""
    columns, rows = np.moveaxis(orientation.apply(places()), 2, 0)
    for _ in range(orientation.quarters):
        columns, rows = shape[0] - 1 - rows, columns
        shape = (shape[1], shape[0])
    return np.stack([columns, rows], axis=2)
