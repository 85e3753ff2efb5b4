"""The files that commands and Python blocks of the pages name, small enough to run every command in a second."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import omnidc
from makers import HEIGHT, WIDTH, colmap_model, millimeters, photo, pose_along_x, wall
from omnidc.datasets.shards import ShardWriter
from omnidc.io.depth import read_depth, write_depth

EXAMPLE = Path(omnidc.__file__).parent / "examples"
K = [[247.888, 0, 159.5], [0, 247.888, 119.5], [0, 0, 1]]  # of the bundled room


def example_files(folder: Path) -> None:
    """Write photographs, depth files, scans and calibrations of the bundled example."""
    image, depth = EXAMPLE / "room.jpg", read_depth(EXAMPLE / "room_depth.png").depth
    sparse = read_depth(EXAMPLE / "room_sparse.npz").depth
    for name in ("photo.jpg", "photos/a.jpg", "images/a.jpg", "FILE.jpg", "IMAGE.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(image, folder / name)
    for name in ("sparse", "depths", "scans"):
        (folder / name).mkdir()
    np.save(folder / "sparse.npy", sparse)
    np.save(folder / "disparity.npy", 1 / depth)
    for name, values in (("sparse.png", sparse), ("sparse/a.png", sparse), ("depths/a.png", sparse)):
        write_depth(folder / name, values, scale=1000)
    write_depth(folder / "depth.png", depth, scale=1000)
    write_depth(folder / "000001_10_disp.png", 100 / depth, scale=256)  # any disparities
    Image.fromarray(np.full(depth.shape, 255, np.uint8)).save(folder / "mask.png")
    rows, columns = np.nonzero(sparse)
    rays = np.linalg.inv(K) @ np.stack([columns, rows, np.ones(len(rows))])
    points = (rays * sparse[rows, columns]).T.astype(np.float32)  # [N, 3] in the camera's frame
    for name, width in (("scan.bin", 4), ("SCAN.bin", 4), ("scans/a.bin", 4), ("returns.bin", 7)):
        np.pad(points, ((0, 0), (0, width - 3))).astype(np.float32).tofile(folder / name)
    pose = np.eye(4).tolist()
    for name, sensor in (("calib.json", "lidar"), ("radar.json", "radar")):
        (folder / name).write_text(json.dumps({"K": K, f"camera_from_{sensor}": pose}))
    weights = Path(omnidc.__file__).parent / "weights"
    shutil.copy(weights / "compact.onnx", folder / "model.onnx")
    shutil.copy(weights / "compact.safetensors", folder)  # which the graph reads its weights from


def shard_files(folder: Path) -> None:
    """Write two WebDataset shards of a photograph and its sparse depth each."""
    example_files(folder)
    for number in range(2):
        with tarfile.open(folder / f"in-{number:03d}.tar", "w") as shard:
            shard.add(folder / "photo.jpg", f"frame{number}.jpg")
            shard.add(folder / "sparse.png", f"frame{number}.png")


def colmap_files(folder: Path) -> None:
    """Write a COLMAP model and its photographs."""
    pytest.importorskip("pycolmap")
    points = wall(np.random.default_rng(0), 200, 3.0)
    colmap_model(folder / "sparse" / "0", folder / "images", points, [range(4)] * 200)


def splat_files(folder: Path) -> None:
    """Write a COLMAP model of nine views, as MODEL and IMAGES and as sparse/0 and images, and depth maps."""
    pytest.importorskip("numba")
    pytest.importorskip("pycolmap")
    from colmap_text import write_project
    from worlds import views

    model, images = write_project(folder / "project")
    shutil.copytree(model, folder / "MODEL")
    shutil.copytree(model, folder / "sparse" / "0")
    shutil.copytree(images, folder / "IMAGES")
    shutil.copytree(images, folder / "images")
    (folder / "FOLDER").mkdir()
    for view in views(9):
        np.save(folder / "FOLDER" / f"{view.name}.npy", view.gt_depth)


def row(values: Any) -> str:
    return " ".join(str(float(value)) for value in np.ravel(values))


def kitti_files(folder: Path) -> None:
    """Write one frame of KITTI's object benchmark below KITTI/training, and the same folders here."""
    axes = np.array([[0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0]])  # LiDAR to camera
    P = np.array([[60.0, 0, WIDTH / 2, 0], [0, 60.0, HEIGHT / 2, 0], [0, 0, 1, 0]])
    training = folder / "KITTI" / "training"
    photo(training / "image_2" / "000001.png")
    (training / "calib").mkdir()
    text = f"P2: {row(P)}\nR0_rect: {row(np.eye(3))}\nTr_velo_to_cam: {row(axes)}\n"
    (training / "calib" / "000001.txt").write_text(text)
    (training / "velodyne").mkdir()
    points = wall(np.random.default_rng(0), 400, 5.0, 2.0) @ axes[:, :3]
    np.pad(points, ((0, 0), (0, 1))).astype(np.float32).tofile(training / "velodyne" / "000001.bin")
    for name in ("image_2", "calib", "velodyne"):
        shutil.copytree(training / name, folder / name)


