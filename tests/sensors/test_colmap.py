from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pycolmap = pytest.importorskip("pycolmap")

from makers import HEIGHT, WIDTH, colmap_model, photo, rig_model, wall  # noqa: E402
from omnidc.errors import FileError, InputError  # noqa: E402
from omnidc.sensors.colmap import (  # noqa: E402
    DensePoints,
    Filters,
    find_model,
    open_model,
    original_places,
    undistortion_map,
    write_pinhole_model,
)

ALL = (0, 1, 2, 3)


def test_points_land_on_the_pixel_that_colmap_means(tmp_path: Path) -> None:
    # COLMAP's principal point (32, 24) is the corner between four pixels: a point 0.4 pixels right of and below it
    # belongs to pixel (32, 24), one 0.4 pixels left and above to (31, 23).
    z = 3.0
    points = np.array([[0.4 * z / 60, 0.4 * z / 60, z], [-0.4 * z / 60, -0.4 * z / 60, z]])
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL, ALL])
    frame = open_model(tmp_path / "m", tmp_path / "i").frame("view0.png")
    assert np.argwhere(frame.sparse > 0).tolist() == [[23, 31], [24, 32]]
    assert frame.sparse is not None
    assert frame.sparse[24, 32] == pytest.approx(z)
    assert frame.intrinsics is not None
    assert frame.intrinsics[0, 2] == WIDTH / 2 - 0.5
    assert frame.unit == "scene"


def test_text_and_binary_models_give_the_same_frames(tmp_path: Path) -> None:
    points = wall(np.random.default_rng(0), 40, 3.0)
    for kind in ("text", "binary"):
        colmap_model(tmp_path / kind, tmp_path / "i", points, [ALL] * 40, text=kind == "text")
    text, binary = (open_model(tmp_path / kind, tmp_path / "i") for kind in ("text", "binary"))
    for name in text.names():
        a, b = text.frame(name), binary.frame(name)
        assert np.array_equal(a.sparse, b.sparse)
        assert np.allclose(a.pose, b.pose)
    assert np.allclose(text.frame("view2.png").pose[:3, 3], [0.2, 0, 0])


def test_filters_drop_short_tracks_and_large_errors(tmp_path: Path) -> None:
    points = wall(np.random.default_rng(1), 30, 3.0)
    seen = [ALL[:2]] * 10 + [ALL] * 20
    rec = colmap_model(tmp_path / "m", tmp_path / "i", points, seen)
    for point in rec.points3D.values():
        point.error = 99.0  # what is stored does not count
    for key in list(rec.points3D)[-5:]:
        rec.points3D[key].xyz += [0.15, 0, 0]  # 3 pixels
        rec.points3D[key].error = 0.0
    rec.write_binary(str(tmp_path / "m"))
    count = lambda filters: len(open_model(tmp_path / "m", tmp_path / "i", filters).points)  # noqa: E731
    assert count(Filters()) == 15
    assert count(Filters(min_track=2)) == 25
    assert count(Filters(min_track=2, max_error=4.0)) == 30
    with pytest.raises(InputError, match="loosen --min-track"):
        count(Filters(min_track=9))


MODELS: list[tuple[str, list[float]]] = [
    ("SIMPLE_PINHOLE", [60, 32, 24]),
    ("PINHOLE", [60, 61, 32, 24]),
    ("SIMPLE_RADIAL", [60, 32, 24, -0.1]),
    ("RADIAL", [60, 32, 24, -0.1, 0.02]),
    ("OPENCV", [60, 61, 32, 24, -0.1, 0.02, 0.002, -0.001]),
    ("FULL_OPENCV", [60, 61, 32, 24, -0.1, 0.02, 0.002, -0.001, 0.01, 0.02, 0.0, 0.0]),
    ("OPENCV_FISHEYE", [60, 61, 32, 24, -0.05, 0.01, 0.0, 0.0]),
    ("OPENCV_FISHEYE", [60, 61, 32, 24, 0.0, 0.0, 0.0, 0.0]),
    ("SIMPLE_RADIAL_FISHEYE", [60, 32, 24, -0.05]),
    ("RADIAL_FISHEYE", [60, 32, 24, -0.05, 0.01]),
    ("FOV", [60, 61, 32, 24, 0.5]),
    ("THIN_PRISM_FISHEYE", [60, 61, 32, 24, -0.05, 0.01, 0.001, 0.001, 0.0, 0.0, 0.0, 0.0]),
    ("RAD_TAN_THIN_PRISM_FISHEYE", [60, 61, 32, 24, -0.05, 0.01, *[0.0] * 4, 0.001, 0.001, *[0.0] * 4]),
    ("SIMPLE_DIVISION", [60, 32, 24, -0.1]),
    ("DIVISION", [60, 61, 32, 24, -0.1]),
    ("SIMPLE_FISHEYE", [60, 32, 24]),
    ("FISHEYE", [60, 61, 32, 24]),
    ("EUCM", [60, 61, 32, 24, 0.5, 1.0]),
]


