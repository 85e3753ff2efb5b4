"""The photograph of a view with its camera: read, masked and undistorted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.geometry.camera import Array, Picture, undistort
from omnidc.io.calibration import Calibration
from omnidc.io.images import find_mask, read_mask


@dataclass(frozen=True)
class Photo:
    """A photograph free of distortion."""

    image: Picture  # [H, W, 3]
    K: Array | None  # [3, 3]
    mask: npt.NDArray[np.bool_] | None = None  # [H, W], False = ignored
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.image.shape[0], self.image.shape[1]

    def finish(self, frame: Frame) -> Frame:
        """Return the frame of this photograph without the measurements that the mask ignores."""
        return frame if self.mask is None else frame.with_mask(self.mask)


def mask_of(
    masks: Path | None,  # folder with COLMAP's names, or one mask for all images; None = no masks
    name: str,  # of the image, with suffix
    shape: tuple[int, int],
) -> tuple[npt.NDArray[np.bool_] | None, tuple[str, ...]]:
    """Return the mask of an image [H, W], and a warning where the folder has none."""
    if masks is None:
        return None, ()
    if not masks.exists():
        raise FileError(f"There is no mask or folder of masks at {masks}; check the path.")
    path = masks if masks.is_file() else find_mask(masks, name)
    if path is None:
        return None, (f"There is no mask {masks / name}.png: all pixels count.",)
    return read_mask(path, shape), ()


def take_photo(
    image: Picture,  # [H, W, 3], as stored
    camera: Calibration | None,
    name: str,
    masks: Path | None = None,
    straighten: bool = True,  # False: a registered depth map is bent with the image
) -> Photo:
    """Return a photograph with its camera matrix and mask, undistorted to a pinhole camera."""
    mask, warnings = mask_of(masks, name, (image.shape[0], image.shape[1]))
    K = None if camera is None else camera.for_image((image.shape[0], image.shape[1]))
    if not straighten or camera is None or K is None or camera.distortion is None:
        return Photo(image, K, mask, warnings=warnings)
    straight, straight_K = undistort(image, K, camera.distortion, camera.fisheye)
    if mask is not None:
        levels = np.repeat(np.where(mask, np.uint8(255), np.uint8(0))[..., None], 3, axis=2)
        # A pixel counts where every pixel that it was interpolated from does.
        mask = undistort(levels, K, camera.distortion, camera.fisheye)[0][..., 0] == 255
    return Photo(straight, straight_K, mask, ("image undistorted to a pinhole camera",), warnings)
