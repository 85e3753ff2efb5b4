"""Cameras and poses that somebody else measured: a COLMAP model or a transforms.json (nerfstudio, instant-ngp)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnidc.errors import FileError, InputError
from omnidc.geometry.transforms import Array, inverse
from omnidc.io.calibration import Calibration, read_table
from omnidc.io.colmap_model import Camera, read_model
from omnidc.io.trajectory import transforms_pose
from omnidc.io.untrusted import untrusted


@dataclass(frozen=True)
class KnownView:
    """One photograph's camera (parameters in COLMAP's pixels) and where it stood."""

    camera: Camera
    camera_from_world: Array  # [4, 4], OpenCV axes


def read_known_views(path: Path, images: Path) -> dict[str, KnownView]:
    """Return the views of a COLMAP model folder or a transforms.json by the name of the file inside `images`."""
    if path.is_dir() and not any((path / f"cameras.{suffix}").is_file() for suffix in ("bin", "txt")):
        inside = [path / "transforms.json", path / "sparse" / "0", path / "sparse"]
        path = next((one for one in inside if one.exists()), path)
    if not path.exists():
        raise FileError(f"There are no poses at {path}: give a COLMAP model or a transforms.json.")
    if path.is_file():
        return _from_transforms(path, images)
    model = read_model(path)
    views = {}
    for name, view in model.views.items():
        camera_from_world = np.eye(4)
        camera_from_world[:3, :3], camera_from_world[:3, 3] = view.rotation, view.translation
        views[name] = KnownView(model.cameras[view.camera], camera_from_world)
    return views


def _from_transforms(path: Path, images: Path) -> dict[str, KnownView]:
    table = read_table(path)
    frames = table.get("frames")
    if not isinstance(frames, list) or not frames:
        raise InputError(f"{path} has no list of frames: it is not a transforms.json of nerfstudio or instant-ngp.")
    views = {}
    for number, frame in enumerate(frames):
        with untrusted(path, "a transforms.json", f"correct frame {number}"):
            name = _image_name(path.parent / str(frame["file_path"]), images)
            views[name] = KnownView(_transforms_camera({**table, **frame}), inverse(transforms_pose(frame, path)))
    return views


def _image_name(file: Path, images: Path) -> str:
    """Return the name inside the folder of photographs; instant-ngp leaves out the suffix."""
    file, images = file.resolve(), images.resolve()
    place = file.relative_to(images) if file.is_relative_to(images) else Path(file.name)
    if not place.suffix:
        found = sorted(images.glob(f"{place}.*"))
        place = found[0].relative_to(images) if found else place
    return place.as_posix()


def _transforms_camera(table: dict[str, Any]) -> Camera:
    """Read a camera of nerfstudio, which counts the principal point from the pixel's corner, as COLMAP does."""
    width, height = int(table["w"]), int(table["h"])
    fx = table["fl_x"] if "fl_x" in table else 0.5 * width / math.tan(0.5 * float(table["camera_angle_x"]))
    fy = table.get("fl_y", fx)
    params = [fx, fy, table.get("cx", width / 2), table.get("cy", height / 2)]
    fisheye = str(table.get("camera_model", "OPENCV")).upper() == "OPENCV_FISHEYE"
    params += [table.get(name, 0.0) for name in (("k1", "k2", "k3", "k4") if fisheye else ("k1", "k2", "p1", "p2"))]
    values = np.array(params, dtype=np.float64)
    if not (np.isfinite(values).all() and min(values[:2]) > 0):
        raise InputError("The focal lengths of a transforms.json are positive numbers; correct fl_x and fl_y.")
    if not fisheye and not values[4:].any():
        return Camera("PINHOLE", width, height, values[:4])
    return Camera("OPENCV_FISHEYE" if fisheye else "OPENCV", width, height, values)


def calibrated_camera(calibration: Calibration, shape: tuple[int, int]) -> Camera:
    """Return COLMAP's camera of a calibration, for photographs of this height and width."""
    K = calibration.for_image(shape)
    params = [K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5]
    height, width = shape
    lens = np.zeros(0) if calibration.distortion is None else calibration.distortion.ravel()
    if calibration.fisheye:
        return Camera("OPENCV_FISHEYE", width, height, np.r_[params, lens if len(lens) else np.zeros(4)])
    if len(lens) == 0:
        return Camera("PINHOLE", width, height, np.array(params))
    if len(lens) == 4:
        return Camera("OPENCV", width, height, np.r_[params, lens])
    if len(lens) <= 8:
        return Camera("FULL_OPENCV", width, height, np.r_[params, lens, np.zeros(8 - len(lens))])
    raise InputError(
        f"COLMAP has no camera model with OpenCV's {len(lens)} distortion coefficients; "
        "calibrate with 8 or fewer, or undistort the photographs first."
    )
