from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from omnidc.errors import FileError
from omnidc.evaluation.baselines.interpolation import linear, nearest
from omnidc.evaluation.metrics import depth_metrics
from omnidc.evaluation.real import (
    GROUPS,
    PATTERNS,
    SCALES,
    Photograph,
    draw,
    group_of,
    read_photograph,
    real_frames,
    scaled_frames,
    shrink_depth,
)


def photograph(height: int = 90, width: int = 120, seed: int = 0, sensor: bool = False) -> Photograph:
    rng = np.random.default_rng(seed)
    depth = rng.uniform(1, 5, (height, width)).astype(np.float32)
    depth[:10] = 0
    image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    points = np.where(rng.random(depth.shape) < 0.02, depth * np.float32(1.01), 0).astype(np.float32)
    points[50, 50] = depth[50, 50]
    return Photograph(image, depth, points if sensor else None, None)


def prototype(shared: Path) -> ModuleType:
    path = shared / "prototypes" / "real_bench.py"
    spec = importlib.util.spec_from_file_location("real_bench", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("middlebury_2003_cones", list(PATTERNS)),
        ("cleargrasp_000000080", ["random-5pt", "sensor"]),
        ("vod_00549", ["random-0.7%", "sensor"]),
    ],
)
def test_draws_and_scores_equal_the_prototype(shared: Path, name: str, patterns: list[str]) -> None:
    bench = prototype(shared)
    path = shared / "data" / "real" / f"{name}.npz"
    rgb, truth, sensor, _ = bench.load(str(path))
    scene = read_photograph(path)
    assert np.array_equal(scene.image, rgb)
    assert np.array_equal(scene.depth, truth)
    compared = 0
    for pattern in patterns:
        applies = sensor is not None if pattern == "sensor" else (truth > 0).mean() >= 0.2
        rng = np.random.default_rng(zlib.crc32(f"{name}/{pattern}".encode()))
        expected = bench.pattern(pattern, rgb, truth, sensor, rng) if applies else None
        sample = draw(scene, name, pattern)
        assert (sample is None) == (expected is None), pattern
        if sample is None:
            continue
        assert np.array_equal(sample.sparse, expected), pattern
        methods = [(nearest, bench.nearest)]
        if (expected > 0).sum() < 3000:
            methods.append((linear, bench.linear))
        for ours, theirs in methods:
            scores = depth_metrics(ours(sample.image, sample.sparse), sample.gt_depth, sample.scored)
            reference = bench.score(theirs(rgb, expected, None), truth, expected, pattern, sensor is not None)
            assert scores["rel"] == pytest.approx(reference["rel"], abs=1e-6)
            assert scores["rmse_median"] == pytest.approx(reference["rmse"], abs=1e-6)
            assert scores["delta_1"] == pytest.approx(reference["d1"], abs=1e-6)
        compared += 1
    assert compared >= 1


def test_the_thirteen_patterns_are_the_prototypes(shared: Path) -> None:
    assert list(PATTERNS) == prototype(shared).PATTERNS


# Number of points and their summed depth, taken where `test_draws_and_scores_equal_the_prototype` passed.
DRAWS = {
    "random-0.7%": (67, 192.694),
    "random-0.1%": (9, 24.678),
    "random-0.03%": (5, 14.632),
    "random-5pt": (5, 10.886),
    "noise-5%": (67, 215.515),
    "noise-10%": (67, 203.657),
    "lidar-64": (6026, 18129.331),
    "lidar-16": (1448, 4328.979),
    "lidar-8": (665, 1988.933),
    "hole": (43, 126.028),
}


@pytest.mark.parametrize("pattern", DRAWS)
def test_draws_are_those_that_equalled_the_prototype(pattern: str) -> None:
    sample = draw(photograph(), "a", pattern)
    assert sample is not None
    points = sample.sparse[sample.sparse > 0].astype(np.float64)
    assert (len(points), round(points.sum(), 3)) == DRAWS[pattern]


def test_the_real_protocol_has_thirteen_patterns() -> None:
    assert len(PATTERNS) == 13
    assert set(PATTERNS) == {*DRAWS, "orb", "sift", "sensor"}  # features depend on the version of OpenCV


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p not in ("orb", "sift", "sensor")])
def test_draw_repeats_and_differs_between_images(pattern: str) -> None:
    scene = photograph()
    first, again, other = draw(scene, "a", pattern), draw(scene, "a", pattern), draw(scene, "b", pattern)
    assert first is not None
    assert again is not None
    assert other is not None
    assert np.array_equal(first.sparse, again.sparse)
    assert np.array_equal(first.sparse, other.sparse) == pattern.startswith("lidar")


def test_points_are_the_truth_except_for_the_marked_outliers() -> None:
    scene = photograph()
    for pattern in ("random-0.7%", "lidar-16", "hole"):
        sample = draw(scene, "a", pattern)
        assert sample is not None
        points = sample.sparse > 0
        assert np.array_equal(sample.sparse[points], scene.depth[points])
    sample = draw(photograph(480, 640), "a", "noise-10%")
    assert sample is not None
    assert sample.outlier_mask is not None
    points = sample.sparse > 0
    changed = points & (sample.sparse != sample.gt_depth)
    assert 0.05 < changed.sum() / points.sum() < 0.15
    # A drawn depth that happens to lie within 10 % of the truth is no outlier.
    assert np.array_equal(
        sample.outlier_mask, points & (np.abs(sample.sparse - sample.gt_depth) > 0.1 * sample.gt_depth)
    )


