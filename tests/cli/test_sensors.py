"""`omnidc colmap`, `lidar`, `rgbd`, `radar` and `bag` as users meet them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from makers import HEIGHT, WIDTH, colmap_model, millimeters, photo, pose_along_x, wall
from omnidc.cli import RENAMED_OPTIONS, main

K = [[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]]
ALL = (0, 1, 2, 3)


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Run]:
    """Run a command in this process with the model that needs no weights."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["omnidc", *map(str, arguments), "--model", "interpolate"])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return Run(int(stop.value.code or 0), captured.out, captured.err)

    return run


def scan_and_calibration(folder: Path, sensor: str = "lidar") -> tuple[Path, Path, Path]:
    image = photo(folder / "a.png")
    np.save(folder / "a.npy", wall(np.random.default_rng(0), 200, 5.0, 2.0))
    table = {"K": K, f"camera_from_{sensor}": np.eye(4).tolist()}
    (folder / "c.json").write_text(json.dumps(table))
    return folder / "a.npy", image, folder / "c.json"


@pytest.mark.parametrize("sensor", ["lidar", "radar"])
def test_a_scan_and_a_photo_become_depth(cli: Callable[..., Run], tmp_path: Path, sensor: str) -> None:
    scan, image, calib = scan_and_calibration(tmp_path, sensor)
    run = cli(
        sensor, scan, image, "--calib", calib, "-o", "out", "-f", "npy,preview,ply", "--turntable", "--confidence"
    )
    assert run.code == 0, run.err
    depth = np.load(tmp_path / "out" / "a.npy")
    assert np.allclose(depth, 5.0, rtol=0.01)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"a.npy", "a_preview.jpg", "a.ply", "a_turntable.jpg", "a_confidence.npz", "metadata.json"}
    assert "min 5, median 5, max 5 m" in run.out
    record = json.loads((tmp_path / "out" / "metadata.json").read_text())["frames"]["a"]
    assert record["unit"] == "m"
    assert record["residual_at_points"]["median_relative"] < 0.01


@pytest.mark.parametrize("sensor", ["lidar", "radar"])
def test_check_draws_and_completes_nothing(cli: Callable[..., Run], tmp_path: Path, sensor: str) -> None:
    scan, image, calib = scan_and_calibration(tmp_path, sensor)
    run = cli(sensor, scan, image, "--calib", calib, "--overlay", "see.png", "-o", "out")
    assert run.code == 0, run.err
    assert Image.open(tmp_path / "see.png").size == (WIDTH, HEIGHT)
    assert not (tmp_path / "out").exists()