@pytest.mark.parametrize(("model", "params"), MODELS, ids=[name for name, _ in MODELS])
def test_undistorted_photos_agree_with_the_drawn_points(tmp_path: Path, model: str, params: list[float]) -> None:
    """A bright dot where the distorted camera sees a point must end up on that point's pixel of the sparse map."""
    scale = 8  # a larger picture makes a pixel's tolerance meaningful
    n = 3 if model.startswith("SIMPLE") or model in ("RADIAL", "RADIAL_FISHEYE") else 4
    params = [value * scale for value in params[:n]] + params[n:]
    camera = pycolmap.Camera(camera_id=1, model=model, width=WIDTH * scale, height=HEIGHT * scale, params=params)
    points = np.array([[-0.3, 0.2, 1.0], [0.35, -0.25, 1.0], [0.1, 0.15, 1.0]])
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL] * 3, camera=camera, count=4, step=0.0)
    y, x = np.mgrid[: camera.height, : camera.width] + 0.5  # COLMAP's pixel centers
    dots = sum(np.exp(-((x - u) ** 2 + (y - v) ** 2) / 8) for u, v in camera.img_from_cam(points))
    picture = np.rint(255 * dots).astype(np.uint8)
    Image.fromarray(np.repeat(picture[..., None], 3, axis=2)).save(tmp_path / "i" / "view0.png")
    frame = open_model(tmp_path / "m", tmp_path / "i").frame("view0.png")
    assert frame.sparse is not None
    rows, columns = np.nonzero(frame.sparse)
    assert len(rows) == 3
    for row, column in zip(rows, columns):
        patch = frame.image[row - 6 : row + 7, column - 6 : column + 7, 0].astype(float)
        assert patch.max() > 200, "the dot is not near its point"
        middle = (np.indices(patch.shape) * patch).sum(axis=(1, 2)) / patch.sum() - 6
        assert np.abs(middle).max() < 0.6  # half a pixel is the rounding of the point


def test_hidden_point_is_dropped_unless_tracked(tmp_path: Path) -> None:
    front = np.stack(np.broadcast_arrays(*np.mgrid[-0.5:0.5:16j, -0.4:0.4:16j], 2.0), axis=-1).reshape(-1, 3)
    points = np.concatenate([front, [[0.02, 0.03, 5.0]]])
    seen = [ALL] * len(front) + [(1, 2, 3)]
    colmap_model(tmp_path / "m", tmp_path / "i", points, seen)
    model = open_model(tmp_path / "m", tmp_path / "i")
    assert model.frame("view0.png").sparse.max() == pytest.approx(2.0)
    assert model.frame("view1.png").sparse.max() == pytest.approx(5.0)
    only = open_model(tmp_path / "m", tmp_path / "i", Filters(observed_only=True, occlusion_window=0))
    assert only.frame("view0.png").sparse.max() == pytest.approx(2.0)
    assert open_model(tmp_path / "m", tmp_path / "i", Filters(occlusion_window=0)).frame("view0.png").sparse.max() > 4


