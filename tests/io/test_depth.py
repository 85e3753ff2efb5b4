from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from omnidc.deploy.live import DepthFolder
from omnidc.errors import FileError, InputError
from omnidc.geometry.stereo import Stereo
from omnidc.io.depth import CODECS, is_disparity, read_depth, write_depth
from omnidc.pipeline import make_frame
from omnidc.web import decode


@pytest.fixture
def depth() -> np.ndarray:
    values = np.random.default_rng(0).uniform(0.5, 20, (17, 23)).astype(np.float32)
    values[3, 4:9] = 0
    return values


@pytest.mark.parametrize("suffix", CODECS)
def test_every_codec_reads_back_what_it_wrote(suffix: str, depth: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / f"depth{suffix}"
    scale = write_depth(path, depth)
    again = read_depth(path)
    tolerance = 0.5 / scale + 1e-6 if CODECS[suffix].integer else 0
    np.testing.assert_allclose(again.depth, depth, rtol=0, atol=tolerance)
    assert again.depth.dtype == np.float32
    assert ((again.depth == 0) == (depth == 0)).all()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_pfm_starts_with_the_bottom_row(tmp_path: Path) -> None:
    write_depth(tmp_path / "a.pfm", np.array([[1, 2], [3, 4]], np.float32))
    assert (tmp_path / "a.pfm").read_bytes() == b"Pf\n2 2\n-1.0\n" + np.array([3, 4, 1, 2], "<f4").tobytes()


def test_big_endian_pfm_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.pfm").write_bytes(b"Pf\n2 1\n1.0\n" + np.array([3, 4], ">f4").tobytes())
    assert read_depth(tmp_path / "a.pfm").depth.tolist() == [[3, 4]]


def _png16(path: Path, values: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(np.uint16)).save(path)
    return path


@pytest.mark.parametrize(
    ("name", "shape", "value", "scale"),
    [
        ("depth.png", (48, 64), 2654, 1000),
        ("kitti/depth/0005.png", (48, 64), 3544, 256),
        ("vkitti/depth/0005.png", (48, 64), 3544, 100),
        ("rgbd_dataset_freiburg1/depth/1.png", (48, 64), 3544, 5000),
        ("0005.png", (375, 1242), 3544, 256),
        ("0005.png", (48, 64), 14787, 5000),
        ("autumn/1.png", (48, 64), 2000, 1000),
        ("avoid/1.png", (48, 64), 2000, 1000),
    ],
)
def test_scale_of_16_bit_png_is_guessed_with_a_reason(
    name: str, shape: tuple[int, int], value: int, scale: float, tmp_path: Path
) -> None:
    file = read_depth(_png16(tmp_path / name, np.full(shape, value)))
    assert file.scale == scale
    assert f"{scale:g}" in file.note or "millimeters" in file.note
    assert "--depth-scale" in file.note
    assert file.depth[0, 0] == pytest.approx(value / scale)


def test_a_given_scale_wins_over_every_guess(tmp_path: Path) -> None:
    assert read_depth(_png16(tmp_path / "kitti.png", np.full((4, 4), 500)), scale=50).depth[0, 0] == 10


@pytest.mark.parametrize("text", ["9" * 400, "1e999", "0", "-5", "nan", "0.0000001"])
def test_impossible_scale_in_a_png_is_not_followed(text: str, tmp_path: Path) -> None:
    about = PngImagePlugin.PngInfo()
    about.add_text("depth-scale", text)
    Image.fromarray(np.full((4, 4), 2000, np.uint16)).save(tmp_path / "a.png", pnginfo=about)
    assert read_depth(tmp_path / "a.png").depth[0, 0] == 2  # millimeters, as without the text


def test_our_own_png_names_its_scale(tmp_path: Path) -> None:
    write_depth(tmp_path / "kitti_depth.png", np.full((4, 4), 40, np.float32), scale=1000)
    assert read_depth(tmp_path / "kitti_depth.png").depth[0, 0] == 40


def test_nan_and_infinity_become_no_measurement_and_are_counted(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1, np.nan], [np.inf, -np.inf]]))
    file = read_depth(tmp_path / "a.npy")
    assert file.depth.tolist() == [[1, 0], [0, 0]]
    assert file.invalid == 3


