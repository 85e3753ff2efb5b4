from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from makers import HEIGHT, WIDTH, millimeters, photo, pose_along_x
from omnidc.errors import FileError, InputError
from omnidc.frame import Frame
from omnidc.geometry.transforms import pose_from_quaternion
from omnidc.sensors.rgbd import RgbdOptions, open_pairs, open_recording
from omnidc.sensors.stamps import closest_gap, nearest_stamps

K = [[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]]
FLAT = np.full((HEIGHT, WIDTH), 2.0)


def matrix(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, np.asarray(values, dtype=np.float64))


def only(frame: Frame, value: float, share: float = 0.9) -> None:
    assert frame.sparse is not None
    measured = frame.sparse[frame.sparse > 0]
    assert len(measured) >= share * frame.sparse.size
    assert np.allclose(measured, value, atol=1e-3)


def tum_folder(folder: Path, offset: float = 0.01) -> Path:
    for t in (1.0, 2.0):
        photo(folder / "rgb" / f"{t:.6f}.png")
        millimeters(folder / "depth" / f"{t + offset:.6f}.png", FLAT, 5000)
    (folder / "rgb.txt").write_text("# c\n" + "".join(f"{t} rgb/{t:.6f}.png\n" for t in (1.0, 2.0, 3.0)))
    (folder / "depth.txt").write_text("".join(f"{t + offset} depth/{t + offset:.6f}.png\n" for t in (1.0, 2.0)))
    (folder / "groundtruth.txt").write_text("1.001 1 2 3 0 0 0 1\n2.001 1 2 3 0 0 0.70710678 0.70710678\n")
    return folder


def test_tum_pairs_by_time_divides_by_5000_and_finds_poses(tmp_path: Path) -> None:
    source = open_recording(tum_folder(tmp_path / "rgbd_dataset_freiburg2_desk"))
    assert len(source) == 2  # the third image of the list is not on disk
    frames = list(source)
    only(frames[0], 2.0)
    assert frames[0].intrinsics is not None
    assert frames[0].intrinsics[0, 0] == 520.9
    assert np.allclose(frames[0].pose[:3, 3], [1, 2, 3])
    assert np.allclose(frames[1].pose[:3, 0], [0, 1, 0], atol=1e-6)  # a quarter turn about z


def test_time_stamps_too_far_apart_are_refused_with_the_gap(tmp_path: Path) -> None:
    folder = tum_folder(tmp_path / "fr1", offset=0.3)
    with pytest.raises(InputError, match=r"within 0.02 s .*closest: 0.3 s.*--max-time-diff"):
        open_recording(folder)
    assert len(open_recording(folder, RgbdOptions(max_time_diff=0.4))) == 2


@given(
    a=st.lists(st.floats(0, 10, width=32), max_size=8, unique=True),
    b=st.lists(st.floats(0, 10, width=32), max_size=8, unique=True),
    tolerance=st.floats(0.01, 3),
)
def test_pairs_of_stamps_are_close_and_used_once(a: list[float], b: list[float], tolerance: float) -> None:
    pairs = nearest_stamps(a, b, tolerance)
    assert len({i for i, _ in pairs}) == len(pairs) == len({j for _, j in pairs})
    assert all(abs(a[i] - b[j]) <= tolerance for i, j in pairs)
    possible = any(abs(x - y) <= tolerance for x in a for y in b)
    if a and b:
        assert closest_gap(a, b) == min(abs(x - y) for x in a for y in b)
    assert bool(pairs) == possible
    if possible:  # the closest two of all belong together
        gap = min(abs(x - y) for x in a for y in b)
        assert gap in [abs(a[i] - b[j]) for i, j in pairs]


