"""The registry, what all readers share, pairs, and the `omnidc data` commands."""

from __future__ import annotations

import inspect
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from omnidc.cli import app
from omnidc.datasets import DATASETS, open_dataset
from omnidc.datasets.check import picture
from omnidc.datasets.decode import read_depth, read_h5, read_image, valid
from omnidc.datasets.registry import _check_type
from omnidc.datasets.resample import block_mean, center, crop_camera, resize_camera, resize_image, resize_nearest
from omnidc.errors import ConfigError, FileError, InputError, MissingExtraError
from omnidc.frame import Frame

if TYPE_CHECKING:
    from conftest import Maker

runner = CliRunner()


def two_pairs(make: Maker) -> None:
    for stem in ("a", "sub/b"):
        make.image(f"rgb/{stem}.png")
        make.png16(f"depth/{stem}.png", make.depth(), 1000)
    make.png16("sparse/a.png", make.depth(), 1000)
    make.image("rgb/lonely.png")
    make.text("K.txt", "100 0 8\n0 100 6\n0 0 1\n")


# --- the registry ---


@pytest.mark.parametrize("name", DATASETS)
def test_registry_readers_document_their_layout(name: str) -> None:
    dataset = DATASETS[name]
    reader = dataset.reader
    assert dataset.split in ("train", "test", "own")
    documentation = sys.modules[reader.__module__].__doc__ or ""
    assert "ROOT/" in documentation
    assert name in ("pairs",) or "Checked:" in documentation


def test_every_dataset_has_a_row_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/datasets.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert rows.keys() == DATASETS.keys()
    for name, dataset in DATASETS.items():
        assert name == "pairs" or f"| {dataset.license} |" in rows[name]


@pytest.mark.parametrize("name", DATASETS)
def test_a_missing_or_empty_folder_is_one_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"/nowhere is missing"):
        open_dataset(name, tmp_path / "nowhere")
    with pytest.raises(FileError) as error:
        open_dataset(name, tmp_path)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_names_and_options_are_told_what_exists(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no dataset 'kiti': choose one of hypersim"):
        open_dataset("kiti", tmp_path)
    with pytest.raises(ConfigError, match="no option 'line': its options are lines, split, crop_top"):
        open_dataset("kitti-dc", tmp_path, line=16)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("kitti-dc", "lines", "many"),
        ("kitti-dc", "lines", True),
        ("kitti-dc", "crop_top", -1),
        ("eth3d", "native", "yes"),
        ("uniformat", "scale", "x"),
        ("uniformat", "scale", 0.0),
        ("pairs", "scale", float("nan")),
        ("irs", "parts", 3),
        ("diode", "part", "underwater"),
    ],
)
def test_impossible_values_are_one_sentence(make: Maker, name: str, option: str, value: object) -> None:
    make.image("image/a.png")
    make.npy("000000.npy", make.depth())
    make.text("filelist/home_all.txt", "a b c d\n")
    with pytest.raises(ConfigError, match=f"^{option}=.* is not possible: "):
        open_dataset(name, make.root, **{option: value})


@pytest.mark.parametrize("name", DATASETS)
def test_options_have_checkable_types_and_defaults(name: str) -> None:
    dataset = DATASETS[name]
    for option in dataset.options:
        default = inspect.signature(dataset.reader).parameters[option].default
        _check_type(option, default, dataset.annotation(option))
        with pytest.raises(ConfigError, match=option):
            _check_type(option, object(), dataset.annotation(option))


def test_frames_are_lazy_sliceable_and_can_be_sent_to_workers(make: Maker) -> None:
    two_pairs(make)
    frames = open_dataset("pairs", make.root, scale=1000)
    (make.root / "depth/sub/b.png").write_bytes(b"broken")
    assert len(frames) == 2
    assert [frame.name for frame in frames[:1]] == ["a"]
    copy = pickle.loads(pickle.dumps(frames))
    np.testing.assert_array_equal(copy[0].depth, frames[0].depth)
    with pytest.raises(FileError, match=r"b\.png"):
        frames[-1]
    with pytest.raises(IndexError):
        frames[2]


# --- decoding ---