@pytest.mark.parametrize("shape", [(1, 5, 6), (5, 6, 1), (1, 1, 5, 6)])
def test_axes_of_length_one_are_dropped(shape: tuple[int, ...], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(shape))
    assert read_depth(tmp_path / "a.npy").depth.shape == (5, 6)


def test_npz_takes_the_key_depth_or_the_only_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", rgb=np.zeros((2, 2, 3)), depth=np.ones((2, 2)))
    np.savez(tmp_path / "b.npz", whatever=np.ones((2, 2)))
    np.savez(tmp_path / "c.npz", x=np.ones((2, 2)), y=np.ones((2, 2)))
    assert read_depth(tmp_path / "a.npz").depth.sum() == 4
    assert read_depth(tmp_path / "b.npz").depth.sum() == 4
    with pytest.raises(FileError, match="x, y"):
        read_depth(tmp_path / "c.npz")


def test_negative_depth_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1.0, -1.0]]))
    with pytest.raises(InputError, match="negative"):
        read_depth(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("picture", "message"),
    [(np.zeros((4, 4, 3), np.uint8), "color"), (np.zeros((4, 4), np.uint8), "8-bit")],
)
@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_a_picture_given_as_depth_is_an_error(picture: np.ndarray, message: str, suffix: str, tmp_path: Path) -> None:
    Image.fromarray(picture).save(tmp_path / f"a{suffix}")
    with pytest.raises(InputError, match=message):
        read_depth(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("array", [np.zeros((4, 4, 3)), np.zeros(4), np.zeros((4, 4), np.uint8), np.zeros((0, 4))])
def test_an_array_that_is_no_map_is_an_error(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError):
        read_depth(tmp_path / "a.npy")


def test_a_pickle_is_refused_not_run(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", {"depth": 1}, allow_pickle=True)
    with pytest.raises(FileError, match="Python objects"):
        read_depth(tmp_path / "a.npy")


@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_truncated_files_are_refused(suffix: str, kept: float, depth: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / f"depth{suffix}"
    write_depth(path, depth)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(FileError, match="truncated"):
        read_depth(path)


@pytest.mark.parametrize("name", ["missing.npy", "", "photo.jpg"])
def test_what_is_not_a_depth_file_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(FileError, match=str(tmp_path)):
        read_depth(tmp_path / name)


def test_png_takes_the_finest_scale_that_fits(tmp_path: Path) -> None:
    assert write_depth(tmp_path / "a.png", np.full((2, 2), 60, np.float32)) == 1000
    assert write_depth(tmp_path / "a.png", np.full((2, 2), 200, np.float32)) == 256
    assert write_depth(tmp_path / "a.png", np.full((2, 2), 600, np.float32)) == 100


def test_png_depth_beyond_16_bits_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="16 bits"):
        write_depth(tmp_path / "a.png", np.full((2, 2), 80, np.float32), scale=1000)
    assert list(tmp_path.iterdir()) == []


def test_png_tiny_depth_is_not_written_as_zero(tmp_path: Path) -> None:
    write_depth(tmp_path / "a.png", np.array([[1e-6, 0, np.nan]], np.float32))
    assert (read_depth(tmp_path / "a.png").depth > 0).tolist() == [[True, False, False]]


def test_exr_gray_rgb_is_read_and_color_refused(tmp_path: Path) -> None:
    import OpenEXR

    header = {"type": OpenEXR.scanlineimage}
    plane = np.arange(12, dtype=np.float32).reshape(3, 4)
    OpenEXR.File(header, {"RGB": np.stack([plane] * 3, -1)}).write(str(tmp_path / "a.exr"))
    assert (read_depth(tmp_path / "a.exr").depth == plane).all()
    OpenEXR.File(header, {"RGB": np.stack([plane, plane + 1, plane], -1)}).write(str(tmp_path / "b.exr"))
    with pytest.raises(InputError, match="color"):
        read_depth(tmp_path / "b.exr")


def test_files_of_real_sensors_get_the_right_scale(shared: Path) -> None:
    formats = shared / "data" / "formats"
    for name, scale in {
        "iphone_promptda/assets/example_images/arkit_depth.png": 1000,
        "7scenes_tsdf/data/frame-000000.depth.png": 1000,
        "kitti_metric3d/data/kitti_demo/depth/0000000005.png": 256,
        "tum_fr1_rpy/depth/1305031231.197771.png": 5000,
        "cleargrasp/data/sample_dataset/real-val/d435/000000080-opaque-depth-img.exr": 1,
    }.items():
        file = read_depth(formats / name)
        assert file.scale == scale, name
        assert 0.1 < np.median(file.depth[file.depth > 0]) < 30, name


@pytest.mark.parametrize("name", ["000001_10_disp.png", "disp_occ_0/1.png", "disparity/1.png", "disp1.png", "Disp.png"])
def test_disparity_is_never_taken_for_depth(name: str, tmp_path: Path) -> None:
    path = _png16(tmp_path / name, np.full((4, 4), 512))
    with pytest.raises(InputError, match="--disparity with --baseline and --focal"):
        make_frame(np.zeros((4, 4, 3), np.uint8), path, depth_scale=256)
    frame = make_frame(np.zeros((4, 4, 3), np.uint8), path, disparity=Stereo(0.5, 700))
    assert frame.measurements()[0, 0] == pytest.approx(0.5 * 700 / 2)
    assert frame.unit == "m"


def test_disparity_is_refused_by_web_and_live(tmp_path: Path) -> None:
    path = _png16(tmp_path / "frames" / "1_disp.png", np.full((4, 4), 512))
    with pytest.raises(InputError, match="disparities, going by its name: send depth"):
        decode.depth(path, 10**6, None)
    with pytest.raises(InputError, match="convert it to depth"):
        DepthFolder(path.parent, False, None).at(0)


@pytest.mark.parametrize("name", ["display/1.png", "dispatch.png", "depth/1.png"])
def test_disparity_other_names_are_depth(name: str) -> None:
    assert not is_disparity(Path(name))


def test_disparity_zero_and_infinity_are_no_measurement() -> None:
    disparity = np.array([[0, np.inf, np.nan, -3, 10, 1]], np.float32)
    depth = Stereo(0.1, 100, offset=-5).depth(disparity)
    assert depth.tolist() == [[0, 0, 0, 0, 2, 0]]  # 1 - 5 < 0: behind the cameras


@pytest.mark.parametrize(("baseline", "focal"), [(0, 700), (0.5, -1), (float("nan"), 700)])
def test_stereo_bad_numbers_are_refused(baseline: float, focal: float) -> None:
    with pytest.raises(InputError, match="positive number"):
        Stereo(baseline, focal)


def test_sun_rgbd_bits_are_rotated_back(tmp_path: Path) -> None:
    depth = np.linspace(600, 9900, 48 * 64).astype(np.uint16).reshape(48, 64)  # mm, beyond 8.192 m too
    file = read_depth(_png16(tmp_path / "a.png", (depth << 3) | (depth >> 13)))
    assert np.allclose(file.depth, depth / 1000, atol=1e-4)
    assert "SUN RGB-D" in file.note
    plain = read_depth(_png16(tmp_path / "b.png", depth))
    assert "millimeters like depth cameras" in plain.note


def test_pgm_of_nyu_and_png_of_sun_are_meters(shared: Path) -> None:
    folder = shared / "data/formats/open3d_testdata/src/Test/TestData/RGBD/other_formats"
    nyu, sun = read_depth(folder / "NYU_depth.pgm"), read_depth(folder / "SUN_depth.png")
    for file in (nyu, sun):
        assert file.unit == "m"
        assert 1 < np.median(file.depth[file.depth > 0]) < 5
        assert file.depth.max() < 10
