"""Photographs: finding, reading and writing them, as uint8 [H, W, 3] RGB."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from natsort import natsorted

from omnidc.errors import FileError, InputError
from omnidc.geometry.orientation import UPRIGHT, Orientation
from omnidc.io.files import atomic_path
from omnidc.io.untrusted import check_png, open_picture

Picture = npt.NDArray[np.uint8]  # [H, W, 3], RGB

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True)
class Photograph:
    """A photograph with its pixels as stored, and the turn by which viewers show it (EXIF)."""

    image: Picture  # [H, W, 3]
    orientation: Orientation = UPRIGHT
    notes: tuple[str, ...] = ()  # what the reader did, each a clause

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width as stored."""
        return self.image.shape[0], self.image.shape[1]

    @property
    def viewed(self) -> Picture:
        """The photograph as viewers show it."""
        return self.orientation.apply(self.image)


def read_photograph(path: str | os.PathLike[str], *, ignore_exif: bool = False) -> Photograph:
    """Read a photograph with its orientation tag; `ignore_exif` takes it as stored."""
    path = Path(path)
    try:
        with open_picture(path, "an image") as picture:
            deep = _has_deep_colors(picture)
            picture.load()
            orientation = UPRIGHT if ignore_exif else orientation_of(picture)
            if deep:
                array = _read_deep_colors(path)
            elif picture.mode.startswith("I") or picture.mode == "F":
                array = np.asarray(picture)
            else:
                return Photograph(np.array(picture.convert("RGB"), np.uint8), orientation)
        image = as_rgb(array)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    bits = _bits(array)
    notes = (f"image of {bits} bits in a 16-bit file, stretched to 8 bits",) if array.max() > 255 and bits < 16 else ()
    return Photograph(image, orientation, notes)


def orientation_of(picture: Any) -> Orientation:
    """Return the turn of an open Pillow picture by its EXIF tag."""
    try:
        return Orientation.of_exif(picture.getexif().get(0x0112, 1))
    except Exception:  # a damaged tag is ignored, as viewers do
        return UPRIGHT


def _has_deep_colors(picture: Any) -> bool:
    """Return whether colors have 16 bits, which Pillow would cut to their upper 8, making 12-bit pictures black."""
    if picture.mode not in ("RGB", "RGBA") or not picture.tile:
        return False
    args = picture.tile[0][3]
    first = args if isinstance(args, str) else args[0]
    return ";16" in str(first) or (picture.format == "PPM" and isinstance(args, tuple) and int(args[1]) > 255)


def _read_deep_colors(path: Path) -> npt.NDArray[np.uint16]:
    import cv2

    data = path.read_bytes()
    check_png(data)
    values = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if values is None or values.ndim != 3:
        raise InputError("its colors of 16 bits cannot be read: save it with 8 bits.")
    return np.asarray(values[..., 2::-1], np.uint16)


def read_image(path: str | os.PathLike[str], *, apply_exif: bool = True) -> npt.NDArray[np.uint8]:
    """Read a photograph. apply_exif: follow the camera's orientation tag (EXIF), as viewers do."""
    return read_photograph(path, ignore_exif=not apply_exif).viewed


def from_pil(picture: Any) -> npt.NDArray[np.uint8]:
    """Convert any Pillow mode; transparency is dropped, 16-bit gray is brought to 8 bits."""
    if picture.mode.startswith("I") or picture.mode == "F":
        return as_rgb(np.asarray(picture))
    return np.array(picture.convert("RGB"), np.uint8)


def as_rgb(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert [H, W], [H, W, 1 | 3 | 4] or [3, H, W]; whole numbers, or floating point in [0, 1].

    16-bit numbers are read as 8, 10, 12, 14 or 16 bits deep, whichever is the least that holds the brightest pixel,
    since cameras of 10 and 12 bits store their values in the low bits.
    """
    array = np.asarray(array)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise InputError(f"An image has shape [H, W, 3], [H, W, 4] or [H, W], not {list(array.shape)}.")
    array = array[..., :3]
    if array.dtype != np.uint8:
        array = _to_uint8(array)
    return np.array(np.broadcast_to(array, (*array.shape[:2], 3)))


def _to_uint8(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    kind = array.dtype.kind
    if kind not in "fiub" or not np.isfinite(array).all():
        raise InputError("An image must hold finite numbers: whole ones from 0 to 255 or 65535, or floats in [0, 1].")
    if kind == "b":
        return np.where(array, 255, 0).astype(np.uint8)
    low, high = float(array.min()), float(array.max())  # of float16 too, whose numbers end at 65504
    if low < 0 or (kind == "f" and high > 1 + 1e-6) or high > 65535:
        raise InputError(
            f"The image's values run from {low:g} to {high:g}: give whole numbers from 0 to 255 or 65535, "
            "or floats in [0, 1]."
        )
    if kind == "f":
        return np.asarray(np.rint(np.clip(array, 0, 1) * 255), np.uint8)
    return np.asarray(array.astype(np.uint32) >> (_bits(array) - 8), np.uint8)


def _bits(array: npt.NDArray[Any]) -> int:
    """Return the least of the usual bit depths that holds the brightest pixel."""
    return next(bits for bits in (8, 10, 12, 14, 16) if float(array.max()) < 2**bits)


def find_images(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the photographs of a folder in natural order of their names."""
    if not folder.is_dir():
        raise FileError(f"There is no folder {folder}; check the path.")
    found = [path for path in folder.glob(pattern) if path.suffix.lower() in SUFFIXES]
    return natsorted(found, key=lambda path: path.name)


def read_mask(path: Path, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return a mask [H, W]; black pixels are False, which means ignored."""
    return as_mask(read_image(path, apply_exif=False), shape, str(path))


def as_mask(values: npt.NDArray[Any], shape: tuple[int, int], name: str) -> npt.NDArray[np.bool_]:
    """Return [H, W] or [H, W, C] numbers as a mask: all-zero pixels are False. `name` is for the sentence."""
    kept = np.asarray(values.astype(bool).any(axis=2) if values.ndim == 3 else values.astype(bool))
    if kept.shape != shape:
        sizes = "x".join(map(str, kept.shape[::-1]))
        raise InputError(f"{name} is {sizes} but its image is {shape[1]}x{shape[0]}: give a mask of the image's size.")
    return kept


def find_mask(masks: Path, image: str) -> Path | None:
    """Return the mask of an image by COLMAP's convention (`MASKS/left/0001.jpg.png`); None where there is none."""
    path = masks / f"{image}.png"
    return path if path.is_file() else None


def write_picture(path: Path, picture: Picture) -> None:
    """Write a picture by its suffix; JPEG at a quality that does not cost detail."""
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"):
        raise FileError(f"{path} has no suffix of a picture; write .png or .jpg.")
    from PIL import Image

    with atomic_path(path) as temporary:
        Image.fromarray(picture).save(temporary, quality=95)