def test_a_hole_leaves_a_third_of_the_picture_without_points() -> None:
    sample = draw(photograph(480, 640), "a", "hole")
    assert sample is not None
    height, width = 278, 371  # 0.58 of the sides, a third of the area
    total = np.pad(np.cumsum(np.cumsum(sample.sparse > 0, axis=0), axis=1), ((1, 0), (1, 0)))
    inside = total[height:, width:] - total[:-height, width:] - total[height:, :-width] + total[:-height, :-width]
    assert inside.min() == 0


def test_sensor_pixels_are_not_scored() -> None:
    scene = photograph(sensor=True)
    sample = draw(scene, "a", "sensor")
    assert sample is not None
    assert sample.scored is not None
    assert not sample.scored[50, 50]  # handed over exactly
    assert (sample.scored & (sample.sparse > 0)).any()  # measured otherwise than the truth: scored
    assert draw(photograph(), "a", "sensor") is None


def test_patterns_are_not_drawn_from_a_sparse_truth() -> None:
    scene = photograph(sensor=True)
    scene.depth[np.random.default_rng(0).random(scene.depth.shape) < 0.9] = 0
    assert draw(scene, "a", "random-0.7%") is None
    assert draw(scene, "a", "sensor") is not None


def test_shrink_keeps_nearest_measured_surface() -> None:
    depth = np.zeros((4, 6), np.float32)
    depth[0, 0], depth[1, 1], depth[3, 5] = 5.0, 2.0, 7.0
    coarse = shrink_depth(depth, 2, 3)
    assert coarse.tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 7.0]]


def test_reading_reduces_large_pictures_with_their_camera(tmp_path: Path) -> None:
    camera = np.array([[1000, 0, 639.5], [0, 1000, 359.5], [0, 0, 1]])
    np.savez(
        tmp_path / "a.npz", rgb=np.zeros((720, 1280, 3), np.uint8), depth=np.ones((720, 1280), np.float32), K=camera
    )
    scene = read_photograph(tmp_path / "a.npz")
    assert scene.depth.shape == (360, 640)
    assert scene.intrinsics is not None
    # The middle of the picture stays the middle: pixel centers are integers.
    assert np.allclose(scene.intrinsics, [[500, 0, 319.5], [0, 500, 179.5], [0, 0, 1]])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn"])
def test_a_broken_file_is_a_sentence_with_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.npz").write_bytes(content)
    with pytest.raises(FileError, match=r"broken\.npz"):
        read_photograph(tmp_path / "broken.npz")


@pytest.mark.parametrize(
    "wrong",
    [
        {"rgb": np.zeros((8, 9, 3), np.uint8)},
        {"rgb": np.zeros((9, 9, 3), np.float32)},
        {"depth": np.ones((1, 9, 9))},
        {"sparse": np.ones((8, 9))},
        {"K": np.ones(4)},
    ],
)
def test_photograph_of_wrong_shape_is_a_sentence(tmp_path: Path, wrong: dict[str, np.ndarray]) -> None:
    right = {"rgb": np.zeros((9, 9, 3), np.uint8), "depth": np.ones((9, 9))}
    np.savez(tmp_path / "wrong.npz", **(right | wrong))
    with pytest.raises(FileError, match=r"wrong\.npz has"):
        read_photograph(tmp_path / "wrong.npz")


def test_photograph_with_nan_and_infinity_has_no_truth_there(tmp_path: Path) -> None:
    depth = np.ones((9, 9))
    depth[0, :3] = np.nan, np.inf, -np.inf
    np.savez(tmp_path / "a.npz", rgb=np.zeros((9, 9, 3), np.uint8), depth=depth)
    read = read_photograph(tmp_path / "a.npz").depth
    assert read[0, :3].tolist() == [0, 0, 0]
    assert (read.ravel()[3:] == 1).all()


def test_frames_without_truth_are_left_out_and_only_selects(tmp_path: Path) -> None:
    for name in ("nogt_x", "kitti_a", "nyu_b"):
        np.savez(tmp_path / f"{name}.npz", rgb=np.zeros((9, 9, 3), np.uint8), depth=np.ones((9, 9), np.float32))
    assert [frame.name for frame in real_frames(tmp_path)] == ["kitti_a", "nyu_b"]
    assert [frame.name for frame in real_frames(tmp_path, "nyu")] == ["nyu_b"]


def test_groups_follow_names_and_sensors() -> None:
    assert group_of("middlebury_2003_cones", "orb") == "fine structure"
    assert group_of("kittilidar_cvml_000114") == "driving"
    assert group_of("kittilidar_cvml_000114", "sensor") == "real sparse input"
    assert group_of("something_else") == "other"


def test_every_shared_photograph_has_a_group(shared: Path) -> None:
    names = [frame.name for frame in real_frames(shared / "data" / "real")]
    assert len(names) > 20
    assert [name for name in names if group_of(name) not in GROUPS] == []


def test_scaled_frames_are_the_same_points_in_other_units(tmp_path: Path) -> None:
    scene = photograph()
    np.savez(tmp_path / "a.npz", rgb=scene.image, depth=scene.depth)
    (frame,) = scaled_frames(tmp_path)
    drawer = frame.open()
    one, thousand = drawer("x1"), drawer("x1000")
    assert set(frame.patterns) == set(SCALES)
    assert one is not None
    assert thousand is not None
    assert np.allclose(thousand.sparse, 1000 * one.sparse)
    assert np.allclose(thousand.gt_depth, 1000 * one.gt_depth)
