from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from omnidc.errors import FileError, InputError
from omnidc.io.calibration import Calibration, kitti_object, kitti_raw, read_calibration, read_intrinsics

R = cv2.Rodrigues(np.array([0.1, -0.2, 0.3]))[0]
T = np.vstack([np.hstack([R, [[0.1], [0.2], [0.3]]]), [[0, 0, 0, 1]]])
K = [[700.0, 0.0, 320.0], [0.0, 710.0, 240.0], [0.0, 0.0, 1.0]]


def write(path: Path, **changes: Any) -> Path:
    table: dict[str, Any] = {"K": K, "camera_from_lidar": T.tolist(), **changes}
    path.write_text(json.dumps({key: value for key, value in table.items() if value is not None}))
    return path


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    first = read_calibration(write(tmp_path / "c.json", distortion=[0.1, 0, 0, 0]))
    (tmp_path / "c.yaml").write_text("%YAML:1.0\n" + yaml.safe_dump(json.loads((tmp_path / "c.json").read_text())))
    second = read_calibration(tmp_path / "c.yaml")
    for a in (first, second):
        assert np.allclose(a.K, K)
        assert np.allclose(a.camera_from_sensor, T)
        assert a.distortion is not None
        assert a.distortion.tolist() == [0.1, 0, 0, 0]


def test_the_inverse_transform_is_accepted_under_its_own_name(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", camera_from_lidar=None, lidar_from_camera=np.linalg.inv(T).tolist())
    assert np.allclose(read_calibration(path).camera_from_sensor, T)


def test_intrinsics_are_scaled_to_the_image_but_not_to_a_crop(tmp_path: Path) -> None:
    calibration = read_calibration(write(tmp_path / "c.json", image_size=[640, 480], pixel_center=0.5))
    assert calibration.K[0, 2] == 319.5
    old = read_calibration(write(tmp_path / "old.json", image_size=[640, 480], pixel_centre=0.5))
    assert old.K[0, 2] == 319.5  # the spelling of 0.1
    half = calibration.for_image((240, 320))
    assert half[0, 0] == 350.0
    assert half[0, 2] == pytest.approx((320.0) / 2 - 0.5)
    with pytest.raises(InputError, match="another shape"):
        calibration.for_image((240, 300))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"camera_from_lidar": (np.diag([2, 2, 2, 1.0])).tolist()}, "not a rotation"),
        ({"camera_from_lidar": None}, "does not say where the lidar is"),
        ({"K": None}, "no camera matrix"),
        ({"K": [[0, 0, 1], [0, 1, 1], [0, 0, 1]]}, "K in .* is no camera matrix"),
        ({"K": "abc"}, "no number|wrong kind"),
        ({"model": "magic"}, "camera model 'magic'"),
    ],
)
def test_bad_calibrations_are_refused_in_a_sentence(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_calibration(write(tmp_path / "c.json", **changes))


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(FileError, match="not valid JSON"):
        read_calibration(tmp_path / "c.json")
    with pytest.raises(FileError, match=r"none.txt does not exist"):
        read_calibration(tmp_path / "none.txt")
    (tmp_path / "k.txt").write_text("P2: 1 2 3\n")
    with pytest.raises(InputError, match=r"no line Tr_velo_cam"):
        read_calibration(tmp_path / "k.txt")


def row(values: Any) -> str:
    return " ".join(repr(float(v)) for v in np.ravel(values))


def kitti_text(tr: Any = T[:3]) -> str:
    P2 = np.array(K) @ np.hstack([np.eye(3), [[0.06], [0.0], [0.003]]])
    return f"P2: {row(P2)}\nR0_rect: {row(np.eye(3))}\nTr_velo_to_cam: {row(tr)}\nTr_imu_to_velo:\n"


def test_kitti_projection_equals_matrix_product(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text(kitti_text())
    calibration = kitti_object(tmp_path / "c.txt")
    point = np.array([4.0, 1.0, 20.0, 1.0])
    P2 = np.array(K) @ np.hstack([np.eye(3), [[0.06], [0.0], [0.003]]])
    expected = P2 @ T @ point
    local = calibration.camera_from_sensor @ point
    ours = calibration.K @ local[:3]
    assert np.allclose(ours / ours[2], expected / expected[2])
    assert local[2] == pytest.approx(expected[2])


def test_kitti_calibration_with_a_non_rotation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text(kitti_text(1.5 * T[:3]))
    with pytest.raises(InputError, match=r"Tr_velo_to_cam .* not a rotation"):
        kitti_object(tmp_path / "c.txt")


def test_kitti_raw_reads_both_files(tmp_path: Path) -> None:
    P = np.hstack([np.array(K), np.zeros((3, 1))])
    (tmp_path / "calib_cam_to_cam.txt").write_text(
        f"calib_time: 09-Jan-2012 13:57:47\nR_rect_00: {row(np.eye(3))}\nP_rect_02: {row(P)}\n"
    )
    (tmp_path / "calib_velo_to_cam.txt").write_text(f"calib_time: 15-Mar-2012\nR: {row(R)}\nT: {row(T[:3, 3])}\n")
    for path in (tmp_path, tmp_path / "calib_cam_to_cam.txt"):
        calibration = read_calibration(path)
        assert np.allclose(calibration.camera_from_sensor, T)
        assert np.allclose(calibration.K, K)
    with pytest.raises(InputError, match="P_rect_03"):
        kitti_raw(tmp_path, camera=3)


def test_a_calibration_without_image_size_fits_every_image() -> None:
    np.testing.assert_array_equal(Calibration(np.array(K)).for_image((7, 9)), K)


def test_cameras_are_read_from_text_npy_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("700 710 320 240\n")
    (tmp_path / "b.txt").write_text("\n".join(" ".join(map(str, row)) for row in K))
    np.save(tmp_path / "c.npy", K)
    (tmp_path / "d.json").write_text(json.dumps({"fl_x": 700, "fl_y": 710, "cx": 320, "cy": 240}))
    (tmp_path / "e.json").write_text(json.dumps({"K": K}))
    for path in sorted(tmp_path.iterdir()):
        np.testing.assert_array_equal(read_intrinsics(path), K, err_msg=path.name)


@pytest.mark.parametrize(("name", "text"), [("a.txt", "hello"), ("a.json", "{}"), ("a.json", "["), ("a.npy", "x")])
def test_a_file_without_a_camera_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError, match="camera"):
        read_intrinsics(tmp_path / name)
