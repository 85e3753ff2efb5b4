"""What users hand in, checked and brought to one form."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from omnidc.errors import InputError
from omnidc.geometry.camera import check_intrinsics, ray_to_z
from omnidc.geometry.rasterize import move_points
from omnidc.io.depth import UNKNOWN_UNIT, as_map, clean_depth, read_depth
from omnidc.io.images import as_rgb, from_pil, read_image

FEW_POINTS = 10


@dataclass
class Inputs:
    """One view, ready for the network."""

    image: npt.NDArray[np.uint8]  # [H, W, 3], RGB
    sparse: npt.NDArray[np.float32]  # [H, W], z-depth, 0 = no measurement
    intrinsics: npt.NDArray[np.float64] | None  # [3, 3]
    unit: str  # "m", or UNKNOWN_UNIT
    note: str  # which unit was assumed, and why
    warnings: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """The sanity line: points, share of pixels, min / median / max, unit and why."""
        height, width = self.sparse.shape
        depths = self.sparse[self.sparse > 0]
        if not depths.size:
            return f"no points in {width}x{height} ({self.note})"
        label = "m" if self.unit == "m" else ""
        points = "1 point" if depths.size == 1 else f"{depths.size:,} points"
        return (
            f"{points}, {100 * depths.size / self.sparse.size:.3g} % of {width}x{height}; "
            f"min {depths.min():.3g}, median {np.median(depths):.3g}, max {depths.max():.3g} {label}".rstrip()
            + f" ({self.note})"
        )


def prepare(
    image: Any,
    sparse: Any,
    intrinsics: Any = None,
    *,
    depth_scale: float | None = None,
    ray_depth: bool = False,
    resize_sparse: bool = False,
) -> Inputs:
    """Check everything; raise one sentence where the input cannot be used, collect warnings where it can."""
    picture = as_image(image)
    camera = None if intrinsics is None else check_intrinsics(intrinsics)
    depth, unit, note, invalid = as_sparse(sparse, depth_scale, picture.shape[:2])
    if depth.shape != picture.shape[:2]:
        (h, w), (H, W) = depth.shape, picture.shape[:2]
        if not resize_sparse:
            raise InputError(
                f"The sparse depth is {w}x{h} but the image is {W}x{H}: give both for the same pixels, or move the "
                "points with --resize-sparse nearest (resize_sparse=True) if only the resolution differs."
            )
        if abs(w * H - h * W) > 0.02 * w * H + max(H, W):
            raise InputError(
                f"The sparse depth is {w}x{h} and the image {W}x{H}, which are not of the same shape: they cannot show "
                "the same view; crop one of them first."
            )
        depth = move_points(depth, (H, W))
    if ray_depth:
        if camera is None:
            raise InputError("Distances along the ray need the camera: give intrinsics (fx fy cx cy).")
        depth = ray_to_z(depth, camera)
    return Inputs(picture, depth, camera, unit, note, _warnings(depth, unit, invalid))


def as_image(image: Any) -> npt.NDArray[np.uint8]:
    """A path, a Pillow image, an array or a tensor as uint8 [H, W, 3]."""
    if isinstance(image, str | os.PathLike):
        return read_image(image)
    if isinstance(image, torch.Tensor):
        image = image.detach().cpu().float().numpy() if image.is_floating_point() else image.detach().cpu().numpy()
    if isinstance(image, np.ndarray):
        return as_rgb(image[0] if image.ndim == 4 and image.shape[0] == 1 else image)
    if hasattr(image, "convert") and hasattr(image, "mode"):
        return from_pil(image)
    raise InputError(f"The image is a {type(image).__name__}: give a path, a Pillow image, an array or a tensor.")


def as_sparse(
    sparse: Any, scale: float | None, shape: tuple[int, int]
) -> tuple[npt.NDArray[np.float32], str, str, int]:
    """Depth [H, W], its unit, why that unit, and how many NaN and infinite values it held. None = no points."""
    if sparse is None:
        return np.zeros(shape, np.float32), UNKNOWN_UNIT, "no depth given", 0
    if isinstance(sparse, str | os.PathLike):
        file = read_depth(Path(sparse), scale)
        return file.depth, file.unit, file.note, file.invalid
    if isinstance(sparse, torch.Tensor):
        sparse = sparse.detach().cpu()
        sparse = sparse.float().numpy() if sparse.is_floating_point() else sparse.numpy()
    if hasattr(sparse, "convert") and hasattr(sparse, "mode"):
        sparse = np.asarray(sparse)
    if not isinstance(sparse, np.ndarray):
        raise InputError(f"The sparse depth is a {type(sparse).__name__}: give a path, an array or a tensor.")
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise InputError(f"The depth scale must be a positive number, not {scale:g}.")
    depth, invalid = clean_depth(as_map(sparse, "The sparse depth"), scale or 1.0, "The sparse depth")
    if scale is None:
        return depth, UNKNOWN_UNIT, "an array, taken as it is", invalid
    return depth, "m" if scale > 1 else UNKNOWN_UNIT, f"an array ÷ {scale:g}, as asked", invalid


def _warnings(depth: npt.NDArray[np.float32], unit: str, invalid: int) -> list[str]:
    warnings = []
    if invalid:
        warnings.append(f"{invalid:,} NaN or infinite values were taken as 'no measurement'.")
    points = depth[depth > 0]
    if not points.size:
        warnings.append("There are no depth points: the result is relative depth around 1, without a unit.")
        return warnings
    low, middle, high = float(points.min()), float(np.median(points)), float(points.max())
    if points.size < FEW_POINTS:
        plural = "s" if points.size > 1 else ""
        warnings.append(f"Only {points.size} depth point{plural}: everything far from them is the network's guess.")
    elif low == high:
        warnings.append(f"All {points.size:,} points have the same depth {low:g}: is it a placeholder?")
    if high > 1e4 * low:
        warnings.append(f"The depths span a factor of {high / low:.0e}: check the unit, and the points for outliers.")
    if unit == UNKNOWN_UNIT and middle > 300:
        warnings.append(
            f"A median depth of {middle:.0f} looks like millimetres: the result keeps the unit of the input; "
            "for metres give --depth-scale 1000 (depth_scale=1000)."
        )
    return warnings
