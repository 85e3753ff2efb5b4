"""Readers of the five training sets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.datasets import open_dataset
from omnidc.datasets.hypersim import intrinsics, ray_to_z
from omnidc.datasets.tartanair import NED_FROM_OPENCV
from omnidc.errors import FileError
from omnidc.io.depth import write_depth

if TYPE_CHECKING:
    from conftest import Maker

CAMERA_HEADER = "scene_name," + ",".join(f"M_cam_from_uv_{i}{j}" for i in range(3) for j in range(3)) + "\n"
STANDARD = "0.57735026,0,0,0,0.4330127,0,0,0,-1"
TILTED = "0.57735026,0,0,0,0.4330127,0.1,0,0.2,-0.9"


def write_distance(make: Maker, name: str, distance: np.ndarray) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(make.path(name), "w") as file:
        file["dataset"] = distance.astype(np.float16)


def hypersim_scene(make: Maker, scene: str, frame: int = 0, height: int = 12, width: int = 16) -> None:
    images = f"{scene}/images/scene_cam_00"
    make.image(f"{images}_final_preview/frame.{frame:04d}.tonemap.jpg", height, width)
    distance = make.depth(height, width, 1, 8)
    distance[1, 1], distance[1, 2], distance[1, 3] = np.nan, np.inf, 70.0
    write_distance(make, f"{images}_geometry_hdf5/frame.{frame:04d}.depth_meters.hdf5", distance)


@given(st.floats(0.5, 30), st.floats(-0.2, 0.2), st.floats(-0.2, 0.2))
def test_ray_distance_of_a_plane_becomes_its_z(z: float, m02: float, m12: float) -> None:
    height, width = 24, 32
    m00, m11 = 0.57735, 0.43301
    u = (np.arange(width) + 0.5) * 2 / width - 1
    v = 1 - (np.arange(height) + 0.5) * 2 / height
    ray = np.stack(np.broadcast_arrays(m00 * u[None] + m02, m11 * v[:, None] + m12, -1.0), axis=-1)
    distance = z * np.linalg.norm(ray, axis=-1)
    np.testing.assert_allclose(ray_to_z(distance, intrinsics((m00, m02, m11, m12), height, width)), z, rtol=1e-6)


def test_hypersim_leaves_out_tilted_cameras(make: Maker) -> None:
    make.text("metadata_camera_parameters.csv", f"{CAMERA_HEADER}ai_001_001,{STANDARD}\nai_002_001,{TILTED}\n")
    hypersim_scene(make, "ai_001_001")
    hypersim_scene(make, "ai_002_001")
    frames = open_dataset("hypersim", make.root)
    assert [frame.name for frame in frames] == ["ai_001_001/cam_00/0000"]
    frame = frames[0]
    assert frame.depth is not None
    assert frame.intrinsics is not None
    assert frame.depth[1, 1] == frame.depth[1, 2] == frame.depth[1, 3] == 0  # NaN, infinite, beyond 50 m
    assert 0 < frame.depth[0, 0] < 4.5  # a corner: z is clearly less than the distance of 4.5
    assert frame.intrinsics[0, 2] == 7.5


def test_hypersim_lists_only_public_images_of_the_split(make: Maker) -> None:
    make.text("metadata_camera_parameters.csv", f"{CAMERA_HEADER}ai_001_001,{STANDARD}\n")
    make.text(
        "metadata_images_split_scene_v1.csv",
        "scene_name,camera_name,frame_id,included_in_public_release,exclude_reason,split_partition_name\n"
        "ai_001_001,cam_00,0,True,,train\nai_001_001,cam_00,1,False,bad,train\nai_001_001,cam_00,2,True,,val\n",
    )
    assert len(open_dataset("hypersim", make.root)) == 2
    frames = open_dataset("hypersim", make.root, split="val")
    assert len(frames) == 1
    with pytest.raises(FileError, match=r"frame\.0002\.depth_meters\.hdf5 is missing"):
        frames[0]


def test_hypersim_without_camera_table_says_so(make: Maker) -> None:
    hypersim_scene(make, "ai_001_001")
    with pytest.raises(FileError, match=r"metadata_camera_parameters\.csv is missing"):
        open_dataset("hypersim", make.root)


def test_hypersim_original_file(make: Maker, shared: Path) -> None:
    pytest.importorskip("h5py")
    original = shared / "data/formats/hypersim/ai_037_002/images/scene_cam_00_geometry_hdf5"
    name = "ai_037_002/images/scene_cam_00_geometry_hdf5/frame.0000.depth_meters.hdf5"
    shutil.copy(original / "frame.0000.depth_meters.hdf5", make.path(name))
    make.image("ai_037_002/images/scene_cam_00_final_preview/frame.0000.tonemap.jpg", 768, 1024)
    make.text("metadata_camera_parameters.csv", f"{CAMERA_HEADER}ai_037_002,{STANDARD}\n")
    frame = open_dataset("hypersim", make.root)[0]
    assert frame.depth is not None
    assert frame.intrinsics is not None
    assert frame.depth.shape == (768, 1024)
    np.testing.assert_allclose(frame.intrinsics[[0, 1], [0, 1]], 886.81, atol=0.01)
    assert 2 < frame.depth.min() < frame.depth.max() < 13.24


def test_irs_disparity_becomes_depth(make: Maker) -> None:
    disparity = np.full((6, 8), 24.0, np.float32)
    disparity[0, 0], disparity[0, 1], disparity[0, 2] = 0.5, 0, -3  # 96 m, infinitely far, nonsense
    for stem in ("Home/RoomA/{}_12", "Store/ShopB/{}_00012"):
        make.image(stem.format("l") + ".png", 6, 8)
        path = make.path(stem.format("d") + ".exr")
        write_depth(path, disparity)
    line = "{0}/l_00012.png {0}/r_00012.png {0}/d_00012.exr {0}/n_00012.exr\n"
    make.text("filelist/home_all.txt", line.format("Home/RoomA"))
    make.text("filelist/store_all.list", line.format("Store/ShopB"))
    frames = open_dataset("irs", make.root, parts=("home", "store"))
    assert [frame.name for frame in frames] == ["Home/RoomA/l_12", "Store/ShopB/l_00012"]
    for frame in frames:
        assert frame.depth is not None
        np.testing.assert_allclose(frame.depth[1:], 2.0, rtol=1e-6)
        assert not frame.depth[0, :3].any()


def test_tartanair_pose_and_far_depth(make: Maker) -> None:
    depth = make.depth()
    depth[2, 2] = 150
    make.image("town/Easy/P000/image_left/000001_left.png")
    make.npy("town/Easy/P000/depth_left/000001_left_depth.npy", depth)
    make.text("town/Easy/P000/pose_left.txt", "0 0 0 0 0 0 1\n1 2 3 0 0 0 1\n")
    frame = open_dataset("tartanair", make.root)[0]
    assert frame.name == "town/Easy/P000/image_left/000001_left"
    assert frame.depth is not None
    assert frame.pose is not None
    assert frame.depth[2, 2] == 0
    np.testing.assert_array_equal(frame.pose[:3, 3], [1, 2, 3])
    # Looking north with the identity: one meter ahead (OpenCV +z) is one meter north (NED +x).
    np.testing.assert_allclose(frame.pose[:3, :3] @ [0, 0, 1], [1, 0, 0], atol=1e-12)
    assert np.linalg.det(NED_FROM_OPENCV) == pytest.approx(1)


def test_tartanair_original_file(shared: Path) -> None:
    frame = open_dataset("tartanair", shared / "data/formats/tartanair_layout")[0]
    assert frame.depth is not None
    assert frame.depth.shape == frame.image.shape[:2] == (480, 640)
    assert 0.16 < frame.depth.min() < frame.depth.max() < 7.83
    assert frame.pose is not None


def test_blendedmvs_depth_is_upright_without_masked_images(make: Maker) -> None:
    depth = make.depth()
    make.image("5a3ca9/blended_images/00000003.jpg")
    make.image("5a3ca9/blended_images/00000003_masked.jpg")
    make.pfm("5a3ca9/rendered_depth_maps/00000003.pfm", depth)
    make.text(
        "5a3ca9/cams/00000003_cam.txt",
        "extrinsic\n1 0 0 1\n0 1 0 2\n0 0 1 3\n0 0 0 1\n\nintrinsic\n500 0 8\n0 510 6\n0 0 1\n\n1 0.1 128 9\n",
    )
    frames = open_dataset("blendedmvs", make.root)
    assert len(frames) == 1
    frame = frames[0]
    np.testing.assert_array_equal(frame.depth, depth)
    assert frame.unit == "scene"
    assert frame.intrinsics is not None
    assert frame.intrinsics[1, 1] == 510
    assert frame.pose is not None
    np.testing.assert_allclose(frame.pose[:3, 3], [-1, -2, -3])


@pytest.mark.parametrize("prefixes", [("", ""), ("vkitti_2.0.3_rgb/", "vkitti_2.0.3_depth/")])
def test_vkitti2_is_in_centimeters_and_its_sky_unknown(make: Maker, prefixes: tuple[str, str]) -> None:
    depth = make.depth(low=2, high=80)
    depth[0, 1] = 655.35
    make.image(f"{prefixes[0]}Scene01/fog/frames/rgb/Camera_1/rgb_00007.jpg")
    stored = make.png16(f"{prefixes[1]}Scene01/fog/frames/depth/Camera_1/depth_00007.png", depth, 100)
    stored[0, 1] = 0
    frames = open_dataset("vkitti2", make.root)
    assert len(frames) == 1
    np.testing.assert_array_equal(frames[0].depth, stored)
    make.text(
        "pairs.txt",
        f"{prefixes[0]}Scene01/fog/frames/rgb/Camera_1/rgb_00007.jpg "
        f"{prefixes[1]}Scene01/fog/frames/depth/Camera_1/depth_00007.png\n",
    )
    listed = open_dataset("vkitti2", make.root, pairs_file=make.root / "pairs.txt")
    np.testing.assert_array_equal(listed[0].depth, stored)


def kitti_drive(make: Maker, camera: str = "image_02") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    drive, name = "2011_09_26_drive_0001_sync", "0000000005.png"
    image = make.image(f"kitti_raw/2011_09_26/{drive}/{camera}/data/{name}", 375, 1242)
    sparse = make.png16(
        f"data_depth_velodyne/train/{drive}/proj_depth/velodyne_raw/{camera}/{name}", make.depth(375, 1242, 4, 80), 256
    )
    truth = make.png16(
        f"data_depth_annotated/train/{drive}/proj_depth/groundtruth/{camera}/{name}", make.depth(375, 1242, 4, 80), 256
    )
    numbers = "721.5 0 609.6 44.9 0 721.5 172.9 0.2 0 0 1 0.003"
    make.text("kitti_raw/2011_09_26/calib_cam_to_cam.txt", f"P_rect_02: {numbers}\nP_rect_03: {numbers}\n")
    return image, sparse, truth


def test_kitti_training_frames_have_the_window_of_the_selection(make: Maker) -> None:
    image, sparse, truth = kitti_drive(make)
    frame = open_dataset("kitti-dc-train", make.root)[0]
    window = np.s_[375 - 352 + 96 :, 13 : 13 + 1216]
    np.testing.assert_array_equal(frame.image, image[window])
    np.testing.assert_array_equal(frame.sparse, sparse[window])
    np.testing.assert_array_equal(frame.depth, truth[window])
    assert frame.intrinsics is not None
    np.testing.assert_allclose(frame.intrinsics[:2, 2], [609.6 - 13, 172.9 - 23 - 96])


def test_kitti_training_frames_of_both_cameras_are_read(make: Maker) -> None:
    for camera in ("image_02", "image_03"):
        kitti_drive(make, camera)
    assert len(open_dataset("kitti-dc-train", make.root)) == 2
    assert len(open_dataset("kitti-dc-train", make.root, camera="image_03")) == 1


def test_kitti_training_without_photographs_is_a_sentence(make: Maker) -> None:
    kitti_drive(make)
    next(make.root.glob("kitti_raw/*/*/*/data/*.png")).unlink()
    with pytest.raises(FileError, match="raw data"):
        open_dataset("kitti-dc-train", make.root)[0]


def test_nyu_training_scenes_are_read_at_full_size(make: Maker) -> None:
    h5py = pytest.importorskip("h5py")
    for scene in ("bathroom_0001", "study_0002"):
        with h5py.File(make.path(f"train/{scene}/00001.h5"), "w") as file:
            file["rgb"], file["depth"] = np.zeros((3, 480, 640), np.uint8), np.ones((480, 640), np.float32)
    frames = open_dataset("nyuv2-train", make.root)
    assert len(frames) == 2
    assert frames[0].image.shape == (480, 640, 3)
    assert frames[0].name.startswith("bathroom_0001")
