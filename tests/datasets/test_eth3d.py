"""ETH3D and its COLMAP points, on a miniature of the real sizes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from omnidc.datasets import open_dataset
from omnidc.errors import FileError
from omnidc.io.colmap_model import Camera, observed_points, project, read_model

if TYPE_CHECKING:
    from conftest import Maker

HEIGHT, WIDTH = 60, 90
LENS = [50.0, 51.0, 45.0, 30.0, 0.05, -0.02, 0.001, -0.002, 0.01, -0.003, 0.002, -0.001]


@pytest.fixture(autouse=True)
def miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    """6048x4032 pictures would take seconds to write: the same arithmetic on a hundredth of the size."""
    monkeypatch.setattr("omnidc.datasets.eth3d.CROP", (48, 64))
    monkeypatch.setattr("omnidc.datasets.eth3d.SIZE", (6, 8))


def scene(make: Maker, name: str = "kicker") -> np.ndarray:
    make.image(f"{name}/images/dslr_images/DSC_0001.JPG", HEIGHT, WIDTH)
    depth = make.depth(HEIGHT, WIDTH)
    depth[depth == 0] = np.inf
    path = make.path(f"{name}/ground_truth_depth/dslr_images/DSC_0001.JPG")
    depth.astype("<f4").tofile(path)
    return depth


def test_depth_is_the_mean_of_known_pixels_of_each_block(make: Maker) -> None:
    depth = scene(make)
    depth[np.isinf(depth)] = np.nan
    blocks = depth[6:54, 13:77].reshape(6, 8, 8, 8)
    frame = open_dataset("eth3d", make.root, part="indoor")[0]
    assert frame.name == "kicker/DSC_0001"
    np.testing.assert_allclose(frame.depth, np.nanmean(blocks, axis=(1, 3)), rtol=1e-6)
    native = open_dataset("eth3d", make.root, native=True)[0]
    np.testing.assert_array_equal(native.depth, np.nan_to_num(depth))


def test_scenes_are_told_apart_by_part_and_by_name(make: Maker) -> None:
    scene(make, "relief")
    scene(make, "relief_2")
    scene(make, "facade")
    names = [entry[0] for entry in open_dataset("eth3d", make.root, part="indoor").entries]
    assert names == ["relief", "relief_2"]
    make.text(
        "list.txt",
        "relief_2/images/dslr_images/DSC_0001.JPG relief_2/ground_truth_depth/dslr_images/DSC_0001.JPG\n"
        "facade/images/dslr_images/DSC_0001.JPG facade/ground_truth_depth/dslr_images/DSC_0001.JPG\n",
    )
    listed = open_dataset("eth3d", make.root, part="indoor", list_file=make.root / "list.txt")
    assert [frame.name for frame in listed] == ["relief_2/DSC_0001"]


def test_depth_of_another_image_is_refused(make: Maker) -> None:
    scene(make)
    path = make.root / "kicker/ground_truth_depth/dslr_images/DSC_0001.JPG"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(FileError, match=r"DSC_0001\.JPG has 21596 bytes, but a float32 map of 60x90 needs 21600"):
        open_dataset("eth3d", make.root)[0]


# World points, seen by a camera half a meter to the left: the third is behind it, the fourth unobserved.
POINTS = {7: (0.0, 0.0, 4.0), 8: (0.5, -0.3, 5.0), 9: (0.0, 0.0, -2.0), 10: (0.2, 0.2, 3.0)}


def write_text_model(make: Maker, folder: str) -> None:
    make.text(f"{folder}/cameras.txt", f"# cameras\n3 THIN_PRISM_FISHEYE 90 60 {' '.join(map(str, LENS))}\n")
    make.text(
        f"{folder}/images.txt",
        "# images\n1 1 0 0 0 0.5 0 0 3 dslr_images/DSC_0001.JPG\n1 2 7 3 4 -1 5 6 8 1 1 9\n"
        "2 1 0 0 0 0 0 0 3 dslr_images/DSC_0002.JPG\n\n",
    )
    make.text(f"{folder}/points3D.txt", "".join(f"{i} {x} {y} {z} 1 2 3 0.5 1 0\n" for i, (x, y, z) in POINTS.items()))


def write_binary_model(make: Maker, folder: str) -> None:
    camera = struct.pack("<QiiQQ12d", 1, 3, 10, 90, 60, *LENS)
    make.path(f"{folder}/cameras.bin").write_bytes(camera)
    image = struct.pack("<i7di", 1, 1, 0, 0, 0, 0.5, 0, 0, 3) + b"dslr_images/DSC_0001.JPG\0"
    image += struct.pack("<Q", 4) + b"".join(struct.pack("<ddq", 1, 2, i) for i in (7, -1, 8, 9))
    other = struct.pack("<i7di", 2, 1, 0, 0, 0, 0, 0, 0, 3) + b"dslr_images/DSC_0002.JPG\0" + struct.pack("<Q", 0)
    make.path(f"{folder}/images.bin").write_bytes(struct.pack("<Q", 2) + image + other)
    points = struct.pack("<Q", len(POINTS))
    for identity, position in POINTS.items():
        points += struct.pack("<Q3d3BdQ", identity, *position, 1, 2, 3, 0.5, 1) + struct.pack("<ii", 1, 0)
    make.path(f"{folder}/points3D.bin").write_bytes(points)


def test_text_and_binary_models_are_the_same(make: Maker) -> None:
    write_text_model(make, "text")
    write_binary_model(make, "binary")
    text, binary = read_model(make.root / "text"), read_model(make.root / "binary")
    assert text.views.keys() == binary.views.keys()
    assert len(text.views) == 2
    for model in (text, binary):
        pixels, z = observed_points(model, "dslr_images/DSC_0001.JPG")
        np.testing.assert_array_equal(z, [4, 5])
        np.testing.assert_array_equal(pixels, observed_points(text, "dslr_images/DSC_0001.JPG")[0])
        assert observed_points(model, "dslr_images/DSC_0002.JPG")[1].size == 0


def test_undistorted_thin_prism_is_equidistant_fisheye() -> None:
    camera = Camera("THIN_PRISM_FISHEYE", 90, 60, np.array([50.0, 50.0, 45.0, 30.0] + [0.0] * 8))
    angle = np.array([0.0, 0.3, 1.0])
    points = np.stack([np.sin(angle), np.zeros(3), np.cos(angle)], axis=1)
    np.testing.assert_allclose(project(camera, points), np.stack([45 + 50 * angle, np.full(3, 30.0)], axis=1))


def test_thin_prism_terms_follow_colmaps_formula() -> None:
    fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, sx, sy = LENS
    x, y, z = 0.7, -0.4, 1.3
    r = np.hypot(x / z, y / z)
    u, v = x / z * np.arctan(r) / r, y / z * np.arctan(r) / r
    q = u * u + v * v
    radial = k1 * q + k2 * q**2 + k3 * q**3 + k4 * q**4
    expected = (
        fx * (u + u * radial + 2 * p1 * u * v + p2 * (q + 2 * u * u) + sx * q) + cx,
        fy * (v + v * radial + 2 * p2 * u * v + p1 * (q + 2 * v * v) + sy * q) + cy,
    )
    camera = Camera("THIN_PRISM_FISHEYE", 90, 60, np.array(LENS))
    np.testing.assert_allclose(project(camera, np.array([[x, y, z]]))[0], expected)


def test_sparse_depth_lies_where_the_lens_projects_each_point(make: Maker) -> None:
    scene(make)
    write_text_model(make, "kicker/dslr_calibration_jpg")
    frame = open_dataset("eth3d-sfm", make.root)[0]
    assert frame.sparse is not None
    model = read_model(make.root / "kicker/dslr_calibration_jpg")
    pixels, z = observed_points(model, "dslr_images/DSC_0001.JPG")
    assert np.count_nonzero(frame.sparse) == 2
    for (x, y), depth in zip(pixels, z):
        assert frame.sparse[int((y - 6) / 8), int((x - 13) / 8)] == depth


def test_broken_models_are_one_sentence(make: Maker) -> None:
    scene(make)
    with pytest.raises(FileError, match=r"dslr_calibration_jpg is missing"):
        open_dataset("eth3d-sfm", make.root)
    write_binary_model(make, "kicker/dslr_calibration_jpg")
    path = make.root / "kicker/dslr_calibration_jpg/points3D.bin"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileError, match=r"points3D\.bin is damaged, truncated or not part of a COLMAP model"):
        open_dataset("eth3d-sfm", make.root)[0]
    path.unlink()
    with pytest.raises(FileError, match=r"points3D\.bin is missing"):
        read_model(path.parent)


def test_points_reproject_onto_their_features_in_a_real_model(shared: Path) -> None:
    folder = shared / "data/multiview/7scenes_redkitchen_rgbd/sparse/0"
    model = read_model(folder)
    assert len(model.views) > 10
    for name, view in model.views.items():
        pixels, z = observed_points(model, name)
        assert len(z) == len(view.features)
        error = np.linalg.norm(pixels - view.features, axis=1)
        assert np.median(error) < 1.0
