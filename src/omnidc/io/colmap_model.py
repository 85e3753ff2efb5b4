"""The part of a COLMAP model that sparse depth needs: cameras, poses, and which points each image observed.

Text (cameras.txt, images.txt, points3D.txt) and binary (.bin) models. Pixel coordinates are COLMAP's: the center of
the first pixel is (0.5, 0.5). `omnidc.sensors.colmap` reads users' own models; this reader needs no pycolmap.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from omnidc.errors import FileError
from omnidc.io.untrusted import untrusted

Array = npt.NDArray[np.float64]

# COLMAP's numbering and number of parameters of its camera models.
MODELS = {
    0: ("SIMPLE_PINHOLE", 3), 1: ("PINHOLE", 4), 2: ("SIMPLE_RADIAL", 4), 3: ("RADIAL", 5), 4: ("OPENCV", 8),
    5: ("OPENCV_FISHEYE", 8), 6: ("FULL_OPENCV", 12), 7: ("FOV", 5), 8: ("SIMPLE_RADIAL_FISHEYE", 4),
    9: ("RADIAL_FISHEYE", 5), 10: ("THIN_PRISM_FISHEYE", 12), 11: ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
    12: ("SIMPLE_DIVISION", 4), 13: ("DIVISION", 5), 14: ("SIMPLE_FISHEYE", 3), 15: ("FISHEYE", 4), 16: ("EUCM", 6),
    17: ("EQUIRECTANGULAR", 2),
}  # fmt: skip


@dataclass(frozen=True)
class Camera:
    model: str
    width: int
    height: int
    params: Array


@dataclass(frozen=True)
class ColmapImage:
    """One image: camera_from_world as rotation [3, 3] and translation [3]; ids of the points it observed."""

    name: str
    camera: int
    rotation: Array
    translation: Array
    points: npt.NDArray[np.int64]  # [N], in the order of the image's features; features without a point left out
    features: Array  # [N, 2], the pixel where each point was seen


@dataclass(frozen=True)
class Model:
    cameras: dict[int, Camera]
    views: dict[str, ColmapImage]  # by image name
    points: dict[int, Array]  # world position [3] by point id


def read_model(folder: Path) -> Model:
    """Read the text or binary model in `folder`."""
    if (folder / "cameras.bin").is_file():  # COLMAP, too, prefers the binary files where there are both
        suffix, read_cameras, read_images, read_points = ".bin", _cameras_bin, _images_bin, _points_bin
    elif (folder / "cameras.txt").is_file():
        suffix, read_cameras, read_images, read_points = ".txt", _cameras_txt, _images_txt, _points_txt
    else:
        raise FileError(f"{folder} holds no COLMAP model: expected cameras, images and points3D as .txt or .bin.")
    parts: list[Any] = []
    for stem, read in (("cameras", read_cameras), ("images", read_images), ("points3D", read_points)):
        path = folder / f"{stem}{suffix}"
        if not path.is_file():
            raise FileError(f"The file {path} is missing: a COLMAP model has cameras, images and points3D.")
        with untrusted(path, "part of a COLMAP model"):
            parts.append(read(path))
    for stem, check in (("rigs", _check_rigs), ("frames", _check_frames)):  # of COLMAP 3.12 and later; else absent
        path = folder / f"{stem}.bin"
        if suffix == ".bin" and path.is_file():
            with untrusted(path, "part of a COLMAP model"), path.open("rb") as file:
                check(file)
                _check_end(file)
    model = Model(*parts)
    for view in model.views.values():
        if view.camera not in model.cameras:
            raise FileError(f"The COLMAP model in {folder} lacks the camera of its image {view.name!r}: copy it again.")
        if not all(point in model.points for point in view.points.tolist()):
            raise FileError(f"The COLMAP model in {folder} lacks points of its image {view.name!r}: copy it again.")
    return model


def project(camera: Camera, points: Array) -> Array:
    """Return pixels [N, 2] (COLMAP's convention) of points [N, 3] in camera coordinates, z > 0."""
    u, v = points[:, 0] / points[:, 2], points[:, 1] / points[:, 2]
    p = camera.params
    if camera.model == "SIMPLE_PINHOLE":
        return np.stack([p[0] * u + p[1], p[0] * v + p[2]], axis=1)
    if camera.model == "SIMPLE_RADIAL":
        radial = 1 + p[3] * (u * u + v * v)
        return np.stack([p[0] * u * radial + p[1], p[0] * v * radial + p[2]], axis=1)
    if camera.model == "THIN_PRISM_FISHEYE":
        u, v = _thin_prism_fisheye(u, v, p[4:])
    elif camera.model != "PINHOLE":
        raise FileError(f"COLMAP's camera model {camera.model} is not supported here: undistort the images first.")
    return np.stack([p[0] * u + p[2], p[1] * v + p[3]], axis=1)


def _thin_prism_fisheye(u: Array, v: Array, distortion: Array) -> tuple[Array, Array]:
    """Apply an equidistant fisheye followed by radial, tangential and thin-prism terms."""
    k1, k2, p1, p2, k3, k4, sx, sy = distortion
    r = np.hypot(u, v)
    shrink = np.where(r > 1e-12, np.arctan(r) / np.maximum(r, 1e-12), 1.0)
    u, v = u * shrink, v * shrink
    r2 = u * u + v * v
    radial = r2 * (k1 + r2 * (k2 + r2 * (k3 + r2 * k4)))
    du = u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u) + sx * r2
    dv = v * radial + 2 * p2 * u * v + p1 * (r2 + 2 * v * v) + sy * r2
    return u + du, v + dv


