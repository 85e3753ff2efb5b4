from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from makers import HEIGHT, WIDTH, photo, wall
from omnidc.errors import FileError, InputError
from omnidc.io.calibration import Calibration
from omnidc.sensors.lidar import LidarOptions, kitti_frames, lidar_frame, paired_frames
from omnidc.sensors.radar import radar_frame, spread_returns

K = np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]])
# LiDAR axes (x forward, y left, z up) to camera axes.
AXES = np.array([[0.0, -1.0, 0.0, 0.0], [0.0, 0.0, -1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])


def scan(path: Path, n: int = 200, z: float = 5.0, seed: int = 0) -> Path:
    """A wall in front of the sensor, in LiDAR axes, as KITTI writes it."""
    camera = wall(np.random.default_rng(seed), n, z, 2.0)
    lidar = camera @ AXES[:3, :3]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.hstack([lidar, np.zeros((n, 1))]).astype(np.float32).tofile(path)
    return path


def test_a_scan_becomes_meters_at_the_right_pixels(tmp_path: Path) -> None:
    photo(tmp_path / "a.png")
    frame = lidar_frame(scan(tmp_path / "a.bin"), tmp_path / "a.png", Calibration(K, AXES))
    assert frame.sparse is not None
    values = frame.sparse[frame.sparse > 0]
    assert len(values) > 100
    assert frame.returns == 200  # of which some share a pixel
    assert np.allclose(values, 5.0)
    assert frame.unit == "m"
    with pytest.raises(InputError, match="nearer than 4 m"):
        lidar_frame(tmp_path / "a.bin", tmp_path / "a.png", Calibration(K, AXES), LidarOptions(max_input_depth=4.0))


def test_scans_that_miss_the_camera_say_where_they_went(tmp_path: Path) -> None:
    photo(tmp_path / "a.png")
    scan(tmp_path / "a.bin")
    behind = np.diag([-1.0, 1.0, -1.0, 1.0]) @ AXES
    with pytest.raises(InputError, match=r"All 200 points .* lie behind the camera"):
        lidar_frame(tmp_path / "a.bin", tmp_path / "a.png", Calibration(K, behind))
    aside = AXES.copy()
    aside[0, 3] = 100.0
    with pytest.raises(InputError, match="falls into"):
        lidar_frame(tmp_path / "a.bin", tmp_path / "a.png", Calibration(K, aside))
    (tmp_path / "e.bin").write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        lidar_frame(tmp_path / "e.bin", tmp_path / "a.png", Calibration(K, AXES))


def test_distorted_images_are_undistorted_and_said_so(tmp_path: Path) -> None:
    photo(tmp_path / "a.png")
    bent = Calibration(K, AXES, distortion=np.array([-0.2, 0.05, 0.0, 0.0]))
    frame = lidar_frame(scan(tmp_path / "a.bin"), tmp_path / "a.png", bent)
    assert "undistorted" in frame.pixels
    assert not np.allclose(frame.intrinsics, K)
    round_lens = Calibration(K, AXES, distortion=np.array([-0.02, 0.0, 0.0, 0.0]), fisheye=True)
    assert "undistorted" in lidar_frame(tmp_path / "a.bin", tmp_path / "a.png", round_lens).pixels
    with pytest.raises(InputError, match="fisheye camera has 4"):
        Calibration(K, AXES, distortion=np.ones(5), fisheye=True)


def row(values: object) -> str:
    return " ".join(repr(float(v)) for v in np.ravel(np.asarray(values)))


def test_kitti_object_and_raw_folders_are_read_whole(tmp_path: Path) -> None:
    P = np.hstack([K, np.zeros((3, 1))])
    training = tmp_path / "object" / "training"
    for name in ("000000", "000001", "000002"):
        photo(training / "image_2" / f"{name}.png")
        (training / "calib").mkdir(exist_ok=True, parents=True)
        text = f"P2: {row(P)}\nR0_rect: {row(np.eye(3))}\nTr_velo_to_cam: {row(AXES[:3])}\n"
        (training / "calib" / f"{name}.txt").write_text(text)
    scan(training / "velodyne" / "000000.bin")
    scan(training / "velodyne" / "000002.bin", z=7.0)
    frames = list(kitti_frames(tmp_path / "object"))
    assert [frame.name for frame in frames] == ["000000", "000002"]
    assert frames[1].sparse is not None
    assert frames[1].sparse.max() == pytest.approx(7.0)

    day = tmp_path / "2011_09_26"
    drive = day / "2011_09_26_drive_0001_sync"
    photo(drive / "image_02" / "data" / "0000000000.png")
    scan(drive / "velodyne_points" / "data" / "0000000000.bin")
    with pytest.raises(FileError, match="calib_cam_to_cam"):
        kitti_frames(drive)
    (day / "calib_cam_to_cam.txt").write_text(f"R_rect_00: {row(np.eye(3))}\nP_rect_02: {row(P)}\n")
    (day / "calib_velo_to_cam.txt").write_text(f"R: {row(AXES[:3, :3])}\nT: 0 0 0\n")
    for folder in (drive, day):
        [frame] = kitti_frames(folder)
        assert np.array_equal(frame.sparse, frames[0].sparse)
    with pytest.raises(FileError, match="no KITTI folder"):
        kitti_frames(tmp_path)


@pytest.mark.parametrize("distortion", [None, np.array([-0.2, 0.05, 0.0, 0.0])])
def test_masks_remove_measurements_of_ignored_pixels(tmp_path: Path, distortion: np.ndarray | None) -> None:
    photo(tmp_path / "a.png")
    black = np.full((HEIGHT, WIDTH), 255, np.uint8)
    black[:, : WIDTH // 2] = 0
    (tmp_path / "masks").mkdir()
    Image.fromarray(black).save(tmp_path / "masks" / "a.png.png")
    calibration = Calibration(K, AXES, distortion=distortion)
    paths = (scan(tmp_path / "a.bin"), tmp_path / "a.png", calibration)
    whole, masked = lidar_frame(*paths), lidar_frame(*paths, LidarOptions(masks=tmp_path / "masks"))
    assert masked.mask is not None
    assert abs(np.flatnonzero(masked.mask[HEIGHT // 2])[0] - WIDTH // 2) <= 1
    np.testing.assert_array_equal(masked.sparse, np.where(masked.mask, whole.sparse, 0))
    assert masked.sparse.any()
    same = lidar_frame(*paths, LidarOptions(masks=tmp_path / "masks" / "a.png.png"))
    np.testing.assert_array_equal(same.sparse, masked.sparse)


def test_masks_that_are_missing_or_of_another_size_are_named(tmp_path: Path) -> None:
    paths = (scan(tmp_path / "a.bin"), photo(tmp_path / "a.png"), Calibration(K, AXES))
    (tmp_path / "masks").mkdir()
    assert "no mask" in lidar_frame(*paths, LidarOptions(masks=tmp_path / "masks")).warnings[-1]
    Image.fromarray(np.zeros((5, 6), np.uint8)).save(tmp_path / "masks" / "a.png.png")
    with pytest.raises(InputError, match=rf"is 6x5 but its image is {WIDTH}x{HEIGHT}"):
        lidar_frame(*paths, LidarOptions(masks=tmp_path / "masks"))
    with pytest.raises(FileError, match="no mask or folder of masks"):
        lidar_frame(*paths, LidarOptions(masks=tmp_path / "nowhere"))


def test_folders_are_paired_by_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        photo(tmp_path / "images" / f"{name}.png")
    scan(tmp_path / "scans" / "b.bin")
    source = paired_frames(tmp_path / "scans", tmp_path / "images", Calibration(K, AXES))
    assert source.names == ["b"]
    (tmp_path / "scans" / "b.bin").rename(tmp_path / "scans" / "c.bin")
    with pytest.raises(InputError, match="of the same name"):
        paired_frames(tmp_path / "scans", tmp_path / "images", Calibration(K, AXES))


def test_projection_equals_reference_of_kitti(shared: Path) -> None:
    folder = shared / "data" / "formats" / "kitti_object"
    reference = np.load(shared / "data" / "real" / "kittilidar_objvis_000001.npz")
    for occlusion_window, least in ((0, 1.0), (None, 0.9)):
        [frame] = kitti_frames(folder, options=LidarOptions(occlusion_window=occlusion_window))
        assert frame.sparse is not None
        both = (frame.sparse > 0) & (reference["depth"] > 0)
        assert both.sum() == (frame.sparse > 0).sum()
        assert both.sum() >= least * (reference["depth"] > 0).sum()
        assert np.abs(frame.sparse - reference["depth"])[both].max() < 1e-4
        assert np.allclose(frame.intrinsics, reference["K"])


# --- radar --------------------------------------------------------------------------------------------------------


def test_a_return_covers_its_angular_spread_and_no_more() -> None:
    sparse, count = spread_returns(np.array([[0.0, 0.0, 10.0]]), K, (HEIGHT, WIDTH), 5.0, 10.0, 1)
    rows, columns = np.nonzero(sparse)
    assert count.in_image == 1
    assert np.allclose(sparse[rows, columns], 10.0)
    assert abs(np.ptp(columns) / 2 - 60 * np.tan(np.radians(5))) <= 1
    assert abs(np.ptp(rows) / 2 - 60 * np.tan(np.radians(10))) <= 1
    single, _ = spread_returns(np.array([[0.0, 0.0, 10.0]]), K, (HEIGHT, WIDTH), 0.0, 0.0, 1)
    assert (single > 0).sum() == 1


def test_overlapping_returns_go_to_the_nearer_center() -> None:
    points = np.array([[-0.5, 0.0, 10.0], [1.0, 0.0, 20.0]])  # 3 pixels left and right of the middle
    sparse, _ = spread_returns(points, K, (HEIGHT, WIDTH), 6.0, 6.0, 1)
    row = sparse[24]
    assert set(row[row > 0]) == {10.0, 20.0}
    assert row[28] == 10.0
    assert row[35] == 20.0
    switch = np.nonzero(np.diff(row[26:38]))[0]
    assert len(switch) == 1
    assert abs(26 + switch[0] - 31.5) <= 1.5


def test_bad_spreads_are_refused(tmp_path: Path) -> None:
    for azimuth, spacing in ((-1.0, 1), (60.0, 1), (1.0, 0)):
        with pytest.raises(InputError):
            spread_returns(np.ones((1, 3)), K, (HEIGHT, WIDTH), azimuth, 1.0, spacing)


def test_radar_of_view_of_delft_agrees_with_its_lidar(shared: Path) -> None:
    from omnidc.io.calibration import kitti_object

    home = shared / "data" / "formats" / "vod"
    [lidar] = kitti_frames(home / "lidar")
    image = home / "lidar" / "training" / "image_2" / "00549.jpg"
    calibration = kitti_object(home / "radar" / "training" / "calib" / "00549.txt")
    frame = radar_frame(home / "radar" / "training" / "velodyne" / "00549.bin", image, calibration, columns=7)
    assert frame.sparse is not None
    assert lidar.sparse is not None
    assert (frame.sparse > 0).sum() > 200
    import cv2

    # Within the spread of a return some LiDAR point lies at its depth, for most returns near the road.
    near = cv2.dilate(lidar.sparse, np.ones((41, 41)))
    far_enough = near > 0
    both = (frame.sparse > 0) & far_enough
    lowest = cv2.erode(np.where(lidar.sparse > 0, lidar.sparse, 1e9).astype(np.float32), np.ones((41, 41)))
    inside = (frame.sparse > 0.9 * lowest) & (frame.sparse < 1.1 * near)
    assert inside[both].mean() > 0.5
