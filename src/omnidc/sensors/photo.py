"""The photograph of a view with its camera: read, masked and undistorted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError
from omnidc.frame import UNDISTORTED, Frame, OriginalPixels
from omnidc.geometry.camera import Array, Picture, undistort, undistorted_places
from omnidc.io.calibration import Calibration
from omnidc.io.images import Photograph, find_mask, read_image
from omnidc.io.turning import ArrangedPhoto, arrange


@dataclass(frozen=True)
class Photo:
    """A photograph free of distortion, in the pixels that its camera and depth map belong to."""

    arranged: ArrangedPhoto
    image: Picture  # [H, W, 3]
    K: Array | None  # [3, 3]
    mask: npt.NDArray[np.bool_] | None = None  # [H, W], False = ignored
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    original: OriginalPixels | None = None  # before the distortion was removed; None = there was none

    @property
    def shape(self) -> tuple[int, int]:
        return self.image.shape[0], self.image.shape[1]

    def finish(self, frame: Frame) -> Frame:
        """Return the frame of this photograph without ignored measurements, as viewers show it."""
        if self.original is not None:
            frame = replace(frame, pixels=UNDISTORTED, original=self.original)
        return self.arranged.finish(frame if self.mask is None else frame.with_mask(self.mask))


def find_mask_of(
    masks: Path | None,  # folder with COLMAP's names, or one mask for all images; None = no masks
    name: str,  # of the image, with suffix
) -> tuple[Path | None, tuple[str, ...]]:
    """Return the mask file of an image, and a warning where the folder has none."""
    if masks is None:
        return None, ()
    if not masks.exists():
        raise FileError(f"There is no mask or folder of masks at {masks}; check the path.")
    path = masks if masks.is_file() else find_mask(masks, name)
    return path, () if path is not None else (f"There is no mask {masks / name}.png: all pixels count.",)


def take_photo(
    photo: Photograph,
    camera: Calibration | None,
    name: str,
    masks: Path | None = None,
    depth_shape: tuple[int, int] | None = None,  # of a depth map of the same view; None = there is none
    straighten: bool = True,  # False: a registered depth map is bent with the image
) -> Photo:
    """Return a photograph with its camera matrix and mask, undistorted to a pinhole camera."""
    known = (None, None) if camera is None else (camera.K, camera.image_size)
    arranged = arrange(photo, depth_shape, *known)
    path, warnings = find_mask_of(masks, name)
    mask = None if path is None else arranged.mask(read_image(path, apply_exif=False), str(path))
    warnings = (*arranged.warnings, *warnings)
    image = arranged.image
    K = None if camera is None else camera.for_image(arranged.shape)
    if camera is None or K is None or camera.distortion is None:
        return Photo(arranged, image, K, mask, photo.notes, warnings)
    if not straighten:
        note = "image left distorted, as its depth map is; clouds take it for a pinhole camera's"
        return Photo(arranged, image, K, mask, (*photo.notes, note), warnings)
    straight, straight_K = undistort(image, K, camera.distortion, camera.fisheye)
    if mask is not None:
        levels = np.repeat(np.where(mask, np.uint8(255), np.uint8(0))[..., None], 3, axis=2)
        # A pixel counts where every pixel that it was interpolated from does.
        mask = undistort(levels, K, camera.distortion, camera.fisheye)[0][..., 0] == 255
    places = partial(undistorted_places, arranged.shape, K, straight_K, camera.distortion, camera.fisheye)
    return Photo(arranged, straight, straight_K, mask, photo.notes, warnings, OriginalPixels(image, places))
