"""Crops and resizes of image, depth and camera together, as the released evaluation applies them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from omnidc.datasets.decode import Depth
from omnidc.errors import InputError

Picture = npt.NDArray[np.uint8]
Matrix = npt.NDArray[np.float64]


def center(shape: tuple[int, ...], size: tuple[int, int]) -> tuple[int, int]:
    """Return (top, left) of a centered window of `size` in a picture of `shape`; halves round to even, as released."""
    height, width = shape[:2]
    if height < size[0] or width < size[1]:
        raise InputError(
            f"A picture of {height}x{width} is smaller than the evaluation crop {size[0]}x{size[1]}: "
            "read it with native=True."
        )
    return round((height - size[0]) / 2), round((width - size[1]) / 2)


def resize_image(image: Picture, size: tuple[int, int]) -> Picture:
    """Resize bilinearly with the area of the output pixel (Pillow's), to (height, width)."""
    if image.shape[:2] == size:
        return image
    return np.asarray(Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR))


def resize_nearest(depth: Depth, size: tuple[int, int]) -> Depth:
    """Resize to the value under each output pixel's center, so that no depth is invented at edges."""
    return np.asarray(Image.fromarray(depth).resize((size[1], size[0]), Image.Resampling.NEAREST))


def resize_bilinear(depth: Depth, size: tuple[int, int]) -> Depth:
    """Resize bilinearly (as Pillow, over the output pixel). It mixes depths at edges: only for NYU's protocol."""
    return np.asarray(Image.fromarray(depth).resize((size[1], size[0]), Image.Resampling.BILINEAR))


def block_mean(depth: Depth, factor: int) -> Depth:
    """Return the mean of the valid pixels (> 0) of each `factor` x `factor` block; 0 where a block has none."""
    height, width = depth.shape[0] // factor, depth.shape[1] // factor
    blocks = depth[: height * factor, : width * factor].reshape(height, factor, width, factor)
    count = (blocks > 0).sum(axis=(1, 3))
    total = blocks.sum(axis=(1, 3), dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), 0).astype(np.float32)


def crop_camera(K: Matrix, top: int, left: int) -> Matrix:
    """Return the intrinsics after `top` rows and `left` columns were cut away."""
    out = K.copy()
    out[0, 2] -= left
    out[1, 2] -= top
    return out


def resize_camera(K: Matrix, old: tuple[int, int], new: tuple[int, int]) -> Matrix:
    """Return the intrinsics after a resize from `old` to `new` (height, width), with pixel centers at integers."""
    sy, sx = new[0] / old[0], new[1] / old[1]
    out = K.copy()
    out[0] *= sx
    out[1] *= sy
    out[0, 2] = (K[0, 2] + 0.5) * sx - 0.5
    out[1, 2] = (K[1, 2] + 0.5) * sy - 0.5
    return out
