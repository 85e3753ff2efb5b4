"""Small files of every kind, written by the tests for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

WIDTH, HEIGHT = 64, 48


def photo(path: Path, size: tuple[int, int] = (WIDTH, HEIGHT), seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def millimeters(path: Path, depth: npt.NDArray[Any], scale: float = 1000.0) -> Path:
    """A 16-bit PNG of depth in meters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.rint(np.asarray(depth) * scale).astype(np.uint16)).save(path)
    return path


def pose_along_x(x: float) -> npt.NDArray[np.float64]:
    """Camera-to-world of a camera that looks along +z from (x, 0, 0)."""
    pose = np.eye(4)
    pose[0, 3] = x
    return pose


def colmap_model(
    folder: Path,
    images: Path,
    points: npt.NDArray[np.float64],  # [N, 3], world
    seen_by: Sequence[Sequence[int]],  # per point the images that observed it
    camera: Any = None,
    count: int = 4,
    text: bool = False,
    step: float = 0.1,
    with_photos: bool = True,
) -> Any:
    """A COLMAP model of `count` cameras side by side, `step` apart, all looking along +z."""
    import pycolmap

    if camera is None:
        camera = pycolmap.Camera(
            camera_id=1, model="PINHOLE", width=WIDTH, height=HEIGHT, params=[60.0, 60.0, WIDTH / 2, HEIGHT / 2]
        )
    rec = pycolmap.Reconstruction()
    rec.add_camera_with_trivial_rig(camera)
    for i in range(count):
        move = np.array([-step * i, 0.0, 0.0])
        mine = [k for k, seen in enumerate(seen_by) if i in seen]
        keypoints = np.array([camera.img_from_cam(points[k] + move) for k in mine]).reshape(-1, 2)
        name = f"view{i}.png"
        image = pycolmap.Image(name=name, keypoints=keypoints, camera_id=1, image_id=i + 1)
        rec.add_image_with_trivial_frame(image, pycolmap.Rigid3d(pycolmap.Rotation3d(), move))
        if with_photos:
            photo(images / name, (camera.width, camera.height), seed=i)
    order = {i: [k for k, seen in enumerate(seen_by) if i in seen] for i in range(count)}
    for k, seen in enumerate(seen_by):
        track = pycolmap.Track()
        for i in seen:
            track.add_element(i + 1, order[i].index(k))
        rec.add_point3D(points[k], track, np.array([10, 20, 30], dtype=np.uint8))
    rec.update_point_3d_errors()
    folder.mkdir(parents=True, exist_ok=True)
    (rec.write_text if text else rec.write_binary)(str(folder))
    return rec


def rig_model(folder: Path, images: Path, points: npt.NDArray[np.float64]) -> None:
    """A COLMAP model of a rig with two cameras, 0.2 apart, at three places, 0.1 apart; every image saw every point."""
    import pycolmap

    rec = pycolmap.Reconstruction()
    rig = pycolmap.Rig(rig_id=1)
    for number in (1, 2):
        camera = pycolmap.Camera(
            camera_id=number, model="PINHOLE", width=WIDTH, height=HEIGHT, params=[60.0, 60.0, WIDTH / 2, HEIGHT / 2]
        )
        rec.add_camera(camera)
        if number == 1:
            rig.add_ref_sensor(camera.sensor_id)
        else:
            rig.add_sensor(camera.sensor_id, pycolmap.Rigid3d(pycolmap.Rotation3d(), np.array([-0.2, 0, 0])))
    rec.add_rig(rig)
    for place in range(3):
        pose = pycolmap.Rigid3d(pycolmap.Rotation3d(), np.array([-0.1 * place, 0, 0]))
        frame = pycolmap.Frame(frame_id=place + 1, rig_id=1, rig_from_world=pose)
        views = []
        for number in (1, 2):
            move = np.array([-0.1 * place - 0.2 * (number - 1), 0, 0])
            keypoints = np.array([rec.cameras[number].img_from_cam(point + move) for point in points])
            name = f"cam{number}/{place}.png"
            view = pycolmap.Image(name=name, keypoints=keypoints, camera_id=number, image_id=2 * place + number)
            view.frame_id = place + 1
            frame.add_data_id(view.data_id)
            views.append(view)
            photo(images / name, seed=view.image_id)
        rec.add_frame(frame)
        for view in views:
            rec.add_image(view)
        rec.register_frame(place + 1)
    for index, point in enumerate(points):
        track = pycolmap.Track()
        for image_id in range(1, 7):
            track.add_element(image_id, index)
        rec.add_point3D(point, track, np.array([10, 20, 30], dtype=np.uint8))
    folder.mkdir(parents=True, exist_ok=True)
    rec.write_binary(str(folder))


def wall(rng: np.random.Generator, n: int, z: float, reach: float = 1.0) -> npt.NDArray[np.float64]:
    """Points on the plane z = const."""
    return np.concatenate([rng.uniform(-reach, reach, (n, 2)), np.full((n, 1), z)], axis=1)