def test_masks_are_undistorted_with_their_images(tmp_path: Path) -> None:
    camera = pycolmap.Camera(camera_id=1, model="SIMPLE_RADIAL", width=WIDTH, height=HEIGHT, params=[60, 32, 24, -0.1])
    points = wall(np.random.default_rng(2), 60, 3.0, 0.7)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL] * 60, camera=camera)
    black = np.full((HEIGHT, WIDTH), 255, np.uint8)
    black[: HEIGHT // 2] = 0
    (tmp_path / "masks").mkdir()
    Image.fromarray(black).save(tmp_path / "masks" / "view0.png.png")
    whole = open_model(tmp_path / "m", tmp_path / "i").frame("view0.png")
    masked = open_model(tmp_path / "m", tmp_path / "i", masks=tmp_path / "masks").frame("view0.png")
    assert masked.mask is not None
    assert masked.mask.shape == whole.image.shape[:2]
    np.testing.assert_array_equal(masked.sparse, np.where(masked.mask, whole.sparse, 0))
    assert 0 < (masked.sparse > 0).sum() < (whole.sparse > 0).sum()
    assert (
        "no mask"
        in open_model(tmp_path / "m", tmp_path / "i", masks=tmp_path / "masks").frame("view1.png").warnings[-1]
    )


def test_undistorted_model_projects_like_frames(tmp_path: Path) -> None:
    camera = pycolmap.Camera(camera_id=1, model="SIMPLE_RADIAL", width=WIDTH, height=HEIGHT, params=[60, 32, 24, -0.1])
    points = wall(np.random.default_rng(3), 50, 3.0, 0.8)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL] * 50, camera=camera)
    model = open_model(tmp_path / "m", tmp_path / "i")
    write_pinhole_model(model, tmp_path / "out", names=["view0.png", "view2.png"])
    written = pycolmap.Reconstruction(str(tmp_path / "out"))
    assert sorted(written.images[i].name for i in written.reg_image_ids()) == ["view0.png", "view2.png"]
    frame = model.frame("view2.png")
    image = written.find_image_with_name("view2.png")
    assert (image.camera.height, image.camera.width) == frame.image.shape[:2]
    assert image.camera.model_name == "PINHOLE"
    drawn = {tuple(pixel) for pixel in np.argwhere(frame.sparse > 0)}
    for point in written.points3D.values():
        u, v = image.project_point(point.xyz)
        pixel = (int(np.floor(v)), int(np.floor(u)))  # COLMAP's pixel n spans n .. n + 1
        assert pixel in drawn or not (0 <= pixel[0] < frame.height and 0 <= pixel[1] < frame.width)
    written.update_point_3d_errors()
    assert written.compute_mean_reprojection_error() < 0.01  # keypoints moved along


def test_photos_of_a_pinhole_are_taken_as_they_are(tmp_path: Path) -> None:
    colmap_model(tmp_path / "m", tmp_path / "i", wall(np.random.default_rng(0), 5, 3.0), [ALL] * 5)
    frame = open_model(tmp_path / "m", tmp_path / "i").frame("view1.png")
    assert np.array_equal(frame.image, np.asarray(Image.open(tmp_path / "i" / "view1.png")))