def test_errors_are_one_sentence_and_exit_code_2(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = scan_and_calibration(tmp_path)
    for arguments, words in (
        (("lidar", scan, image), "need --calib"),
        (("lidar", tmp_path), "no KITTI folder"),
        (("lidar", scan, image, "--calib", tmp_path / "x.json"), "does not exist"),
        (("lidar", scan, image, "--calib", calib, "-f", "mp4"), "format 'mp4' is not known"),
        (("rgbd", tmp_path), "none of the known layouts"),
        (("rgbd", tmp_path, "--export", "inra"), "--export inra is not known"),
        (("colmap", tmp_path, tmp_path), "no COLMAP model"),
        (("bag", tmp_path / "x.bag"), "no bag at"),
    ):
        run = cli(*arguments)
        assert run.code == 2, run
        assert words in run.err
        assert len(run.err.strip().splitlines()) == 1


def test_rgbd_recordings_are_completed_fused_and_exported(cli: Callable[..., Run], tmp_path: Path) -> None:
    home = tmp_path / "scene"
    depth = np.full((HEIGHT, WIDTH), 2.0)
    depth[10:20, 10:20] = 0  # a hole
    for i in range(3):
        photo(home / "color" / f"{i}.png", seed=i)
        millimeters(home / "depth" / f"{i}.png", depth)
        (home / "pose").mkdir(exist_ok=True)
        np.savetxt(home / "pose" / f"{i}.txt", pose_along_x(0.05 * i))
    (home / "intrinsic").mkdir()
    for name in ("color", "depth"):
        np.savetxt(home / "intrinsic" / f"intrinsic_{name}.txt", np.array(K))
    run = cli("rgbd", home, "-o", "out", "--fuse", "--export", "nerfstudio", "-f", "preview")
    assert run.code == 0, run.err
    filled = np.load(tmp_path / "out" / "1.npy")
    assert np.allclose(filled, 2.0, rtol=0.01)
    assert (tmp_path / "out" / "fused.ply").stat().st_size > 10_000
    table = json.loads((tmp_path / "out" / "nerfstudio" / "transforms.json").read_text())
    assert [frame["transform_matrix"][0][3] for frame in table["frames"]] == pytest.approx([0, 0.05, 0.1])
    again = cli("rgbd", home, "-o", "out", "--resume", "-f", "preview")
    assert "3 of 3 are done already" in again.out


def bent_scan(folder: Path) -> tuple[Path, Path, Path]:
    """A scan of a slanted wall with a photograph of a lens with distortion."""
    scan, image, calib = scan_and_calibration(folder)
    points = wall(np.random.default_rng(0), 2000, 5.0, 3.0)
    points[:, 2] += 0.5 * points[:, 0]
    np.save(scan, points)
    table = json.loads(calib.read_text())
    calib.write_text(json.dumps({**table, "distortion": [-0.2, 0.05, 0.0, 0.0]}))
    return scan, image, calib


def test_lidar_undistortion_is_said_and_the_photo_saved(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = bent_scan(tmp_path)
    run = cli("lidar", scan, image, "--calib", calib, "-o", "out", "-f", "npy")
    assert run.code == 0, run.err
    assert "depth is computed for the undistorted photograph" in run.out
    assert "depth belongs to the pixels of undistorted photographs: out/a_undistorted.png" in run.out
    record = json.loads((tmp_path / "out/metadata.json").read_text())["frames"]["a"]
    assert record["undistorted"] == "a_undistorted.png"
    assert "undistorted to a pinhole camera" in record["pixels"]
    assert Image.open(tmp_path / "out/a_undistorted.png").size == (WIDTH, HEIGHT)
    (tmp_path / "out/a_undistorted.png").unlink()
    assert "are done" not in cli("lidar", scan, image, "--calib", calib, "-o", "out", "-f", "npy", "--resume").out


def test_lidar_original_pixels_bring_depth_back(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = bent_scan(tmp_path)
    run = cli("lidar", scan, image, "--calib", calib, "-o", "own", "-f", "npy,preview", "--original-pixels")
    assert run.code == 0, run.err
    depth = np.load(tmp_path / "own/a.npy")
    assert depth.shape == (HEIGHT, WIDTH)
    assert (depth[4:-4, 4:-4] > 0).all()
    assert not (tmp_path / "own/a_undistorted.png").exists()
    assert "brought back to the camera's own pixels" in run.out
    assert "depth belongs" not in run.out
    record = json.loads((tmp_path / "own/metadata.json").read_text())["frames"]["a"]
    assert any("camera's own pixels" in note for note in record["notes"])
    assert "intrinsics" not in record
    clash = cli("lidar", scan, image, "--calib", calib, "-f", "ply", "--original-pixels")
    assert clash.code == 2
    assert "leave out --original-pixels" in clash.err


def test_lidar_exif_is_printed_and_can_be_ignored(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = scan_and_calibration(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(image).save(image, exif=exif)
    run = cli("lidar", scan, image, "--calib", calib, "-o", "out", "-f", "npy")
    assert "photo turned by 90° clockwise, as its EXIF tag says, its measurements and camera with it" in run.out
    assert np.load(tmp_path / "out/a.npy").shape == (WIDTH, HEIGHT)
    run = cli("lidar", scan, image, "--calib", calib, "-o", "as_is", "-f", "npy", "--ignore-exif")
    assert "turned" not in run.out
    assert np.load(tmp_path / "as_is/a.npy").shape == (HEIGHT, WIDTH)


def test_resume_refuses_another_way_of_reading(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = scan_and_calibration(tmp_path)
    assert cli("lidar", scan, image, "--calib", calib, "-o", "out", "-f", "npy").code == 0
    run = cli("lidar", scan, image, "--calib", calib, "-o", "out", "-f", "npy", "--resume", "--max-input-depth", 9)
    assert run.code == 2
    assert "max_input_depth None (now 9.0)" in run.err


def test_sensor_output_with_the_name_of_a_file_is_refused(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = scan_and_calibration(tmp_path)
    run = cli("lidar", scan, image, "--calib", calib, "-o", "depth.png")
    assert run.code == 2
    assert "give -o FOLDER -f png." in run.err
    assert not (tmp_path / "depth.png").exists()


def test_lidar_photograph_before_scan_is_explained(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = scan_and_calibration(tmp_path)
    run = cli("lidar", image, scan, "--calib", calib, "-o", "out")
    assert run.code == 2
    assert "Give the scan first, then the photograph." in run.err


def test_clouds_are_thinned_by_stride_and_voxel(cli: Callable[..., Run], tmp_path: Path) -> None:
    import trimesh

    scan, image, calib = scan_and_calibration(tmp_path)
    counts = []
    for name, options in {"all": (), "stride": ("--stride", 4), "voxel": ("--voxel", 1.0)}.items():
        run = cli("lidar", scan, image, "--calib", calib, "-o", name, "-f", "ply", *options)
        assert run.code == 0, run.err
        counts.append(len(trimesh.load(tmp_path / name / "a.ply").vertices))
    assert counts[0] == WIDTH * HEIGHT
    assert counts[1] == WIDTH * HEIGHT // 16
    assert counts[2] < 80  # a wall of about 5.3 by 4 meters
    assert cli("lidar", scan, image, "--calib", calib, "--stride", 0).code == 2
    assert cli("lidar", scan, image, "--calib", calib, "--voxel", -1).code == 2


def rgbd_folders(folder: Path, count: int = 3) -> tuple[Path, Path]:
    for i in range(count):
        photo(folder / "color" / f"{i}.png", seed=i)
        millimeters(folder / "depth" / f"{i}.png", np.full((HEIGHT, WIDTH), 2.0))
    return folder / "color", folder / "depth"


def test_rgbd_poses_and_intrinsics_make_exports(cli: Callable[..., Run], tmp_path: Path) -> None:
    color, depth = rgbd_folders(tmp_path)
    np.savetxt(tmp_path / "poses.txt", [pose_along_x(0.05 * i).ravel() for i in range(3)])
    camera = ("--intrinsics", 60, 60, 31.5, 23.5)
    arguments = ("rgbd", color, depth, "-o", "out", "--fuse", "--mesh", "--export", "nerfstudio", "-f", "npy")
    run = cli(*arguments, "--poses", tmp_path / "poses.txt", *camera)
    assert run.code == 0, run.err
    assert "poses.txt for 3 of 3 frames" in run.out
    table = json.loads((tmp_path / "out/nerfstudio/transforms.json").read_text())
    assert [frame["transform_matrix"][0][3] for frame in table["frames"]] == pytest.approx([0, 0.05, 0.1])
    import trimesh

    mesh = trimesh.load(tmp_path / "out/mesh.ply")
    assert len(mesh.faces) > 100
    assert np.abs(mesh.vertices[:, 2] - 2.0).max() < 0.02


@pytest.mark.parametrize("given", ["nothing", "poses", "camera"])
def test_rgbd_missing_poses_end_before_the_first_frame(cli: Callable[..., Run], tmp_path: Path, given: str) -> None:
    color, depth = rgbd_folders(tmp_path)
    np.savetxt(tmp_path / "poses.txt", [pose_along_x(0.05 * i).ravel() for i in range(3)])
    more = {"nothing": (), "poses": ("--poses", "poses.txt"), "camera": ("--intrinsics", 60, 60, 31.5, 23.5)}[given]
    for what in (("--fuse",), ("--mesh",), ("--export", "nerfstudio")):
        run = cli("rgbd", color, depth, "-o", "out", *what, *more)
        assert run.code == 2
        assert "0 of 3 have both: give --poses FILE" in run.err
        assert not (tmp_path / "out").exists()
    run = cli("rgbd", color, depth, "--export", "inria")
    assert "--export inria needs a COLMAP model: choose from nerfstudio" in run.err


def test_rgbd_calibration_file_may_hold_poses(cli: Callable[..., Run], tmp_path: Path) -> None:
    rgbd_folders(tmp_path / "rec")
    table = {"color": {"K": K}, "poses": {f"{i}": pose_along_x(0.05 * i).tolist() for i in range(3)}}
    (tmp_path / "rec/calibration.json").write_text(json.dumps(table))
    run = cli("rgbd", "rec", "-o", "out", "--fuse", "-f", "npy")
    assert run.code == 0, run.err
    assert (tmp_path / "out/fused.ply").is_file()
    (tmp_path / "rec/calibration.json").write_text(json.dumps({**table, "poses": [1, 2]}))
    assert "table from names to 4x4" in cli("rgbd", "rec").err


def test_colmap_models_are_completed_and_exported_for_every_tool(cli: Callable[..., Run], tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap")
    points = wall(np.random.default_rng(0), 150, 3.0, 1.2)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL[:3]] * 150, count=3)
    exports = [word for name in ("nerfstudio", "inria", "dn-splatter", "colmap") for word in ("--export", name)]
    run = cli("colmap", "m", "i", "-o", "out", "--fuse", *exports)
    assert run.code == 0, run.err
    assert "150 of 150 points pass the filters" in run.out
    assert np.allclose(np.load(tmp_path / "out" / "view1.npy"), 3.0, rtol=0.02)
    for place in ("inria/sparse/0", "dn-splatter/colmap/sparse/0", "colmap/sparse"):
        assert pycolmap.Reconstruction(str(tmp_path / "out" / place)).num_reg_images() == 3
    import trimesh

    cloud = trimesh.load(tmp_path / "out" / "fused.ply")
    assert np.median(np.abs(cloud.vertices[:, 2] - 3.0)) < 0.05
    seen = cli("colmap", "m", "i", "--overlay", "see.png")
    assert seen.code == 0
    assert (tmp_path / "see.png").is_file()


def test_colmap_second_pass_completes_twice_with_one_model(
    cli: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pycolmap")
    from omnidc.deploy import loading

    loaded: list[str] = []
    real = loading.load
    monkeypatch.setattr(loading, "load", lambda name, *a, **k: loaded.append(name) or real(name, *a, **k))
    points = wall(np.random.default_rng(0), 60, 3.0, 0.6)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL[:3]] * 60, count=3)
    run = cli("colmap", "m", "i", "-o", "out", "-f", "npy", "--second-pass")
    assert run.code == 0, run.err
    assert "first pass: on average 0 points" in run.out
    assert len(loaded) == 1
    assert np.allclose(np.load(tmp_path / "out" / "view1.npy"), 3.0, rtol=0.02)
    refused = cli("colmap", "m", "i", "--second-pass", "--observed-only")
    assert refused.code == 2
    assert "asks for no test" in refused.err


def test_images_without_points_are_completed_only_when_asked(cli: Callable[..., Run], tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    points = wall(np.random.default_rng(0), 60, 3.0, 0.6)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL[:3]] * 60, count=4, step=4.0)
    run = cli("colmap", "m", "i", "-o", "out", "--observed-only", "-f", "npy")
    assert run.code == 0, run.err
    assert "view3: left out" in run.out
    assert not (tmp_path / "out" / "view3.npy").exists()
    run = cli("colmap", "m", "i", "-o", "out", "--observed-only", "-f", "npy", "--allow-empty", "--resume")
    assert run.code == 0, run.err
    assert (tmp_path / "out" / "view3.npy").exists()
    record = json.loads((tmp_path / "out" / "metadata.json").read_text())["frames"]["view3"]
    assert record["unit"] == "relative"
    assert record["pose"] is None  # arbitrary scale: exports leave it out


def test_bags_go_in_and_depth_topics_come_out(cli: Callable[..., Run], tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    from rosbags.highlevel import AnyReader

    from bags import write_bag

    write_bag(tmp_path / "a.bag", ros1=True)
    run = cli("bag", "a.bag", "-o", "out", "-f", "preview", "--write-bag", "out.bag", "--depth-out-topic", "/d/depth")
    assert run.code == 0, run.err
    with AnyReader([tmp_path / "out.bag"]) as reader:
        assert sorted((c.topic, c.msgcount) for c in reader.connections) == [("/d/camera_info", 2), ("/d/depth", 2)]
    assert np.allclose(np.load(tmp_path / "out" / "1.000000.npy"), 5.0, rtol=0.01)
    assert cli("bag", "a.bag", "-o", "out", "--write-bag", "out.bag").code == 2


def test_renamed_options_work_and_are_hidden(cli: Callable[..., Run], tmp_path: Path) -> None:
    scan, image, calib = scan_and_calibration(tmp_path)
    run = cli("lidar", scan, image, "--calib", calib, "-o", "out", "--far=3", "--footprint", "0", "--every", "1")
    assert run.code == 0, run.err
    assert "--far is now --clip-depth" in run.err
    assert np.load(tmp_path / "out" / "a.npy").max() == 3
    shown = cli("lidar", "--help").out
    assert not [option for option in RENAMED_OPTIONS if f"{option} " in shown]
