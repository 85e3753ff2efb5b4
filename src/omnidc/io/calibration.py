"""Calibration files: bare intrinsics, KITTI text, and a small YAML or JSON of our own (docs/bridges.md shows one).

{"K": [[fx, 0, cx], [0, fy, cy], [0, 0, 1]],        or {"fx": .., "fy": .., "cx": .., "cy": ..}
 "distortion": [k1, k2, p1, p2, k3],                 optional, OpenCV; with "model": "fisheye" k1 .. k4
 "camera_from_lidar": [[r, r, r, x], ... 4 rows],    or "lidar_from_camera", the inverse
 "image_size": [width, height],                      optional: K is scaled when the image differs
 "pixel_center": 0.0}                                optional: 0.5 when K counts from the pixel's corner
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError, MissingExtraError
from omnidc.geometry.camera import check_intrinsics, intrinsics_matrix, scale_intrinsics
from omnidc.geometry.transforms import Array, inverse, rigid
from omnidc.io.untrusted import read_npy, read_text, untrusted


@dataclass
class Calibration:
    """A camera, and where another sensor sits as seen from it."""

    K: Array  # [3, 3], pixel centers at integers
    camera_from_sensor: Array = field(default_factory=lambda: np.eye(4))  # [4, 4]
    distortion: Array | None = None  # OpenCV coefficients
    fisheye: bool = False
    image_size: tuple[int, int] | None = None  # width, height that K belongs to

    def __post_init__(self) -> None:
        if self.image_size is not None and min(self.image_size) < 1:
            raise InputError(f"A calibration for {self.image_size[0]}x{self.image_size[1]} pixels is for no image.")
        counts = (4,) if self.fisheye else (4, 5, 8, 12, 14)
        if self.distortion is not None and self.distortion.size not in counts:
            raise InputError(
                f"A {'fisheye' if self.fisheye else 'pinhole'} camera has {' or '.join(map(str, counts))} distortion "
                f"coefficients, not {self.distortion.size}."
            )

    def for_image(self, shape: tuple[int, int]) -> Array:
        """Return K for an image of this height and width."""
        if self.image_size is None or self.image_size == (shape[1], shape[0]):
            return self.K
        x, y = shape[1] / self.image_size[0], shape[0] / self.image_size[1]
        if abs(x / y - 1) > 0.01:
            raise InputError(
                f"The calibration is for {self.image_size[0]}x{self.image_size[1]} pixels but the image has "
                f"{shape[1]}x{shape[0]}, another shape: it was cropped; calibrate it again or correct cx and cy."
            )
        return scale_intrinsics(self.K, x, y)


def read_matrix(path: Path) -> Array:
    """Return the numbers of a text file as a matrix."""
    rows = [line.replace(",", " ").split() for line in read_text(path).splitlines() if line.strip()]
    with untrusted(path, "a matrix of numbers, row by row", "write one row a line"):
        return np.array([[float(word) for word in row] for row in rows], dtype=np.float64)


def read_table(path: Path) -> dict[str, Any]:
    """Read a JSON or YAML file that holds a table of names and values."""
    text = read_text(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        try:
            import yaml
        except ImportError as error:
            raise MissingExtraError("pyyaml", "lidar", "Reading YAML (a .json works without)") from error
        # OpenCV writes a first line "%YAML:1.0" that YAML itself does not allow.
        text = "\n".join(line for line in text.splitlines() if not line.startswith("%YAML:"))
        if re.search(r"[\[{:,\s-][&*]\w", text):  # a few lines of references to references fill any memory
            raise FileError(f"{path} uses YAML's anchors (& and *): write the values out.")
        with untrusted(path, "valid YAML", "correct it"):
            table = yaml.safe_load(text)
    else:
        with untrusted(path, "valid JSON", "correct it"):
            table = json.loads(text)
    if not isinstance(table, dict):
        raise FileError(f"{path} should hold a table with names such as K and camera_from_lidar.")
    return table


def parse_camera(table: dict[str, Any], path: Path) -> Calibration:
    """Return the camera that a table describes (without the other sensor)."""
    with untrusted(path, "a calibration", "correct the value"):
        if "K" in table:
            K = intrinsics_matrix(table["K"], f"K in {path}")
        elif all(name in table for name in ("fx", "fy", "cx", "cy")):
            K = intrinsics_matrix([table[name] for name in ("fx", "fy", "cx", "cy")], f"The intrinsics in {path}")
        else:
            raise InputError(f"{path} has no camera matrix: add K (3x3) or fx, fy, cx and cy.")
        center = float(table.get("pixel_center", table.get("pixel_centre", 0.0)))  # British spelling: until 0.1
        K[:2, 2] -= center
        distortion = np.asarray(table.get("distortion") or [], dtype=np.float64).ravel()
        size = table.get("image_size")
        image_size = (int(size[0]), int(size[1])) if size is not None else None
    model = str(table.get("model", "pinhole")).lower()
    if model not in ("pinhole", "fisheye"):
        raise InputError(f"{path} names the camera model {model!r}; only pinhole and fisheye are known.")
    return Calibration(
        K=K, distortion=distortion if distortion.any() else None, fisheye=model == "fisheye", image_size=image_size
    )


def sensor_calibration(path: Path, sensor: str = "lidar") -> Calibration:
    """Read our own YAML or JSON with `camera_from_<sensor>` or `<sensor>_from_camera`."""
    table = read_table(path)
    result = parse_camera(table, path)
    forward, backward = f"camera_from_{sensor}", f"{sensor}_from_camera"
    if forward in table:
        result.camera_from_sensor = rigid(table[forward], f"{forward} in {path}")
    elif backward in table:
        result.camera_from_sensor = inverse(rigid(table[backward], f"{backward} in {path}"))
    else:
        raise InputError(f"{path} does not say where the {sensor} is: add {forward}, a 4x4 matrix.")
    return result


def kitti_numbers(path: Path) -> dict[str, Array]:
    """Return the `name: numbers` lines of a KITTI calibration file; lines without numbers are left out."""
    values: dict[str, Array] = {}
    for line in read_text(path).splitlines():
        name, colon, rest = line.partition(":")
        if not colon:
            name, _, rest = line.partition(" ")
        try:
            numbers = np.array([float(word) for word in rest.split()])
        except ValueError:
            continue  # dates and names
        if numbers.size:
            values[name.strip()] = numbers
    return values


def _from_projection(P: Array, rectified_from_sensor: Array) -> Calibration:
    """Split P = K [I | t]: the camera's own offset t moves the points, K draws them."""
    K = intrinsics_matrix(P[:, :3] / P[2, 2], "The projection matrix P")
    camera_from_rectified = np.eye(4)
    camera_from_rectified[:3, 3] = np.linalg.solve(P[:, :3], P[:, 3])
    return Calibration(K=K, camera_from_sensor=camera_from_rectified @ rectified_from_sensor)