def observed_points(model: Model, name: str) -> tuple[Array, Array]:
    """Return (pixels [N, 2], z [N]) of the points that image `name` observed and that lie in front of its camera."""
    view = model.views[name]
    world = np.array([model.points[i] for i in view.points if i in model.points]).reshape(-1, 3)
    local = world @ view.rotation.T + view.translation
    local = local[local[:, 2] > 0]
    return project(model.cameras[view.camera], local), local[:, 2]


def _image(name: str, camera: int, quaternion: Any, translation: Any, points: Any, pixels: Any) -> ColmapImage:
    ids = np.asarray(points, dtype=np.int64)
    features = np.asarray(pixels, dtype=float).reshape(-1, 2)
    rotation = Rotation.from_quat(np.asarray(quaternion, float)[[1, 2, 3, 0]]).as_matrix()
    return ColmapImage(name, camera, rotation, np.asarray(translation, float), ids[ids >= 0], features[ids >= 0])


def _rows(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                yield line.strip()


def _cameras_txt(path: Path) -> dict[int, Camera]:
    cameras = {}
    for line in filter(None, _rows(path)):
        words = line.split()
        cameras[int(words[0])] = Camera(words[1], int(words[2]), int(words[3]), np.array(words[4:], dtype=float))
    return cameras


def _images_txt(path: Path) -> dict[str, ColmapImage]:
    views = {}
    rows = _rows(path)
    for line in rows:
        if not line:
            continue
        words = line.split(maxsplit=9)
        features = next(rows, "").split()  # x, y, point id; an image without features has an empty line
        ids = [int(word) for word in features[2::3]]
        pixels = list(zip(features[0::3], features[1::3]))
        views[words[9]] = _image(words[9], int(words[8]), words[1:5], words[5:8], ids, pixels)
    return views


def _points_txt(path: Path) -> dict[int, Array]:
    points = {}
    for line in filter(None, _rows(path)):
        words = line.split(maxsplit=4)
        points[int(words[0])] = np.array(words[1:4], dtype=float)
    return points


def _unpack(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    layout = "<" + layout
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _check_end(file: BinaryIO) -> None:
    """Refuse a file whose records end before or after its bytes: it was cut, or a record's length is wrong."""
    if file.tell() != os.fstat(file.fileno()).st_size:
        raise ValueError("its records do not end where the file ends")


def _cameras_bin(path: Path) -> dict[int, Camera]:
    cameras = {}
    with path.open("rb") as file:
        for _ in range(_unpack(file, "Q")[0]):
            identity, model, width, height = _unpack(file, "iiQQ")
            if model not in MODELS:
                raise FileError(f"{path} uses COLMAP's camera model number {model}, unknown here: update omnidc.")
            name, count = MODELS[model]
            cameras[identity] = Camera(name, width, height, np.array(_unpack(file, f"{count}d")))
        _check_end(file)
    return cameras


def _images_bin(path: Path) -> dict[str, ColmapImage]:
    views = {}
    feature = np.dtype([("xy", "<f8", 2), ("point", "<i8")])
    with path.open("rb") as file:
        for _ in range(_unpack(file, "Q")[0]):
            _, *pose, camera = _unpack(file, "i7di")
            letters = bytearray()
            while (letter := file.read(1)) != b"\0":
                if not letter:
                    raise ValueError("it ends too early")
                letters += letter
            count = _unpack(file, "Q")[0]
            if count * feature.itemsize > os.fstat(file.fileno()).st_size:
                raise ValueError(f"{count} features of one image")
            features = np.frombuffer(file.read(count * feature.itemsize), feature, count)
            name = letters.decode()
            views[name] = _image(name, camera, pose[:4], pose[4:], features["point"], features["xy"])
        _check_end(file)
    return views


def _check_rigs(file: BinaryIO) -> None:
    """Read rigs to the end; what they say is in the poses of the images."""
    for _ in range(_unpack(file, "Q")[0]):
        _, sensors = _unpack(file, "II")
        for k in range(sensors):
            _unpack(file, "iI")
            if k > 0 and _unpack(file, "?")[0]:  # the first is the reference, which has no pose of its own
                _unpack(file, "7d")


def _check_frames(file: BinaryIO) -> None:
    for _ in range(_unpack(file, "Q")[0]):
        *_, count = _unpack(file, "II7dI")
        for _ in range(count):
            _unpack(file, "iIQ")


def _points_bin(path: Path) -> dict[int, Array]:
    points = {}
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for _ in range(_unpack(file, "Q")[0]):
            identity, *position, _, _, _, _, track = _unpack(file, "Q3d3BdQ")
            file.seek(min(8 * track, size + 1), 1)
            points[identity] = np.array(position)
        _check_end(file)
    return points
