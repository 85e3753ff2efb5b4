"""Files that were cut, at every byte: refused, or read as they were before the cut."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import OmnidcError
from omnidc.io.colmap_model import read_model
from omnidc.io.depth import read_depth
from omnidc.io.pointcloud import read_cloud
from targets import TARGETS


@pytest.mark.parametrize(
    "name",
    ["cloud-ascii.pcd", "cloud-binary.pcd", "cloud-compressed.pcd", "cloud-binary.ply", "cloud-ascii.ply", "cloud.las"],
)
def test_cut_cloud_has_all_points_or_is_refused(tmp_path: Path, name: str) -> None:
    if name == "cloud.las":
        pytest.importorskip("laspy")  # writes the example
    [path] = TARGETS[name].make(tmp_path)
    data, expected = path.read_bytes(), read_cloud(path)
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        try:
            points = read_cloud(path)
        except OmnidcError:
            continue
        # A cut inside the last number of a text file leaves a shorter number.
        np.testing.assert_array_equal(points[:-1], expected[:-1])
        assert len(points) == len(expected)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".png", ".exr", ".pfm", ".tiff", ".pgm"])
def test_cut_depth_map_is_whole_or_refused(tmp_path: Path, suffix: str) -> None:
    [path] = TARGETS[f"depth{suffix}"].make(tmp_path)
    data, expected = path.read_bytes(), read_depth(path).depth
    for size in range(1, len(data), 5):
        path.write_bytes(data[:size])
        try:
            depth = read_depth(path).depth
        except OmnidcError:
            continue
        np.testing.assert_array_equal(depth, expected)  # the end of a PNG holds no pixels


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin", "points3D.bin"])
def test_cut_colmap_model_is_refused(tmp_path: Path, file: str) -> None:
    pytest.importorskip("pycolmap")  # writes the example
    TARGETS["model-binary"].make(tmp_path)
    path = tmp_path / "model" / file
    data = path.read_bytes()
    read_model(tmp_path / "model")
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(OmnidcError):
            read_model(tmp_path / "model")
    path.write_bytes(data + b"\0")
    with pytest.raises(OmnidcError):
        read_model(tmp_path / "model")


def test_colmap_model_that_aborts_pycolmap_is_refused(tmp_path: Path) -> None:
    """Files that our reader does not read (rigs, frames) are tried in a child process."""
    pytest.importorskip("pycolmap")
    from omnidc.sensors.colmap import open_model

    TARGETS["colmap-binary"].make(tmp_path)
    open_model(tmp_path / "model", tmp_path / "images")
    for file in ("rigs.bin", "frames.bin"):
        path = tmp_path / "model" / file
        shutil.copy(path, tmp_path / file)
        path.write_bytes(path.read_bytes()[:20])
        with pytest.raises(OmnidcError, match="model"):
            open_model(tmp_path / "model", tmp_path / "images")
        shutil.copy(tmp_path / file, path)


def test_photograph_of_108_megapixels_is_refused_quickly(tmp_path: Path) -> None:
    from PIL import Image

    from omnidc.io.images import read_image

    Image.new("L", (12_000, 9000)).save(tmp_path / "large.png", compress_level=1)
    with pytest.raises(OmnidcError, match=r"12000x9000 pixels, more than the 67\.1 megapixels"):
        read_image(tmp_path / "large.png")


@pytest.mark.parametrize("depth", [1e-40, 1e-45])
def test_subnormal_depths_are_no_measurements(depth: float) -> None:
    from omnidc.pipeline import make_frame

    sparse = np.full((8, 8), 2.0, np.float32)
    sparse[0, 0] = depth
    frame = make_frame(np.zeros((8, 8, 3), np.uint8), sparse)
    assert frame.measurements()[0, 0] == 0
    assert "1 NaN, infinite or subnormal" in frame.warnings[0]


def test_depths_of_many_magnitudes_are_refused() -> None:
    from omnidc.pipeline import make_frame

    sparse = np.zeros((8, 8), np.float32)
    sparse[3, 3:5] = (1e-6, 1e6)
    with pytest.raises(OmnidcError, match=r"span a factor of 1e\+12"):
        make_frame(np.zeros((8, 8, 3), np.uint8), sparse)
