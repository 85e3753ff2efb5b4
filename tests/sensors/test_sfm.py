from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

pycolmap = pytest.importorskip("pycolmap")

from makers import photo, pose_along_x  # noqa: E402
from omnidc.errors import ConfigError, InputError  # noqa: E402
from omnidc.io.calibration import Calibration  # noqa: E402
from omnidc.sensors.colmap import open_model  # noqa: E402
from omnidc.sensors.known_views import calibrated_camera, read_known_views  # noqa: E402
from omnidc.sensors.sfm import SfmOptions, run_sfm  # noqa: E402

SIZE = (192, 256)  # height, width
FOCAL, WALL_DEPTH = 220.0, 2.0


def wall_photos(folder: Path, count: int = 3, step: float = 0.15) -> None:
    """Photographs of one textured wall, `step` apart along x."""
    rng = np.random.default_rng(0)
    texture = cv2.GaussianBlur(rng.integers(0, 256, (400, 700, 3)).astype(np.uint8), (0, 0), 2.0)
    texture = cv2.normalize(texture, None, 0, 255, cv2.NORM_MINMAX)
    folder.mkdir(parents=True)
    for k in range(count):
        shift = round(FOCAL * k * step / WALL_DEPTH)
        cv2.imwrite(str(folder / f"{k}.png"), texture[50 : 50 + SIZE[0], 50 + shift : 50 + shift + SIZE[1]])


def transforms(path: Path, poses: list[npt.NDArray[np.float64]], **camera: float) -> Path:
    """A transforms.json as nerfstudio writes it: OpenGL axes."""
    flip = np.diag([1.0, -1.0, -1.0, 1.0])
    frames = [{"file_path": f"images/{k}.png", "transform_matrix": (p @ flip).tolist()} for k, p in enumerate(poses)]
    table = {"fl_x": FOCAL, "fl_y": FOCAL, "cx": 128.0, "cy": 96.0, "w": 256, "h": 192, **camera, "frames": frames}
    path.write_text(json.dumps(table))
    return path


def test_run_sfm_known_poses_keeps_poses_and_triangulates(tmp_path: Path) -> None:
    wall_photos(tmp_path / "images")
    poses = [pose_along_x(x) for x in (0.0, 0.15, 0.30)]
    given = transforms(tmp_path / "transforms.json", poses)
    said: list[str] = []
    made = run_sfm(tmp_path / "images", tmp_path / "w", said.append, options=SfmOptions(poses=given))
    assert any(text.startswith("placed 3 of 3 photographs") for text in said)
    model = open_model(made, tmp_path / "images")
    for name, pose in zip(model.names(), poses):
        frame = model.frame(name)
        assert frame.pose is not None
        assert np.allclose(frame.pose, pose, atol=1e-9)
        depth = frame.measurements()
        assert (depth > 0).sum() > 30
        assert np.median(depth[depth > 0]) == pytest.approx(WALL_DEPTH, rel=0.03)
    # The poses of the model that was just made are known poses too.
    again = read_known_views(made, tmp_path / "images")
    assert np.allclose(again["1.png"].camera_from_world[:3, 3], [-0.15, 0, 0])


def test_run_sfm_few_poses_counts_photographs(tmp_path: Path) -> None:
    wall_photos(tmp_path / "images", count=5)
    given = transforms(tmp_path / "transforms.json", [pose_along_x(x) for x in (0.0, 0.15)])
    said: list[str] = []
    run_sfm(tmp_path / "images", tmp_path / "w", said.append, options=SfmOptions(poses=given))
    assert any(text.startswith("placed 2 of 5 photographs") for text in said)
    assert said[-1].startswith("warning: 3 photographs could not be placed")


def test_run_sfm_one_photo_is_refused(tmp_path: Path) -> None:
    photo(tmp_path / "i" / "0.png")
    with pytest.raises(InputError, match="at least two photos"):
        run_sfm(tmp_path / "i", tmp_path / "w")


