"""Readers of the evaluation sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.io
from PIL import Image

from omnidc.datasets import open_dataset
from omnidc.datasets.arkitscenes import scatter
from omnidc.datasets.diode import without_edges
from omnidc.datasets.kitti_dc import subsample_lines
from omnidc.errors import ConfigError, FileError

if TYPE_CHECKING:
    from conftest import Maker


# --- iBims-1 ---


@pytest.mark.parametrize("transposed", [True, False])
def test_ibims_reads_the_matlab_struct_and_masks_only_when_asked(make: Maker, transposed: bool) -> None:
    depth, image = make.depth(), make.image("unused.png")
    K = np.array([[560.0, 0, 320], [0, 561, 240], [0, 0, 1]])
    invalid, transparent = np.ones((2, 12, 16), np.uint8)
    invalid[0, 0], transparent[3, 3] = 0, 0
    record = {
        "rgb": image, "depth": depth.astype(float), "calib": K.T if transposed else K,
        "mask_invalid": invalid, "mask_transp": transparent,
    }  # fmt: skip
    scipy.io.savemat(make.path("gt_depth/corridor_01.mat"), {"data": record})
    make.text("imagelist.txt", "corridor_01\n")
    frame = open_dataset("ibims", make.root)[0]
    np.testing.assert_array_equal(frame.image, image)
    np.testing.assert_allclose(frame.depth, depth)
    np.testing.assert_array_equal(frame.intrinsics, [[560, 0, 319], [0, 561, 239], [0, 0, 1]])
    masked = open_dataset("ibims", make.root, masks=True)[0].depth
    assert masked is not None
    assert masked[0, 0] == masked[3, 3] == 0
    assert (masked > 0).sum() >= (depth > 0).sum() - 2


# --- ARKitScenes ---


def arkit(make: Maker, video: str, folder: str = "wide", size: tuple[int, int] = (96, 128)) -> np.ndarray:
    make.image(f"Validation/{video}/{folder}/{video}_1.5.png", *size)
    make.png16(f"Validation/{video}/lowres_depth/{video}_1.5.png", make.depth(6, 8), 1000)
    make.text(f"Validation/{video}/wide_intrinsics/{video}_1.5.pincam", "128 96 100 101 60 40\n")
    return make.png16(f"Validation/{video}/highres_depth/{video}_1.5.png", make.depth(*size), 1000)


def test_arkitscenes_turns_videos_upright(make: Maker) -> None:
    up, down = arkit(make, "41"), arkit(make, "42", "color")
    arkit(make, "43")
    make.text("metadata.csv", "video_id,visit_id,fold,sky_direction\n41,1,Validation,Up\n42,1,V,Down\n43,1,V,Left\n")
    frames = open_dataset("arkitscenes", make.root, native=True, sensor=True)
    assert [frame.name for frame in frames] == ["41/highres_depth/41_1.5", "42/highres_depth/42_1.5"]
    np.testing.assert_array_equal(frames[0].depth, up)
    np.testing.assert_array_equal(frames[1].depth, down[::-1, ::-1])
    assert frames[0].intrinsics is not None
    assert frames[1].intrinsics is not None
    assert frames[1].intrinsics[:2, 2].tolist() == [127 - 60, 95 - 40]
    assert frames[0].sparse is not None
    assert np.count_nonzero(frames[0].sparse) <= 48

    small = open_dataset("arkitscenes", make.root)[0]
    assert small.image.shape == (480, 640, 3)
    assert small.intrinsics is not None
    np.testing.assert_allclose(small.intrinsics[0], [500, 0, (60 + 0.5) * 5 - 0.5])
    np.testing.assert_array_equal(small.depth, up.repeat(5, 0).repeat(5, 1))


def test_scatter_puts_each_sample_under_its_center() -> None:
    low = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    out = scatter(low, (8, 12))
    assert np.count_nonzero(out) == 6
    np.testing.assert_array_equal(out[2::4, 2::4], low)


# --- VOID ---


@pytest.mark.parametrize("prefix", ["", "void_release/", "data/void_release/"])
def test_void_finds_listed_files_with_any_prefix(make: Maker, prefix: str) -> None:
    base = "void_150/data/seq"
    make.image(f"{base}/image/1.25.png")
    sparse = make.png16(f"{base}/sparse_depth/1.25.png", make.depth(), 256)
    truth = make.png16(f"{base}/ground_truth/1.25.png", make.depth(), 256)
    make.text(f"{base}/K.txt", "500 0 320\n0 501 240\n0 0 1\n")
    for what in ("image", "sparse_depth", "ground_truth"):
        make.text(f"void_150/test_{what}.txt", f"{prefix}{base}/{what}/1.25.png\n")
    make.text("void_150/test_intrinsics.txt", f"{prefix}{base}/K.txt\n")
    frame = open_dataset("void", make.root, points=150)[0]
    assert frame.name == "seq/1.25"
    np.testing.assert_array_equal(frame.sparse, sparse)
    np.testing.assert_array_equal(frame.depth, truth)
    assert frame.intrinsics is not None
    assert frame.intrinsics[1, 1] == 501


# --- NYUv2 ---


def write_nyu_h5(make: Maker, rgb: np.ndarray, depth: np.ndarray) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(make.path("val/official/00001.h5"), "w") as file:
        file["rgb"], file["depth"] = rgb, depth


def test_nyu_h5_is_halved_and_cropped_as_everyone_does(make: Maker) -> None:
    x = np.linspace(2, 4, 640, dtype=np.float32)
    depth = np.broadcast_to(x, (480, 640)).copy()
    rgb = np.broadcast_to(np.linspace(0, 255, 480).astype(np.uint8)[None, :, None], (3, 480, 640))
    write_nyu_h5(make, rgb, depth)
    frame = open_dataset("nyuv2-h5", make.root)[0]
    assert frame.image.shape == (228, 304, 3)
    assert frame.depth is not None
    # Column c of the result covers columns 2 (c + 8) and 2 (c + 8) + 1 of the original.
    np.testing.assert_allclose(frame.depth[100], (x[0::2] + x[1::2])[8:312] / 2, rtol=1e-5)
    assert frame.intrinsics is not None
    np.testing.assert_allclose(frame.intrinsics[0], [518.857901 / 2, 0, (325.582449 + 0.5) / 2 - 0.5 - 8])
    native = open_dataset("nyuv2-h5", make.root, native=True)[0]
    np.testing.assert_array_equal(native.depth, depth)


def test_nyu_h5_with_arrays_of_an_original_frame(make: Maker, shared: Path) -> None:
    folder = shared / "data/formats/nyu_fastdepth"
    rgb, depth = np.load(folder / "rgb.npy"), np.load(folder / "depth.npy")
    write_nyu_h5(make, (255 * rgb).astype(np.uint8).transpose(2, 0, 1), depth)
    frame = open_dataset("nyuv2-h5", make.root, native=True)[0]
    np.testing.assert_array_equal(frame.depth, depth)
    assert frame.image.shape == (224, 224, 3)


def test_nyu_png_counts_only_inside_the_eigen_crop(make: Maker) -> None:
    make.image("test/kitchen_0004/rgb_0001.png", 480, 640)
    stored = make.png16("test/kitchen_0004/depth_0001.png", make.depth(480, 640, 1, 12), 1000)
    frame = open_dataset("nyuv2-png", make.root)[0]
    expected = np.zeros_like(stored)
    expected[45:471, 41:601] = np.where(stored < 10, stored, 0)[45:471, 41:601]
    np.testing.assert_array_equal(frame.depth, expected)
    make.text("filename_list_test.txt", "test/kitchen_0004/rgb_0001.png test/kitchen_0004/depth_0001.png none\n")
    full = open_dataset("nyuv2-png", make.root, eigen=False)[0]
    np.testing.assert_array_equal(full.depth, np.where(stored < 10, stored, 0))


def test_nyu_png_original_file(make: Maker, shared: Path) -> None:
    make.text("list.txt", "rgb/rgb_00000.jpg depth/sync_depth_00000.png\n")
    root = shared / "data/formats/nyu_metric3d/data/nyu_demo"
    frame = open_dataset("nyuv2-png", root, list_file=make.root / "list.txt")[0]
    assert frame.depth is not None
    assert frame.depth.max() == pytest.approx(6.625)
    assert not frame.depth[:45].any()


# --- DIODE ---


def test_edge_filter_equals_its_slow_definition() -> None:
    rng = np.random.default_rng(0)
    depth = rng.uniform(2, 2.4, (20, 24)).astype(np.float32)
    depth[5:9, 6:12] = 0
    depth[12:, 10:] += 1
    padded = np.pad(depth, 1)
    expected = depth.copy()
    for row in range(20):
        for column in range(24):
            difference = np.abs(padded[row : row + 3, column : column + 3] - depth[row, column]).max()
            if difference > 0.15 * depth[row, column]:
                expected[row, column] = 0
    assert 0 < np.count_nonzero(expected) < np.count_nonzero(depth)
    np.testing.assert_array_equal(without_edges(depth, 0.15), expected)


def test_diode_masks_crops_and_resizes(make: Maker) -> None:
    stem = "val/outdoor/scene_00022/scan_00193/00022_00193_outdoor_000_000"
    make.image(f"{stem}.png", 768, 1024)
    depth = np.full((768, 1024, 1), 5.0, np.float32)
    depth[300:400, 400:500] = 0.05
    mask = np.ones((768, 1024), np.float32)
    mask[:, :200] = 0
    make.npy(f"{stem}_depth.npy", depth)
    make.npy(f"{stem}_depth_mask.npy", mask)
    frame = open_dataset("diode", make.root, part="outdoor")[0]
    assert frame.depth is not None
    assert frame.depth.shape == (480, 640)
    # Column 200 + 1 is the first one away from unknown neighbors: (201 - 12) * 640 / 1000 = 121 in the result.
    assert not frame.depth[:, :120].any()
    assert (frame.depth[:180, 122:] == 5).all()
    assert not frame.depth[190:240, 250:310].any()
    native = open_dataset("diode", make.root, native=True)[0]
    assert native.depth is not None
    assert native.depth[350, 450] == np.float32(0.05)
    with pytest.raises(FileError, match="No frames found"):
        open_dataset("diode", make.root, part="indoor")


# --- KITTI ---


def kitti(make: Maker, drive: int = 2) -> tuple[np.ndarray, np.ndarray]:
    base = "depth_selection/val_selection_cropped"
    name = f"2011_09_26_drive_{drive:04d}_sync_{{}}_0000000005_image_02"
    make.image(f"{base}/image/{name.format('image')}.png", 352, 1216)
    sparse = np.where(make.rng.random((352, 1216)) < 0.05, make.depth(352, 1216, 4, 80), 0)
    sparse = make.png16(f"{base}/velodyne_raw/{name.format('velodyne_raw')}.png", sparse, 256)
    truth = make.png16(
        f"{base}/groundtruth_depth/{name.format('groundtruth_depth')}.png", make.depth(352, 1216, 4, 80), 256
    )
    make.text(f"{base}/intrinsics/{name.format('image')}.txt", "721.5 0 609.6 0 721.5 172.9 0 0 1")
    return sparse, truth


def test_kitti_cuts_the_sky_and_thins_lines(make: Maker) -> None:
    sparse, truth = kitti(make)
    frame = open_dataset("kitti-dc", make.root)[0]
    np.testing.assert_array_equal(frame.sparse, sparse[96:])
    np.testing.assert_array_equal(frame.depth, truth[96:])
    assert frame.intrinsics is not None
    assert frame.intrinsics[1, 2] == pytest.approx(172.9 - 96)
    whole = open_dataset("kitti-dc", make.root, crop_top=0)[0]
    np.testing.assert_array_equal(whole.depth, truth)
    counts = [np.count_nonzero(open_dataset("kitti-dc", make.root, lines=n)[0].sparse) for n in (64, 32, 16, 8)]
    ratios = np.array(counts[1:]) / counts[0]
    np.testing.assert_allclose(ratios, [1 / 2, 1 / 4, 1 / 8], atol=0.04)
    with pytest.raises(ConfigError, match="lines=7"):
        open_dataset("kitti-dc", make.root, lines=7)


def test_kitti_splits_by_the_sorted_list(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    for drive in range(5):
        make.image(f"image/2011_09_26_drive_{drive:04d}_sync_image_0000000005_image_02.png")
    monkeypatch.setattr("omnidc.datasets.kitti_dc.TEST_FRAMES", 3)
    names = [path.name[17:21] for path in open_dataset("kitti-dc", make.root, split="test").entries]
    assert names == ["0000", "0001", "0002"]
    assert len(open_dataset("kitti-dc", make.root, split="val")) == 2


def test_kitti_lines_equal_the_released_code(shared: Path) -> None:
    golden = np.load(shared / "reference/golden/patterns.npz")
    for lines in (32, 16, 8):
        ours = subsample_lines(golden["kitti_sparse_in"], golden["kitti_K"], lines)
        np.testing.assert_array_equal(ours, golden[f"kitti_lines{lines}"])


def test_thinned_lines_are_rows_of_equal_elevation() -> None:
    K = np.array([[100.0, 0, 0], [0, 100, 0], [0, 0, 1]])
    sparse = np.zeros((65, 1), np.float32)
    elevation = np.linspace(0, 0.55, 65)  # one point per step: labels 0 to 64
    rows = np.rint(100 * np.tan(elevation)).astype(int)
    sparse[rows[rows < 65], 0] = 3.0
    kept = subsample_lines(sparse, K, 8)
    assert kept[0, 0] == 3
    assert 0 < np.count_nonzero(kept) <= 9
    empty = np.zeros((4, 4), np.float32)
    np.testing.assert_array_equal(subsample_lines(empty, K, 8), empty)


# --- the appendix: radar, weather, night ---


def test_zju_uses_radar_as_input_and_the_authors_rows(make: Maker) -> None:
    make.image("data/image/0001.png", 24, 16)
    radar = make.png16("data/radar_png/0001.png", make.depth(24, 16), 256)
    laser = make.png16("data/gt/0001.png", make.depth(24, 16), 256)
    dense = make.png16("data/gt_interp/0001.png", make.depth(24, 16), 256)
    make.text("data/test.txt", "0001\n")
    frame = open_dataset("zju-4dradarcam", make.root)[0]
    np.testing.assert_array_equal(frame.sparse, radar[8:18])
    np.testing.assert_array_equal(frame.depth, laser[8:18])
    whole = open_dataset("zju-4dradarcam", make.root / "data", interpolated=True, crop=False)[0]
    np.testing.assert_array_equal(whole.depth, dense)


@pytest.mark.parametrize("nesting", ["rainy/{0}/{1}", "rainy/rainy/{0}/{1}", "rainy/{0}/{0}/{1}"])
def test_drivingstereo_unpacks_in_several_ways(make: Maker, nesting: str) -> None:
    stem = "2018-08-17-09-45-58_2018-08-17-10-11-18-951"
    make.image(nesting.format("left-image-half-size", f"{stem}.jpg"))
    truth = make.png16(nesting.format("depth-map-half-size", f"{stem}.png"), make.depth(), 256)
    frames = open_dataset("drivingstereo", make.root, size="half")
    assert frames[0].intrinsics is None
    make.text(
        "half-image-calib/2018-08-17-09-45-58.txt",
        "S_rect_101: 881 400\nP_rect_101: 1003 0 480 0 0 1004 200 0 0 0 1 0\n",
    )
    frame = frames[0]
    assert frame.name == f"rainy/{stem}"
    np.testing.assert_array_equal(frame.depth, truth)
    assert frame.intrinsics is not None
    assert frame.intrinsics[0, 2] == 480


def test_carla_night_takes_whole_numbers_as_they_are(make: Maker) -> None:
    make.image("rgb/night-0001/1-20220815_rgb.png")
    numbers = make.rng.integers(0, 80, (12, 16), dtype=np.uint8)
    for folder in ("sparse", "semi"):
        Image.fromarray(numbers).save(make.path(f"{folder}/night-0001/1-20220815_depth.png"))
    frame = open_dataset("carla-night", make.root)[0]
    np.testing.assert_array_equal(frame.depth, numbers.astype(np.float32))
    assert frame.name == "night-0001/1-20220815"
    scaled = open_dataset("carla-night", make.root, scale=10)[0]
    np.testing.assert_allclose(scaled.sparse, numbers / 10, rtol=1e-6)
    make.text("carla_test.txt", "night-0002/2-1_rgb.png\n")
    with pytest.raises(FileError, match=r"2-1_rgb\.png is missing"):
        open_dataset("carla-night", make.root)[0]