def broken(kind: str, tmp_path: Path) -> Any:
    model, images = tmp_path / "m", tmp_path / "i"
    points = np.zeros((0, 3)) if kind == "no points" else wall(np.random.default_rng(0), 5, 3.0)
    camera = None
    if kind == "spherical":
        camera = pycolmap.Camera(camera_id=1, model="EQUIRECTANGULAR", width=64, height=32, params=[64, 32])
    colmap_model(
        model, images, points, [ALL] * len(points), camera, text=kind in ("unknown camera", "cut", "outside", "twins")
    )
    if kind == "names":
        (images / "view2.png").rename(images / "other.png")
    if kind == "unknown camera":
        text = (model / "cameras.txt").read_text().replace("PINHOLE", "MAGIC_LENS")
        (model / "cameras.txt").write_text(text)
    if kind in ("outside", "twins"):
        text = (model / "images.txt").read_text()
        (model / "images.txt").write_text(text.replace("view2.png", "../x.png" if kind == "outside" else "view1.jpg"))
    if kind == "size":
        photo(images / "view0.png", (32, 24))
    if kind == "cut":
        (model / "images.txt").write_text("1 0 0\n")
    return open_model(model, images).frame("view0.png")


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("no points", InputError, "holds no 3D points"),
        ("names", InputError, r"1 of the model's 4 images are not in .*view2.png"),
        ("unknown camera", InputError, "MAGIC_LENS"),
        ("spherical", InputError, "EQUIRECTANGULAR"),
        ("outside", InputError, r"outside its folder \(../x.png\)"),
        ("twins", InputError, "differ only in their suffix"),
        ("size", InputError, "32x24 but the model's camera is 64x48"),
        ("cut", FileError, "damaged, truncated"),
    ],
)
def test_bad_models_are_refused_in_a_sentence(tmp_path: Path, kind: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        broken(kind, tmp_path)


def test_a_folder_without_a_model_says_where_one_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cameras.bin .*--run-sfm"):
        find_model(tmp_path)


def test_visibility_removes_wrong_points_of_real_scene(shared: Path) -> None:
    """7-Scenes red kitchen: points that the sensor says are hidden, by more than 10 %."""
    from omnidc.sensors.rgbd import open_recording

    data = shared / "data" / "multiview" / "7scenes_redkitchen_rgbd"
    sensor = open_recording(data, layout="7scenes")["frame-000000"].sparse
    shares = {}
    for occlusion_window in (0, None):
        frame = open_model(data, data / "images", Filters(occlusion_window=occlusion_window)).frame(
            "frame-000000.color.jpg"
        )
        assert frame.sparse is not None
        # The undistorted image is a few pixels larger; at a tolerance of 10 % the shift does not matter.
        rows, columns = np.nonzero(frame.sparse)
        y, x = np.clip(rows - 1, 0, 479), np.clip(columns - 3, 0, 639)
        known = sensor[y, x] > 0
        ratio = frame.sparse[rows, columns][known] / sensor[y, x][known]
        shares[occlusion_window] = float((ratio / np.median(ratio) > 1.1).mean())
    assert shares[None] < 0.6 * shares[0]


def test_pinhole_model_dense_points_have_tracks_and_colors(tmp_path: Path) -> None:
    points = wall(np.random.default_rng(0), 20, 3.0)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL] * 20)
    model = open_model(tmp_path / "m", tmp_path / "i")
    files = model.names()
    frame = model.frame(files[0])
    assert frame.pose is not None
    ahead = frame.pose[:3, 3] + 3.0 * frame.pose[:3, 2]
    seen = np.zeros((1, len(files)), bool)
    seen[0, :2] = True
    before = model.reconstruction.num_points3D()
    dense = DensePoints(ahead[None], np.array([[10, 20, 30]], np.uint8), seen, files)
    write_pinhole_model(model, tmp_path / "out", rename={files[0]: "frame_00000.png"}, dense=dense)
    written = pycolmap.Reconstruction(str(tmp_path / "out"))
    assert written.num_points3D() == before + 1
    added = max(written.points3D.items())[1]
    assert added.color.tolist() == [10, 20, 30]
    assert added.track.length() == 2
    image = written.find_image_with_name("frame_00000.png")
    place = next(e.point2D_idx for e in added.track.elements if e.image_id == image.image_id)
    K = image.camera.calibration_matrix()
    assert np.allclose(image.points2D[place].xy, K[:2, 2])  # straight ahead is the principal point


@pytest.mark.parametrize(
    ("model", "params"), [("OPENCV", [60, 61, 32, 24, -0.1, 0.02, 0.002, -0.001]), ("FISHEYE", [60, 61, 32, 24])]
)
def test_original_places_invert_the_undistortion(model: str, params: list[float]) -> None:
    import cv2

    camera = pycolmap.Camera(camera_id=1, model=model, width=WIDTH, height=HEIGHT, params=params)
    places = original_places(camera)
    border = cv2.BORDER_REPLICATE
    back = cv2.remap(undistortion_map(camera), places[..., 0], places[..., 1], cv2.INTER_LINEAR, borderMode=border)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    inside = np.isfinite(places).all(axis=2)
    off = np.abs(back - np.stack([columns, rows], axis=2))[inside]
    assert inside.mean() > 0.8
    assert np.quantile(off, 0.9) < 0.05
    assert off.max() < 0.5  # at the border half a pixel has no neighbor to interpolate with