def test_run_sfm_poses_of_other_photos_is_refused(tmp_path: Path) -> None:
    wall_photos(tmp_path / "images")
    given = transforms(tmp_path / "transforms.json", [np.eye(4)] * 3)
    given.write_text(given.read_text().replace("images/", "images/shot_"))
    with pytest.raises(InputError, match="only 0 are named so"):
        run_sfm(tmp_path / "images", tmp_path / "w", options=SfmOptions(poses=given))
    given = transforms(tmp_path / "transforms.json", [np.eye(4)] * 3, w=512, h=384)
    with pytest.raises(InputError, match="256x192 but its camera"):
        run_sfm(tmp_path / "images", tmp_path / "w", options=SfmOptions(poses=given))


def test_read_known_views_of_other_tools(tmp_path: Path) -> None:
    photo(tmp_path / "images" / "0.png")
    given = transforms(tmp_path / "transforms.json", [np.eye(4)], k1=0.1)
    given.write_text(given.read_text().replace(".png", ""))  # instant-ngp
    (view,) = read_known_views(tmp_path, tmp_path / "images").values()
    assert view.camera.model == "OPENCV"
    assert view.camera.params.tolist() == [FOCAL, FOCAL, 128.0, 96.0, 0.1, 0.0, 0.0, 0.0]
    given.write_text(json.dumps({"frames": []}))
    with pytest.raises(InputError, match="no list of frames"):
        read_known_views(given, tmp_path)
    with pytest.raises(ValueError, match="no poses at"):
        read_known_views(tmp_path / "nothing", tmp_path)


@pytest.mark.parametrize(("count", "model"), [(0, "PINHOLE"), (4, "OPENCV"), (5, "FULL_OPENCV"), (8, "FULL_OPENCV")])
def test_calibrated_camera_projects_as_opencv_does(count: int, model: str) -> None:
    lens = np.array([0.1, -0.05, 0.002, -0.001, 0.02, 0.03, -0.02, 0.01])[:count]
    K = np.array([[200.0, 0.0, 120.0], [0.0, 210.0, 90.0], [0.0, 0.0, 1.0]])
    camera = calibrated_camera(Calibration(K, distortion=lens if count else None), SIZE)
    assert camera.model == model
    colmap = pycolmap.Camera(model=model, width=256, height=192, params=camera.params)
    point = np.array([0.3, -0.2, 1.0])
    expected = cv2.projectPoints(point[None], np.zeros(3), np.zeros(3), K, lens if count else None)[0].ravel()
    assert np.allclose(colmap.img_from_cam(point), expected + 0.5)  # COLMAP counts from the pixel's corner


def test_calibrated_camera_unknown_to_colmap_is_refused() -> None:
    with pytest.raises(InputError, match="no camera model with OpenCV's 14"):
        calibrated_camera(Calibration(np.eye(3), distortion=np.full(14, 0.1)), SIZE)


def test_run_sfm_other_options_refuse_an_earlier_model(tmp_path: Path) -> None:
    wall_photos(tmp_path / "images", count=2)
    given = transforms(tmp_path / "transforms.json", [pose_along_x(0.0), pose_along_x(0.15)])
    options = SfmOptions(poses=given)
    made = run_sfm(tmp_path / "images", tmp_path / "w", options=options)
    assert run_sfm(tmp_path / "images", tmp_path / "w", options=options) == made
    with pytest.raises(ConfigError, match="made with other poses"):
        run_sfm(tmp_path / "images", tmp_path / "w")
    with pytest.raises(ConfigError, match="not both"):
        SfmOptions(calibration=Calibration(np.eye(3)), poses=given)


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("calibrated", [False, True])
def test_run_sfm_options_reach_colmap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sequential: bool, calibrated: bool
) -> None:
    """With stand-ins for COLMAP's long steps: which matching runs, which camera, and what is said."""
    calls: list[str] = []

    def note(name: str) -> Any:
        return lambda *args, **keywords: calls.append(name)

    def extract(*args: Any, reader_options: Any, **keywords: Any) -> None:
        calls.append(f"extract {reader_options.camera_params}")

    def mapping(database: str, images: str, out: str, settings: Any) -> dict[int, Any]:
        assert settings.ba_refine_focal_length is not calibrated
        return {0: small}

    small = SimpleNamespace(num_reg_images=lambda: 2, num_points3D=lambda: 9, write_binary=note("write"))
    monkeypatch.setattr(pycolmap, "extract_features", extract)
    for name in ("match_exhaustive", "match_sequential"):
        monkeypatch.setattr(pycolmap, name, note(name))
    monkeypatch.setattr(pycolmap, "incremental_mapping", mapping)
    for k in range(5):
        photo(tmp_path / "i" / f"{k}.png")
    K = np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]])
    options = SfmOptions(sequential, Calibration(K) if calibrated else None)
    said: list[str] = []
    run_sfm(tmp_path / "i", tmp_path / "w", said.append, options=options)
    camera = "60.0,60.0,32.0,24.0" if calibrated else ""
    assert calls == [f"extract {camera}", "match_sequential" if sequential else "match_exhaustive", "write"]
    assert "placed 2 of 5 photographs, 9 points" in said
    assert said[-1].startswith("warning: 3 photographs could not be placed")


