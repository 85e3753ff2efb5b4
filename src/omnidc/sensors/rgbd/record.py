"""One view of an RGB-D recording: its files and cameras, read, cleaned and registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from omnidc.errors import InputError
from omnidc.frame import Frame, point_warnings
from omnidc.geometry.camera import Picture
from omnidc.geometry.rasterize import Map, register, scatter_lowres
from omnidc.geometry.surface import drop_flying_pixels
from omnidc.geometry.transforms import Array
from omnidc.io.calibration import Calibration
from omnidc.io.depth import CODECS, read_depth, refuse_disparity
from omnidc.io.images import Photograph, read_photograph
from omnidc.io.trajectory import read_pose
from omnidc.io.untrusted import open_picture, untrusted
from omnidc.sensors.photo import take_photo


@dataclass(frozen=True)
class RgbdOptions:
    """What the user may choose for any layout."""

    min_confidence: int = 2  # of ARKit's 0, 1, 2
    max_input_depth: float | None = None  # meters
    keep_flying_pixels: bool = False  # keep flying pixels
    depth_scale: float | None = None  # stored numbers per meter; None = the layout's own
    max_time_diff: float = 0.02  # seconds between color and depth (TUM)
    masks: Path | None = None  # folder of masks, by COLMAP's names
    ignore_exif: bool = False  # take photographs as stored
    intrinsics: Array | None = None  # [3, 3] of the color camera, instead of the recording's
    poses: Path | None = None  # trajectory, instead of the recording's poses


@dataclass
class Rig:
    """The cameras of a recording. Without a depth camera the depth map shows the color camera's own view."""

    color: Calibration | None = None
    depth: Calibration | None = None
    color_from_depth: Array = field(default_factory=lambda: np.eye(4))
    depth_scale: float | None = None


@dataclass
class RgbdRecord:
    """The files of one view."""

    name: str
    color: Path | Callable[[], Picture]
    depth: Path
    confidence: Path | None = None
    pose: Array | None = None  # camera to world
    rig: Rig = field(default_factory=Rig)
    note: str = ""


# What the reader of a layout finds: the views, and what it assumed, for the user.
Layout = tuple[list[RgbdRecord], str]


def load_record(record: RgbdRecord, options: RgbdOptions) -> Frame:
    """Read, clean and register one view."""
    with untrusted(record.depth.parent, "part of a recording", "copy it again"):
        return _load_record(record, options)


def _load_record(record: RgbdRecord, options: RgbdOptions) -> Frame:
    if callable(record.color):
        stored = Photograph(record.color())
    else:
        stored = read_photograph(record.color, ignore_exif=options.ignore_exif)
    rig = record.rig
    refuse_disparity(record.depth)
    file = read_depth(record.depth, options.depth_scale or rig.depth_scale)
    depth = file.depth
    if file.scale > 1:  # the largest 16-bit number is how several drivers write "nothing"
        depth = np.where(depth >= 65535 / file.scale, 0, depth).astype(np.float32)
    if record.confidence is not None:
        depth = filter_confidence(depth, record.confidence, options.min_confidence)
    if options.max_input_depth is not None:
        depth = np.where(depth > options.max_input_depth, 0, depth).astype(np.float32)
    measured = int((depth > 0).sum())
    if not options.keep_flying_pixels:
        depth = drop_flying_pixels(depth)
    flying = measured - int((depth > 0).sum())

    source = f"{record.name}.png" if callable(record.color) else record.color.name
    # A registered depth map bends with its color image; only a separate depth camera allows straightening color.
    registered = rig.depth is None
    shape = (depth.shape[0], depth.shape[1]) if registered else None
    photo = take_photo(stored, rig.color, source, options.masks, shape, straighten=not registered)
    notes = [record.note] if record.note else []
    if flying:
        notes.append(f"{flying} flying pixels and speckles dropped")
    why = file.note
    if options.depth_scale is None and rig.depth_scale is not None:
        why = f"meters, stored × {rig.depth_scale:g} as the recording's layout or calibration says"
    if rig.depth is not None:
        if photo.K is None:
            raise InputError(f"{record.name}: depth can only be moved to color when the color intrinsics are known.")
        depth_K = rig.depth.for_image(depth.shape)
        sparse, count = register(
            depth, depth_K, photo.K, rig.color_from_depth, photo.shape, rig.depth.distortion, rig.depth.fisheye
        )
        notes.append(count.summary())
    else:
        full = photo.shape
        if abs(depth.shape[1] / depth.shape[0] - full[1] / full[0]) > 0.02 * full[1] / full[0]:
            raise InputError(
                f"{record.name}: depth is {depth.shape[1]}x{depth.shape[0]} and color {full[1]}x{full[0]}, another "
                "shape, so they are not the same view; give both cameras with --calib."
            )
        sparse = scatter_lowres(depth, full)
    frame = Frame(
        photo.image,
        sparse,
        intrinsics=photo.K,
        pose=record.pose,
        name=record.name,
        source=source,
        unit_reason=why,
        warnings=(*point_warnings(sparse), *photo.warnings),
        notes=(*notes, *photo.notes),
    )
    return photo.finish(frame)


def filter_confidence(
    depth: Map,  # [h, w]
    path: Path,
    least: int,
) -> Map:
    """Drop depth whose ARKit confidence (0, 1, 2; some apps store 0, 127, 255) is below `least`."""
    with open_picture(path, "a confidence map") as picture:
        levels = np.asarray(picture.convert("L"))
    if levels.shape != depth.shape:
        raise InputError(
            f"{path} is {levels.shape[1]}x{levels.shape[0]} but the depth map is {depth.shape[1]}x{depth.shape[0]}."
        )
    ranks = np.asarray(levels if levels.max() <= 2 else np.rint(levels / 127.5))
    return np.where(ranks < least, 0, depth).astype(np.float32)


def depth_file(folder: Path, stem: str) -> Path | None:
    found = [folder / f"{stem}{suffix}" for suffix in CODECS if (folder / f"{stem}{suffix}").is_file()]
    return found[0] if found else None


def pose_file(path: Path) -> Array | None:
    """Read a 4×4 camera-to-world text file; lost tracking is written as -inf and gives None."""
    return read_pose(path) if path.is_file() else None