def recording_files(folder: Path) -> None:
    """Write a recording of Stray Scanner, and folders of color and depth with a trajectory."""
    recording = folder / "RECORDING"
    flat = np.full((HEIGHT, WIDTH), 2.0)
    photo(recording / "rgb" / "000000.png")
    millimeters(recording / "depth" / "000000.png", np.full((12, 16), 2.0))
    (recording / "confidence").mkdir()
    Image.fromarray(np.full((12, 16), 2, np.uint8)).save(recording / "confidence" / "000000.png")
    (recording / "camera_matrix.csv").write_text("60.0,0.0,31.5\n0.0,60.0,23.5\n0.0,0.0,1.0\n")
    (recording / "odometry.csv").write_text("timestamp,frame,x,y,z,qx,qy,qz,qw\n0.1,000000,1,2,3,0,0,0,1\n")
    for number in range(3):
        photo(folder / "color" / f"{number}.png", seed=number)
        millimeters(folder / "depth" / f"{number}.png", flat)
    np.savetxt(folder / "trajectory.txt", [pose_along_x(0.05 * number).ravel() for number in range(3)])


def bag_files(folder: Path) -> None:
    """Write a ROS 1 bag."""
    pytest.importorskip("rosbags")
    from bags import write_bag

    write_bag(folder / "drive.bag", ros1=True)


def video_files(folder: Path) -> None:
    """Write a video of two frames, their depth files, and the bundled model."""
    example_files(folder)
    (folder / "depths" / "b.png").write_bytes((folder / "depths" / "a.png").read_bytes())
    image = cv2.imread(str(folder / "photo.jpg"))
    writer = cv2.VideoWriter(str(folder / "video.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 10, image.shape[1::-1])
    for _ in range(2):
        writer.write(image)
    writer.release()


def photograph_files(folder: Path) -> None:
    """Write one photograph of the `real` protocol, named as one of NYUv2."""
    (folder / "DIR").mkdir()
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
    depth = cv2.GaussianBlur(rng.uniform(1, 5, (48, 64)).astype(np.float32), (0, 0), 8)
    np.savez(folder / "DIR" / "nyu_x.npz", rgb=image, depth=depth)


def frame_files(folder: Path) -> None:
    """Write rendered frames (noise, here) as FRAMES and frames, FRAMES/street and FRAMES/indoor, and a photograph."""
    photograph_files(folder)
    rng = np.random.default_rng(0)
    for name, count in (("FRAMES", 6), ("frames", 6), ("FRAMES/street", 1), ("FRAMES/indoor", 1)):
        (folder / name).mkdir(exist_ok=True)
        with ShardWriter(folder / name / "a.tar") as writer:
            for number in range(count):
                image = rng.integers(0, 256, (64, 96, 3), dtype=np.uint8)
                depth = cv2.GaussianBlur(rng.uniform(1, 8, (64, 96)).astype(np.float32), (0, 0), 6)
                writer.add(f"room-{len(name)}-{number:06d}_0", image, depth)
