"""Check user input and make a `Frame` of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.frame import Frame, Unit, point_warnings
from omnidc.geometry.camera import check_intrinsics, ray_to_z
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.geometry.stereo import Stereo
from omnidc.io.depth import DepthFile, as_map, clean_depth, read_depth, read_disparity, refuse_disparity
from omnidc.io.images import Photograph, as_rgb, from_pil, read_image, read_photograph
from omnidc.io.pointlist import SUFFIXES as POINT_SUFFIXES
from omnidc.io.pointlist import PointList, read_points
from omnidc.io.turning import UNCERTAIN, ArrangedPhoto, arrange, same_view

MAX_SPAN = 1e8  # largest depth over smallest; float32 holds about 7 digits


def make_frame(
    image: Any,
    sparse: Any,
    intrinsics: Any = None,
    *,
    depth_scale: float | None = None,
    ray_depth: bool = False,
    resize_sparse: bool = False,
    disparity: Stereo | None = None,
    mask: Any = None,
    ignore_exif: bool = False,
    name: str = "",
) -> Frame:
    """Make a `Frame` of an image and its sparse depth; raise `InputError` where they cannot be used.

    image: path, Pillow image, array or tensor; gray, RGB or RGBA, 8 or 16 bits or floats in [0, 1].
    sparse: path, array or tensor [H, W] of z-depth in any unit, 0 = no measurement; None = no points at all. A path may
        be a list of points (csv, txt, json): column, row and depth.
    intrinsics: fx, fy, cx, cy or 3×3, for points and for ray_depth.
    depth_scale: what stored depth is divided by; None = guessed for integer files, 1 otherwise.
    ray_depth: `sparse` holds distances along the ray, not z-depth.
    resize_sparse: move the points to the image's pixels when only the resolution differs.
    disparity: `sparse` holds disparities in pixels (× depth_scale; files of whole numbers × 256) of this stereo pair.
    mask: path, array or tensor [H, W]; 0 (black) = ignored: measurements and result are removed there.
    ignore_exif: take an image file as stored. Otherwise it is turned as its EXIF tag says, and so is what fits only the
        stored pixels.

    >>> import numpy as np
    >>> image, sparse = np.zeros((48, 64, 3), np.uint8), np.zeros((48, 64), np.float32)
    >>> sparse[::8, ::8] = 1.5
    >>> frame = make_frame(image, sparse)
    >>> frame.summary()[:35]
    '48 points, 1.56 % of 64x48; min 1.5'
    """
    photo = as_photograph(image, ignore_exif)
    camera = None if intrinsics is None else check_intrinsics(intrinsics)
    given = as_sparse(sparse, depth_scale, disparity)
    depth_shape: tuple[int, int] | None = None
    if isinstance(given, PointList):
        depth_shape = given.shape_of((photo.shape, photo.orientation.shape(photo.shape))) or UNCERTAIN
    elif given is not None:
        depth_shape = (given.depth.shape[0], given.depth.shape[1])
    arranged = arrange(photo, depth_shape, camera)
    picture = arranged.image
    if given is None:
        file = DepthFile(np.zeros(arranged.shape, np.float32), "no depth given", 1.0, Unit.UNKNOWN)
    else:
        file = given.draw(arranged.shape, depth_scale) if isinstance(given, PointList) else given
    depth = file.depth
    if depth.shape != picture.shape[:2]:
        (h, w), (H, W) = depth.shape, picture.shape[:2]
        if not resize_sparse:
            raise InputError(
                f"The sparse depth is {w}x{h} but the image is {W}x{H}: give both for the same pixels, or move the "
                "points with --resize-sparse nearest (resize_sparse=True) if only the resolution differs."
            )
        if not same_view((h, w), (H, W)):
            raise InputError(
                f"The sparse depth is {w}x{h} and the image {W}x{H}, which are not of the same shape: they cannot show "
                "the same view; crop one of them first."
            )
        depth = resize_sparse_nearest(depth, (H, W))
    if ray_depth:
        if camera is None:
            raise InputError("Distances along the ray need the camera: give intrinsics (fx fy cx cy).")
        depth = ray_to_z(depth, camera)
    kept = None if mask is None else _as_mask(mask, arranged)
    if kept is not None:
        depth = np.where(kept, depth, np.float32(0))
    _check_span(depth)
    invalid = f"{file.invalid:,} NaN, infinite or subnormal values were taken as 'no measurement'."
    frame = Frame(
        picture,
        depth,
        intrinsics=camera,
        unit=file.unit,
        name=name,
        mask=kept,
        source=Path(image).name if isinstance(image, str | os.PathLike) else "",
        unit_reason=file.note,
        warnings=(*((invalid,) if file.invalid else ()), *point_warnings(depth, file.unit), *arranged.warnings),
        notes=photo.notes,
    )
    return arranged.finish(frame)


def _check_span(depth: npt.NDArray[np.float32]) -> None:  # [H, W], 0 = none
    points = depth[depth > 0]
    if points.size and points.max() > MAX_SPAN * points.min():
        low, high = float(points.min()), float(points.max())
        raise InputError(
            f"The depths span a factor of {high / low:.0e}, from {low:.3g} to {high:.3g}, which no sensor does: "
            "remove the wrong points."
        )


def as_photograph(image: Any, ignore_exif: bool = False) -> Photograph:
    """Return a path, a Pillow image, an array or a tensor as a photograph; only files have an EXIF tag."""
    if isinstance(image, str | os.PathLike):
        return read_photograph(image, ignore_exif=ignore_exif)
    image = _as_array(image)
    if isinstance(image, np.ndarray):
        return Photograph(as_rgb(image[0] if image.ndim == 4 and image.shape[0] == 1 else image))
    if hasattr(image, "convert") and hasattr(image, "mode"):
        return Photograph(from_pil(image))
    raise InputError(f"The image is a {type(image).__name__}: give a path, a Pillow image, an array or a tensor.")


def as_sparse(sparse: Any, scale: float | None, stereo: Stereo | None = None) -> DepthFile | PointList | None:
    """Return depth [H, W] with its unit and why, or a list of points; None = no points."""
    if sparse is None or isinstance(sparse, DepthFile):
        return sparse
    if isinstance(sparse, str | os.PathLike):
        path = Path(sparse)
        if stereo is not None:
            return read_disparity(path, stereo, scale)
        if path.suffix.lower() in POINT_SUFFIXES:
            return read_points(path)
        refuse_disparity(path)
        return read_depth(path, scale)
    sparse = _as_array(sparse)
    if hasattr(sparse, "convert") and hasattr(sparse, "mode"):
        sparse = np.asarray(sparse)
    if not isinstance(sparse, np.ndarray):
        raise InputError(f"The sparse depth is a {type(sparse).__name__}: give a path, an array or a tensor.")
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise InputError(f"The depth scale must be a positive number, not {scale:g}.")
    values = as_map(sparse, "The sparse depth")
    if stereo is not None:
        depth, invalid = clean_depth(stereo.depth(values / (scale or 1.0)), 1.0, "The sparse depth")
        return DepthFile(depth, "meters, from disparities", scale or 1.0, Unit.METERS, invalid)
    depth, invalid = clean_depth(values, scale or 1.0, "The sparse depth")
    if scale is None:
        return DepthFile(depth, "an array, taken as it is", 1.0, Unit.UNKNOWN, invalid)
    unit = Unit.METERS if scale > 1 else Unit.UNKNOWN
    return DepthFile(depth, f"an array ÷ {scale:g}, as asked", scale, unit, invalid)


def _as_mask(mask: Any, photo: ArrangedPhoto) -> npt.NDArray[np.bool_]:
    if isinstance(mask, str | os.PathLike):
        return photo.mask(read_image(mask, apply_exif=False), str(mask))
    mask = _as_array(mask)
    if not isinstance(mask, np.ndarray):
        raise InputError(f"The mask is a {type(mask).__name__}: give a path, an array or a tensor.")
    return photo.mask(mask, "The mask")


def _as_array(value: Any) -> Any:
    """Return a tensor as a NumPy array, anything else as it is; models of other runtimes need no torch."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return value.float().numpy() if value.is_floating_point() else value.numpy()