def test_scannet_depth_of_another_resolution_is_registered(tmp_path: Path) -> None:
    photo(tmp_path / "color" / "0.jpg", (128, 96))
    millimeters(tmp_path / "depth" / "0.png", FLAT)
    matrix(tmp_path / "pose" / "0.txt", pose_along_x(3))
    big = [[120.0, 0.0, 63.5, 0.0], [0.0, 120.0, 47.5, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    matrix(tmp_path / "intrinsic" / "intrinsic_color.txt", big)
    matrix(tmp_path / "intrinsic" / "intrinsic_depth.txt", K)
    for name in ("extrinsic_color.txt", "extrinsic_depth.txt"):
        matrix(tmp_path / "intrinsic" / name, np.eye(4))
    [frame] = open_recording(tmp_path)
    only(frame, 2.0, share=0.24)  # a quarter of the color pixels has a measurement
    assert frame.pose[0, 3] == 3
    matrix(tmp_path / "pose" / "0.txt", np.full((4, 4), -np.inf))  # lost tracking
    [frame] = open_recording(tmp_path)
    assert frame.pose is None


def test_7scenes_folder_drops_invalid_depth(tmp_path: Path) -> None:
    photo(tmp_path / "frame-000003.color.png", (640, 480))
    depth = np.full((480, 640), 2.0)
    depth[:100] = 65.535
    millimeters(tmp_path / "frame-000003.depth.png", depth)
    matrix(tmp_path / "frame-000003.pose.txt", np.eye(4))
    [frame] = open_recording(tmp_path)
    assert frame.sparse is not None
    assert frame.sparse.max() == pytest.approx(2.0, abs=0.01)
    assert not frame.sparse[:60].any()
    assert np.allclose(frame.pose[:3, 3], [0.02556, -0.0001, -0.00203])


def test_bop_scenes_and_single_views(tmp_path: Path) -> None:
    scene = tmp_path / "000001"
    photo(scene / "rgb" / "000007.png")
    millimeters(scene / "depth" / "000007.png", FLAT, 10_000)
    camera = {"cam_K": np.ravel(K).tolist(), "depth_scale": 0.1}
    pose = {"cam_R_w2c": np.eye(3).ravel().tolist(), "cam_t_w2c": [-500, 0, 0]}
    (scene / "scene_camera.json").write_text(json.dumps({"7": {**camera, **pose}}))
    [frame] = open_recording(scene)
    only(frame, 2.0)
    assert frame.pose[0, 3] == pytest.approx(0.5)  # millimeters in the file
    single = tmp_path / "one"
    photo(single / "rgb.png")
    millimeters(single / "depth.png", FLAT)
    (single / "camera.json").write_text(json.dumps({**camera, "depth_scale": 1.0}))
    only(next(iter(open_recording(single))), 2.0)


def confidence(path: Path, shape: tuple[int, int], high: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    levels = np.full(shape, high, np.uint8)
    levels[:, : shape[1] // 2] = 0
    Image.fromarray(levels).save(path)


def test_stray_scanner_uses_confidence_and_odometry(tmp_path: Path) -> None:
    photo(tmp_path / "rgb" / "000000.png")
    photo(tmp_path / "rgb" / "000001.png")
    millimeters(tmp_path / "depth" / "000000.png", np.full((12, 16), 2.0))
    confidence(tmp_path / "confidence" / "000000.png", (12, 16), 2)
    (tmp_path / "camera_matrix.csv").write_text("60.0,0.0,31.5\n0.0,60.0,23.5\n0.0,0.0,1.0\n")
    (tmp_path / "odometry.csv").write_text("timestamp,frame,x,y,z,qx,qy,qz,qw\n0.1,000000,1,2,3,0,0,0,1\n")
    [frame] = open_recording(tmp_path)
    assert frame.sparse is not None
    assert not frame.sparse[:, : WIDTH // 2].any()
    assert (frame.sparse > 0).sum() == 12 * 8
    assert np.allclose(frame.pose[:3, 3], [1, 2, 3])
    [frame] = open_recording(tmp_path, RgbdOptions(min_confidence=0))
    assert (frame.sparse > 0).sum() == 12 * 16


def test_polycam_turns_its_axes_to_opencv(tmp_path: Path) -> None:
    home = tmp_path / "keyframes"
    photo(home / "images" / "12.jpg")
    millimeters(home / "depth" / "12.png", np.full((12, 16), 2.0))
    confidence(home / "confidence" / "12.png", (12, 16), 255)
    table = {"fx": 60, "fy": 60, "cx": 31.5, "cy": 23.5, "width": WIDTH, "height": HEIGHT}
    table.update({f"t_{r}{c}": float(np.eye(4)[r, c]) for r in range(3) for c in range(4)})
    (home / "cameras").mkdir()
    (home / "cameras" / "12.json").write_text(json.dumps(table))
    [frame] = open_recording(tmp_path)
    assert np.allclose(frame.pose, np.diag([1, -1, -1, 1]))
    assert (frame.sparse > 0).sum() == 12 * 8


def test_arkitscenes_takes_intrinsics_from_pincam(tmp_path: Path) -> None:
    photo(tmp_path / "lowres_wide" / "4_1.5.png")
    millimeters(tmp_path / "lowres_depth" / "4_1.5.png", FLAT)
    (tmp_path / "lowres_wide_intrinsics").mkdir()
    (tmp_path / "lowres_wide_intrinsics" / "4_1.5.pincam").write_text("64 48 60 61 31.5 23.5")
    [frame] = open_recording(tmp_path)
    only(frame, 2.0)
    assert frame.intrinsics is not None
    assert frame.intrinsics[1, 1] == 61


@pytest.mark.parametrize("name", ["camera_intrinsic.json", "intrinsic.json"])
def test_realsense_and_azure_recordings_of_open3d(tmp_path: Path, name: str) -> None:
    photo(tmp_path / "color" / "00000.jpg")
    millimeters(tmp_path / "depth" / "00000.png", FLAT)
    flat = np.array(K).T.ravel().tolist()  # column by column
    (tmp_path / name).write_text(json.dumps({"width": WIDTH, "height": HEIGHT, "intrinsic_matrix": flat}))
    [frame] = open_recording(tmp_path)
    only(frame, 2.0)
    assert np.allclose(frame.intrinsics, K)


def own_folder(folder: Path, **changes: Any) -> Path:
    photo(folder / "color" / "a.png")
    millimeters(folder / "depth" / "a.png", FLAT)
    move = np.eye(4)
    move[0, 3] = -0.1
    table: dict[str, Any] = {
        "color": {"K": K},
        "depth": {"K": K},
        "color_from_depth": move.tolist(),
        "depth_scale": 1000,
        **changes,
    }
    table = {key: value for key, value in table.items() if value is not None}
    (folder / "calibration.json").write_text(json.dumps(table))
    return folder


def test_our_own_calibration_registers_two_cameras(tmp_path: Path) -> None:
    [frame] = open_recording(own_folder(tmp_path))
    assert frame.sparse is not None
    assert (frame.sparse[:, : WIDTH - 4] > 0).all()
    assert not frame.sparse[:, WIDTH - 3 :].any()  # moved by f · b / z = 3 pixels
    assert frame.notes[0].startswith(f"{HEIGHT * WIDTH} points")
    bent = {"K": K, "distortion": [-0.1, 0.0, 0.0, 0.0]}
    [frame] = open_recording(own_folder(tmp_path, color=bent))
    assert "undistorted" in frame.pixels


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"color_from_depth": None}, "add color_from_depth"),
        ({"depth": None}, "no depth camera"),
        ({"color_from_depth": np.diag([1, 1, -1, 1]).tolist()}, "not a rotation"),
    ],
)
def test_half_described_rigs_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_recording(own_folder(tmp_path, **changes))


def test_a_layouts_cameras_can_be_replaced(tmp_path: Path) -> None:
    folder = tum_folder(tmp_path / "fr1")
    (tmp_path / "c.json").write_text(json.dumps({"fx": 10, "fy": 11, "cx": 1, "cy": 2}))
    frame = next(iter(open_recording(folder, calibration=tmp_path / "c.json")))
    assert frame.intrinsics is not None
    assert frame.intrinsics[1, 1] == 11
    only(frame, 2.0)  # the layout's ÷ 5000 stays


def test_pairs_of_files_and_folders(tmp_path: Path) -> None:
    image, depth = photo(tmp_path / "c" / "a.png"), millimeters(tmp_path / "d" / "a.png", FLAT[::2, ::2])
    [frame] = open_pairs(image, depth)
    assert (frame.sparse > 0).sum() == FLAT.size / 4
    assert len(open_pairs(image.parent, depth.parent)) == 1
    depth.rename(depth.with_name("depth_0.png"))
    [frame] = open_pairs(image.parent, depth.parent)
    assert "by order" in frame.notes[0]
    with pytest.raises(InputError, match="one of each"):
        open_pairs(image, depth.parent)
    with pytest.raises(FileError, match="nothing at"):
        open_pairs(image, tmp_path / "none.png")
    with pytest.raises(InputError, match="not the same view"):
        next(iter(open_pairs(image, millimeters(tmp_path / "w.png", np.full((20, 60), 2.0)))))


def test_flying_pixels_are_dropped_unless_kept(tmp_path: Path) -> None:
    depth = np.where(np.arange(WIDTH) < 32, 1.0, 3.0)[None].repeat(HEIGHT, axis=0)
    depth[:, 32] = 2.0
    image, file = photo(tmp_path / "a.png"), millimeters(tmp_path / "d.png", depth)
    [frame] = open_pairs(image, file)
    assert frame.sparse is not None
    assert not frame.sparse[:, 32].any()
    assert frame.notes[0].startswith(f"{HEIGHT} flying pixels")
    [frame] = open_pairs(image, file, RgbdOptions(keep_flying_pixels=True, max_input_depth=2.5))
    assert (frame.sparse[:, 32] == 2.0).all()
    assert not frame.sparse[:, 33:].any()


def test_unknown_folders_are_refused_with_the_list_of_layouts(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none of the known layouts \(tum"):
        open_recording(tmp_path)
    with pytest.raises(InputError, match="'magic' is not known"):
        open_recording(tmp_path, layout="magic")
    with pytest.raises(FileError, match="no folder"):
        open_recording(tmp_path / "none")


def test_quaternions_turn_like_their_matrix() -> None:
    s = np.sqrt(0.5)
    assert np.allclose(pose_from_quaternion((0, 0, 0), (s, 0, 0, s))[:3, 2], [0, -1, 0])  # about x: z to -y


def test_real_recordings_are_recognized(shared: Path) -> None:
    formats = shared / "data" / "formats"
    medians = {
        "tum_fr1_rpy": 3.0,
        "7scenes_tsdf/data": 1.9,
        "bop_sam6d/SAM-6D/Data/Example": 1.12,
    }
    for name, median in medians.items():
        frame = next(iter(open_recording(formats / name)))
        assert frame.sparse is not None
        assert np.median(frame.sparse[frame.sparse > 0]) == pytest.approx(median, rel=0.05)
    phone = formats / "iphone_promptda" / "assets" / "example_images"
    [frame] = open_pairs(phone / "image.jpg", phone / "arkit_depth.png")
    assert frame.image.shape[:2] == (1440, 1920)
    assert (frame.sparse > 0).sum() == pytest.approx(256 * 192, rel=0.01)
    glass = formats / "cleargrasp" / "data" / "sample_dataset" / "real-val" / "d435"
    [frame] = open_pairs(glass / "000000080-transparent-rgb-img.jpg", glass / "000000080-transparent-depth-img.exr")
    assert 0.5 < np.median(frame.sparse[frame.sparse > 0]) < 0.8


def test_registered_depth_of_7scenes_agrees_with_the_founders(shared: Path) -> None:
    data = shared / "data" / "multiview" / "7scenes_redkitchen_rgbd"
    frame = open_recording(data, RgbdOptions(keep_flying_pixels=True))["frame-000000"]
    reference = np.load(shared / "data" / "real" / "7scenes_redkitchen_000000.npz")["depth"]
    assert frame.sparse is not None
    both = (frame.sparse > 0) & (reference > 0)
    assert both.sum() > 0.9 * (frame.sparse > 0).sum()
    relative = np.abs(frame.sparse - reference)[both] / reference[both]
    assert np.median(relative) < 0.003
    assert (relative < 0.02).mean() > 0.97