@pytest.mark.parametrize(
    ("name", "per_unit", "low", "high"),
    [
        ("flyingthings_raft3d/disp1.pfm", 1, -2000, 2000),
        ("kitti_stereo_paddle/000001_10_disp.png", 256, 0, 125),
        ("kitti_metric3d/data/kitti_demo/depth/0000000005.png", 256, 0, 85),
        ("7scenes_tsdf/data/frame-000000.depth.png", 1000, 0, 65.6),
        ("bop_sam6d/SAM-6D/Data/Example/depth.png", 1000, 0, 65.6),
        ("iphone_promptda/assets/example_images/arkit_depth.png", 1000, 0, 3.6),
        ("tum_fr1_rpy/depth/1305031231.197771.png", 5000, 0, 13.2),
        ("omnidc_demo/demo_sparse_depth.npy", 1, 0, 100),
        ("cleargrasp/data/sample_dataset/real-val/d435/000000080-opaque-depth-img.exr", 1, 0, 10),
    ],
)
def test_original_depth_files_are_decoded(shared: Path, name: str, per_unit: float, low: float, high: float) -> None:
    depth = read_depth(shared / "data/formats" / name, per_unit)
    known = depth[np.isfinite(depth)]
    assert depth.ndim == 2
    assert np.count_nonzero(known) > 100
    assert low <= known.min() <= known.max() <= high