# depth, left, top, width, height of textured cards that face the camera; the first is the background
CARDS = (
    (4.0, -4.0, -2.5, 8.0, 5.0),
    (3.0, -1.1, -0.9, 0.9, 1.2),
    (2.5, 0.1, -0.7, 0.8, 1.0),
    (2.0, -0.5, 0.1, 0.7, 0.5),
)


def card_photos(folder: Path, positions: list[float]) -> None:
    """Photographs of `CARDS`, taken at these positions along x."""
    rng = np.random.default_rng(0)
    textures = []
    for depth, _, _, width, height in CARDS:
        noise = rng.integers(0, 256, (round(240 * height / depth), round(240 * width / depth), 3)).astype(np.uint8)
        textures.append(cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 1.5), None, 0, 255, cv2.NORM_MINMAX))
    folder.mkdir(parents=True)
    for k, x in enumerate(positions):
        picture = np.zeros((*SIZE, 3), np.uint8)
        for (depth, left, top, width, height), texture in zip(CARDS, textures):
            zoom = FOCAL / depth  # pixels a meter
            matrix = np.array([
                [zoom * width / texture.shape[1], 0, zoom * (left - x) + 127.5],
                [0, zoom * height / texture.shape[0], zoom * top + 95.5],
            ])  # fmt: skip
            cv2.warpAffine(texture, matrix, SIZE[::-1], picture, cv2.INTER_LINEAR, cv2.BORDER_TRANSPARENT)
        cv2.imwrite(str(folder / f"{k}.png"), picture)


def test_run_sfm_rendered_views_recovers_poses_and_depth(tmp_path: Path) -> None:
    """The whole of COLMAP's mapping, up to its unknown scale: that of the first photograph's background."""
    positions = [-0.5, -0.25, 0.0, 0.25, 0.5]
    card_photos(tmp_path / "images", positions)
    K = np.array([[FOCAL, 0.0, 127.5], [0.0, FOCAL, 95.5], [0.0, 0.0, 1.0]])
    heard: list[str] = []
    made = run_sfm(tmp_path / "images", tmp_path / "w", heard.append, options=SfmOptions(calibration=Calibration(K)))
    assert any(text.startswith("placed 5 of 5 photographs") for text in heard)
    model = open_model(made, tmp_path / "images")
    frames = [model.frame(name) for name in model.names()]
    depths = [frame.measurements() for frame in frames]
    scale = CARDS[0][0] / float(np.median(depths[0][depths[0] > 0]))
    for position, frame, depth in zip(positions, frames, depths):
        assert frame.pose is not None
        away = scale * np.linalg.norm(frame.pose[:3, 3] - frames[0].pose[:3, 3])
        assert away == pytest.approx(position - positions[0], abs=0.01)
        values = scale * depth[depth > 0]
        assert len(values) > 500
        nearest_card = np.min([np.abs(values - card[0]) for card in CARDS], axis=0)
        assert np.quantile(nearest_card, 0.9) < 0.05


@pytest.mark.slow
def test_run_sfm_places_photos_that_overlap(shared: Path, tmp_path: Path) -> None:
    images = shared / "data" / "multiview" / "bundler_kermit" / "images"
    names = [f"kermit{i:03d}.jpg" for i in range(5)]
    model = run_sfm(images, tmp_path, names=names)
    opened = open_model(model, images)
    assert len(opened.names()) >= 4
    assert (opened.frame(opened.names()[0]).sparse > 0).sum() > 50
    heard: list[str] = []
    assert run_sfm(images, tmp_path, heard.append, names) == model
    assert re.search(r"earlier run .*placed \d+ of \d+ photographs", heard[0])