def kitti_object(path: Path, camera: int = 2) -> Calibration:
    """Read a calibration of KITTI's object benchmark (P0 to P3, R0_rect, Tr_velo_to_cam) for color camera 2 or 3."""
    values = kitti_numbers(path)
    wanted = (f"P{camera}", "Tr_velo_to_cam" if "Tr_velo_to_cam" in values else "Tr_velo_cam")
    for name in wanted:
        if name not in values:
            raise InputError(f"{path} has no line {name}; is it a KITTI object calibration?")
    if values[wanted[0]].size != 12:
        raise InputError(f"P{camera} in {path} must have 12 numbers, not {values[wanted[0]].size}.")
    rectify = np.eye(4)
    R0 = values.get("R0_rect", values.get("R_rect"))
    if R0 is not None:
        rectify[:3, :3] = rigid(np.hstack([R0.reshape(3, 3), np.zeros((3, 1))]), f"R0_rect in {path}")[:3, :3]
    velo = rigid(values[wanted[1]], f"{wanted[1]} in {path}")
    return _from_projection(values[wanted[0]].reshape(3, 4), rectify @ velo)


def kitti_raw(folder: Path, camera: int = 2) -> Calibration:
    """Read calib_cam_to_cam.txt and calib_velo_to_cam.txt of a day of KITTI raw data (rectified images)."""
    cameras = kitti_numbers(folder / "calib_cam_to_cam.txt")
    velo = kitti_numbers(folder / "calib_velo_to_cam.txt")
    for name, table in ((f"P_rect_{camera:02d}", cameras), ("R_rect_00", cameras), ("R", velo), ("T", velo)):
        if name not in table:
            raise InputError(
                f"The KITTI raw calibration in {folder} has no line {name}; take it from the day's archive."
            )
    rectify = np.eye(4)
    rectify[:3, :3] = rigid(np.hstack([cameras["R_rect_00"].reshape(3, 3), np.zeros((3, 1))]), "R_rect_00")[:3, :3]
    offset = rigid(np.hstack([velo["R"].reshape(3, 3), velo["T"].reshape(3, 1)]), f"R, T in {folder}")
    return _from_projection(cameras[f"P_rect_{camera:02d}"].reshape(3, 4), rectify @ offset)


def read_calibration(path: Path, sensor: str = "lidar", camera: int = 2) -> Calibration:
    """Read whatever calibration there is: JSON, YAML, KITTI object text, or a folder with KITTI raw's two files."""
    with untrusted(path, "a calibration file", "docs/bridges.md shows one"):
        if path.is_dir():
            return kitti_raw(path, camera)
        if path.suffix.lower() in (".json", ".yaml", ".yml"):
            return sensor_calibration(path, sensor)
        if path.name in ("calib_cam_to_cam.txt", "calib_velo_to_cam.txt"):
            return kitti_raw(path.parent, camera)
        return kitti_object(path, camera)


def read_intrinsics(path: str | Path) -> npt.NDArray[np.float64]:
    """Read a camera matrix from a text, npy or JSON file (keys fx, fy, cx, cy or fl_x, fl_y, cx, cy, or K)."""
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path} does not exist; give --intrinsics as fx,fy,cx,cy or as a file.")
    with untrusted(path, "a camera", "write fx fy cx cy, nine numbers of a 3x3 matrix, or JSON with these names"):
        if path.suffix.lower() == ".npy":
            values = read_npy(path)
        elif path.suffix.lower() == ".json":
            values = _intrinsics_of_json(json.loads(read_text(path)))
        else:
            values = np.array([float(x) for x in read_text(path).replace(",", " ").split()])
            values = values.reshape({9: (3, 3), 16: (4, 4)}.get(values.size, (-1,)))
    return check_intrinsics(values)


def _intrinsics_of_json(data: Any) -> Array:
    if isinstance(data, dict):
        for four in (("fx", "fy", "cx", "cy"), ("fl_x", "fl_y", "cx", "cy")):
            if all(name in data for name in four):
                return np.array([float(data[name]) for name in four])
        names = [name for name in ("K", "intrinsics", "camera_matrix", "intrinsic_matrix") if name in data]
        if not names:
            raise KeyError("K")
        data = data[names[0]]
        if isinstance(data, dict):
            return _intrinsics_of_json(data)
    values = np.array(data, np.float64)
    return values.reshape(3, 3) if values.size == 9 else values