def test_valid_keeps_only_finite_depths_inside_the_range() -> None:
    depth = np.array([[np.nan, np.inf, -np.inf, -1], [0, 0.5, 1, 10]], np.float32)
    np.testing.assert_array_equal(valid(depth, low=0.5, high=10), [[0, 0, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_array_equal(valid(depth), [[0, 0, 0, 0], [0, 0.5, 1, 10]])


@pytest.mark.parametrize("suffix", ["png", "npy", "pfm", "exr", "npz"])
def test_broken_depth_files_are_one_sentence_with_the_path(make: Maker, suffix: str) -> None:
    path = make.path(f"a.{suffix}")
    with pytest.raises(FileError, match=rf"a\.{suffix} is missing"):
        read_depth(path)
    for content in (b"", b"nonsense", b"Pf\n9 9\n-1.0\nshort", b"\x89PNG\r\n\x1a\n"):
        path.write_bytes(content)
        with pytest.raises(FileError, match=rf"a\.{suffix}") as error:
            read_depth(path)
        assert "\n" not in str(error.value)


def test_broken_pictures_and_wrong_shapes_are_one_sentence(make: Maker) -> None:
    make.image("good.png", 40, 40)
    good = (make.root / "good.png").read_bytes()
    (make.root / "cut.png").write_bytes(good[: len(good) // 2])
    for name in ("cut.png", "absent.png"):
        with pytest.raises(FileError, match=name):
            read_image(make.root / name)
    make.npy("cube.npy", np.zeros((2, 3, 4), np.float32))
    with pytest.raises(FileError, match=r"\[2, 3, 4\]"):
        read_depth(make.root / "cube.npy")
    with pytest.raises(InputError, match="color picture"):
        read_depth(make.root / "good.png")
    make.text("a.txt", "1 2 3")
    with pytest.raises(FileError, match="not a depth map we can read"):
        read_depth(make.root / "a.txt")


def test_missing_h5py_names_the_extra(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    make.text("a.h5", "")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"omnidc\[data\]"):
        read_h5(make.root / "a.h5", "rgb")


# --- crops and sizes ---


@pytest.mark.parametrize("old", [(1440, 1920), (750, 1000), (96, 128)])
def test_nearest_resize_takes_the_pixel_under_each_center(old: tuple[int, int]) -> None:
    depth = np.arange(old[0] * old[1], dtype=np.float32).reshape(old)
    rows = ((np.arange(480) + 0.5) * old[0] / 480).astype(int)
    columns = ((np.arange(640) + 0.5) * old[1] / 640).astype(int)
    np.testing.assert_array_equal(resize_nearest(depth, (480, 640)), depth[np.ix_(rows, columns)])


@given(st.floats(50, 900), st.floats(0, 100), st.floats(0, 80), st.integers(2, 9))
def test_camera_follows_crop_and_resize(f: float, cx: float, cy: float, factor: int) -> None:
    K = np.array([[f, 0, cx], [0, 1.1 * f, cy], [0, 0, 1.0]])
    point = np.array([0.3, -0.2, 2.0])
    u, v = (K @ point)[:2] / 2.0
    small = resize_camera(crop_camera(K, 3, 5), (10 * factor, 20 * factor), (10, 20))
    expected = [(u - 5 + 0.5) / factor - 0.5, (v - 3 + 0.5) / factor - 0.5]
    np.testing.assert_allclose((small @ point)[:2] / 2.0, expected, rtol=1e-9, atol=1e-9)


def test_block_mean_ignores_unknown_pixels() -> None:
    depth = np.array([[1, 0, 0, 0], [3, 2, 0, 0]], np.float32)
    np.testing.assert_array_equal(block_mean(depth, 2), [[2, 0]])


def test_pictures_smaller_than_the_crop_are_refused() -> None:
    assert center((240, 320), (228, 304)) == (6, 8)
    with pytest.raises(InputError, match="native=True"):
        center((100, 100), (228, 304))


def test_resizing_to_the_same_size_changes_nothing() -> None:
    image = np.random.default_rng(0).integers(0, 256, (7, 9, 3), dtype=np.uint8)
    np.testing.assert_array_equal(resize_image(image, (7, 9)), image)


# --- pairs ---


def test_pairs_match_by_name_and_guess_the_scale_aloud(make: Maker) -> None:
    two_pairs(make)
    frames = open_dataset("pairs", make.root)
    assert [frame.name for frame in frames] == ["a", "sub/b"]
    assert frames[0].sparse is not None
    assert frames[1].sparse is None
    assert frames[0].intrinsics is not None
    assert "millimeters" in frames[0].unit_reason
    assert frames[0].unit == "m"
    np.testing.assert_allclose(open_dataset("pairs", make.root, scale=500)[0].depth, 2 * frames[0].depth, rtol=1e-6)


def test_pairs_original_files(shared: Path) -> None:
    kitti = shared / "data/formats/kitti_metric3d/data/kitti_demo"
    frame = open_dataset("pairs", kitti, scale=256)[0]
    assert frame.depth is not None
    assert frame.depth.max() == pytest.approx(21733 / 256)
    scenes = open_dataset("pairs", shared / "data/formats/open3d_testdata/src/Test/TestData/RGBD", scale=1000)
    assert scenes[0].name == "00000"


def test_pairs_of_different_size_are_told(make: Maker) -> None:
    make.image("image/a.png", 10, 10)
    make.npy("depth/a.npy", make.depth())
    with pytest.raises(InputError, match="12x16 but the image is 10x10"):
        open_dataset("pairs", make.root)[0]


# --- the commands ---


def test_list_prints_every_dataset() -> None:
    result = runner.invoke(app, ["data", "list"])
    assert result.exit_code == 0
    for name, dataset in DATASETS.items():
        assert any(line.startswith(name) and dataset.license in line for line in result.output.splitlines())


def test_check_prints_statistics_and_draws_three_panels(make: Maker) -> None:
    two_pairs(make)
    out = make.root / "look.png"
    result = runner.invoke(app, ["data", "check", "pairs", str(make.root), "-o", str(out), "-O", "scale=1000"])
    assert result.exit_code == 0, result.output
    assert "2 frames" in result.output
    frame = open_dataset("pairs", make.root, scale=1000)[0]
    assert frame.depth is not None
    known = frame.depth[frame.depth > 0]
    assert f"{known.size} of {frame.depth.size} pixels" in result.output
    assert f"median {np.median(known):.3f}" in result.output
    drawn = np.asarray(Image.open(out))
    assert drawn.shape == (12, 48, 3)
    np.testing.assert_array_equal(drawn[:, :16], frame.image)
    np.testing.assert_array_equal((drawn[:, 32:] > 0).any(axis=2), frame.depth > 0)


def test_check_all_finds_the_broken_frame(make: Maker) -> None:
    two_pairs(make)
    (make.root / "depth/sub/b.png").write_bytes(b"broken")
    result = runner.invoke(app, ["data", "check", "pairs", str(make.root), "--all", "-O", "scale=1000"])
    assert result.exit_code == 2
    assert "1 of 2 frames are good" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pairs", "-O", "scale"], "NAME=VALUE"),
        (["pairs", "-O", "color=red"], "no option 'color'"),
        (["pairs", "-i", "9"], "no frame 9"),
        (["nothing"], "no dataset 'nothing'"),
        (["pairs", "-o", "a.bmpx"], "end in .png or .jpg"),
    ],
)
def test_check_refuses_in_one_sentence(make: Maker, arguments: list[str], message: str) -> None:
    two_pairs(make)
    result = runner.invoke(app, ["data", "check", arguments[0], str(make.root), *arguments[1:]])
    assert isinstance(result.exception, (ConfigError, FileError))
    assert message in str(result.exception)


def test_picture_of_a_frame_without_depth_is_the_photograph() -> None:
    image = np.full((4, 5, 3), 9, np.uint8)
    np.testing.assert_array_equal(picture(Frame(image)), image)
    assert picture(Frame(image, depth=np.zeros((4, 5), np.float32))).shape == (4, 10, 3)