def test_rig_images_have_poses_and_leave_the_model_alone(tmp_path: Path) -> None:
    points = wall(np.random.default_rng(0), 30, 3.0, reach=0.5)
    rig_model(tmp_path / "m", tmp_path / "i", points)
    model = open_model(tmp_path / "m", tmp_path / "i")
    assert model.names() == [f"cam{camera}/{frame}.png" for camera in (1, 2) for frame in range(3)]
    frame = model.frame("cam2/1.png")
    assert frame.pose is not None
    assert np.allclose(frame.pose[:3, 3], [0.3, 0, 0])  # 0.1 of the frame, 0.2 of the camera on the rig
    assert np.allclose(frame.measurements()[frame.measurements() > 0], 3.0)
    names = ["cam1/0.png", "cam2/0.png", "cam2/2.png"]
    write_pinhole_model(model, tmp_path / "out", names)
    written = pycolmap.Reconstruction(str(tmp_path / "out"))
    assert sorted(written.images[key].name for key in written.reg_image_ids()) == names
    assert np.allclose(written.find_image_with_name("cam2/2.png").cam_from_world().translation, [-0.4, 0, 0])
    assert {point.track.length() for point in written.points3D.values()} == {3}
    assert written.compute_mean_reprojection_error() < 1e-6


def test_exif_of_photos_is_not_followed_but_said(tmp_path: Path) -> None:
    points = wall(np.random.default_rng(0), 30, 3.0, reach=0.5)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL] * 30)
    pixels = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "i/view0.png", exif=exif)
    frame = open_model(tmp_path / "m", tmp_path / "i").frame("view0.png")
    assert np.array_equal(frame.image, pixels)
    assert "as stored, which COLMAP counts" in frame.pixels
    Image.fromarray(np.rot90(pixels)).save(tmp_path / "i/view0.png", exif=exif)  # the model was made of viewed pixels
    frame = open_model(tmp_path / "m", tmp_path / "i").frame("view0.png")
    assert np.array_equal(frame.image, pixels)
    assert "turned by 90° clockwise" in frame.pixels


def test_pinhole_model_centered_has_its_axis_in_the_middle(tmp_path: Path) -> None:
    camera = pycolmap.Camera(camera_id=1, model="PINHOLE", width=WIDTH, height=HEIGHT, params=[60.0, 60.0, 38.0, 21.3])
    points = wall(np.random.default_rng(0), 20, 3.0, reach=0.5)
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL] * 20, camera)
    model = open_model(tmp_path / "m", tmp_path / "i")
    write_pinhole_model(model, tmp_path / "out", centered=True)
    for camera in pycolmap.Reconstruction(str(tmp_path / "out")).cameras.values():
        assert abs(camera.params[2] - camera.width / 2) <= 0.25
        assert abs(camera.params[3] - camera.height / 2) <= 0.25


def test_point_far_behind_the_observed_surface_is_not_drawn(tmp_path: Path) -> None:
    """A road with few points: nothing near hides the point behind it, but it lies off the observed surface."""
    road = np.array([[x, y, 3.0] for x in (-1.2, 1.2) for y in (-0.9, 0.9)] * 2)
    points = np.r_[road, [[0.0, 0.0, 3.2]], [[0.1, 0.1, 5.0]]]
    colmap_model(tmp_path / "m", tmp_path / "i", points, [ALL] * 8 + [ALL[1:]] * 2)
    frame = open_model(tmp_path / "m", tmp_path / "i").frame("view0.png")
    drawn = frame.measurements()
    assert (np.isclose(drawn, 3.2)).any()
    assert not (drawn > 4).any()
    assert "1 off the surface of the observed ones" in frame.notes[0]
    every = open_model(tmp_path / "m", tmp_path / "i", Filters(occlusion_window=0)).frame("view0.png")
    assert (every.measurements() > 4).any()


SIGNALS = """
import os, signal, sys
from omnidc.sensors.colmap import import_pycolmap
heard = []
if sys.argv[1] == "own":
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
import_pycolmap()
os.kill(os.getpid(), signal.SIGTERM)
print(heard, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_pycolmap_does_not_take_the_signal_to_stop() -> None:
    """Its logging library's handler dumps the stack and may wait for ever."""
    own = subprocess.run([sys.executable, "-c", SIGNALS, "own"], capture_output=True, text=True, check=False)
    assert own.stdout == f"[{signal.SIGTERM.value}]\n", own.stderr
    plain = subprocess.run([sys.executable, "-c", SIGNALS, "plain"], capture_output=True, text=True, check=False)
    assert plain.returncode == -signal.SIGTERM
    assert plain.stderr == ""
