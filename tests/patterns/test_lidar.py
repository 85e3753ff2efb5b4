from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from omnidc.errors import ConfigError
from omnidc.patterns import LidarDraw, draw_lidar, lidar, parse, scan_from_baseline, scan_pixels
from omnidc.patterns.sample import Depth, Image

STRAIGHT = LidarDraw(
    baseline_x=0, baseline_y=0, focal=100, cx=64, cy=48, pitch_min=-0.4, pitch_max=0.4, lines=64, columns=500
)


def stored_draw(values: NDArray[np.float64]) -> LidarDraw:
    """The golden file's order: sign, |baseline x|, baseline y, cx, cy, focal, pitch max, pitch min, lines, columns."""
    sign, bx, by, cx, cy, focal, pitch_max, pitch_min, lines, columns = (float(value) for value in values)
    return LidarDraw(sign * bx, by, focal, cx, cy, pitch_min, pitch_max, int(lines), int(columns))


@pytest.mark.parametrize("run", [0, 1, 2])
def test_equals_the_released_code_for_its_draws(run: int, golden: Mapping[str, NDArray[np.float64]]) -> None:
    depth = golden["scene_depth"].astype(np.float32)
    sparse = scan_from_baseline(depth, stored_draw(golden[f"velodyne{run}_draws"]), released=True)
    expected = golden[f"velodyne{run}_sparse"]
    assert np.array_equal(sparse > 0, expected > 0)
    np.testing.assert_allclose(sparse, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["lidar8_480x640", "lidar64_480x640", "lidar16_96x128"])
def test_evaluation_scan_hits_the_pixels_of_the_release(name: str, golden: Mapping[str, NDArray[np.float64]]) -> None:
    lines, height, width = (int(part) for part in name.removeprefix("lidar").replace("x", "_").split("_"))
    ours = np.unique(scan_pixels(height, width, lines), axis=1)
    np.testing.assert_array_equal(ours, np.unique(golden[f"{name}_vu"], axis=1))


def test_evaluation_scan_equals_its_formula_ray_by_ray() -> None:
    h, w, lines, columns = 30, 50, 5, 40
    expected = []
    for i in range(lines):
        for j in range(columns):
            pitch, yaw = -0.5 + i / (lines - 1), (2 * j / (columns - 1) - 1) * math.pi / 2.1
            y, x = math.sin(pitch), math.cos(pitch) * math.sin(yaw)
            z = math.sqrt(max(1 - x * x - y * y, 1e-9))
            v, u = round(h * y / z + h / 2), round(h * x / z + w / 2)
            if 0 <= v < h and 0 <= u < w:
                expected.append((v, u))
    assert list(map(tuple, scan_pixels(h, w, lines, columns).T.tolist())) == expected


def test_every_golden_scan_of_the_shared_folder(shared: Path) -> None:
    with np.load(shared / "reference" / "golden" / "patterns.npz") as file:
        for key in file.files:
            if key.startswith("lidar"):
                lines, size = key.removeprefix("lidar").removesuffix("_vu").split("_")
                height, width = (int(side) for side in size.split("x"))
                ours = np.unique(scan_pixels(height, width, int(lines)), axis=1)
                np.testing.assert_array_equal(ours, np.unique(file[key], axis=1))


def test_sensor_in_the_camera_measures_the_truth(scene: tuple[Depth, Image]) -> None:
    depth, _ = scene
    sparse = scan_from_baseline(depth, STRAIGHT)
    at = sparse > 0
    assert at.sum() > 500
    np.testing.assert_array_equal(sparse[at], depth[at])


@pytest.mark.parametrize("side", [-1, 1])
def test_mixed_pixels_lie_on_the_visible_edge(side: int) -> None:
    depth = np.full((96, 128), 4, np.float32)
    depth[:, 44:84] = 1
    # From the right of the camera one sees background behind the box's right edge, and the other way round.
    # Sparse scans: where a return of the near surface falls into the same pixel, that one counts.
    sensor = replace(STRAIGHT, lines=200, baseline_x=0.06 * side, background=True)
    scans = [scan_from_baseline(depth, replace(sensor, columns=columns)) for columns in range(40, 60)]
    columns = np.concatenate([np.nonzero((sparse > 2) & (depth == 1))[1] for sparse in scans])
    assert columns.size > 200
    assert np.all(columns > 64) if side > 0 else np.all(columns < 64)
    # f · b · (1/near − 1/far) = 100 · 0.06 · 0.75 = 4.5 pixels is how far it reaches.
    reach = columns.min() if side > 0 else columns.max()
    assert abs(reach - (84 - 4.5 if side > 0 else 44 + 4.5)) <= 1


def test_bleeding_is_flagged_and_nothing_lies_before_the_truth(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    rng = np.random.default_rng(0)
    flagged = 0
    for _ in range(20):
        sample = lidar(64)(depth, image, rng)
        at = sample.sparse > 0
        assert np.all(sample.sparse[at] >= 0.99 * depth[at])
        np.testing.assert_array_equal(sample.outlier_mask, at & (sample.sparse - depth > 0.1 * depth))
        flagged += int(sample.outlier_mask.sum())
    assert flagged > 100


@given(scale=st.sampled_from([1e-3, 0.5, 1000.0]), seed=st.integers(0, 20), released=st.booleans())
def test_scan_does_not_depend_on_the_unit(scale: float, seed: int, released: bool) -> None:
    depth = np.full((60, 80), 3, np.float32)
    depth[20:40, 20:50] = 1
    image = np.zeros((60, 80, 3), np.uint8)
    pattern = lidar(released=released)
    once = pattern(depth, image, np.random.default_rng(seed))
    scaled = pattern(depth * np.float32(scale), image, np.random.default_rng(seed))
    # A coordinate that falls exactly between two pixels may go either way.
    assert np.mean((once.sparse > 0) != (scaled.sparse > 0)) < 0.002
    assert np.count_nonzero(once.sparse) > 20
    both = (once.sparse > 0) & (scaled.sparse > 0)
    np.testing.assert_allclose(scaled.sparse[both] / scale, once.sparse[both], rtol=0.02)


def test_lines_are_those_of_the_paper_or_of_the_release() -> None:
    rng = np.random.default_rng(0)
    ours = [draw_lidar(48, 64, 1.0, rng).lines for _ in range(2000)]
    released = [draw_lidar(48, 64, 1.0, rng, released=True) for _ in range(2000)]
    assert (min(ours), max(ours)) == (4, 128)
    assert {draw.lines for draw in released} == set(range(8, 64))
    assert {draw.columns for draw in released} <= set(range(400, 1000))
    assert all(draw.roll == 0 and 0.03 <= abs(draw.baseline_x) <= 0.06 for draw in released)
    assert all(1.5 * 48 <= draw.focal <= 2 * 48 for draw in released)


def test_more_lines_measure_more_rows() -> None:
    depth = np.full((96, 128), 2, np.float32)
    image = np.zeros((96, 128, 3), np.uint8)
    counts = [(parse(f"lidar-{n}")(depth, image, np.random.default_rng(0)).sparse > 0).sum() for n in (8, 16, 64)]
    assert counts[0] < counts[1] < counts[2]
    wide = parse("lidar-8(400)")(depth, image, np.random.default_rng(0))
    assert (wide.sparse > 0).sum() > counts[0]


def test_lidar_without_baseline_has_no_wrong_point() -> None:
    depth = np.full((96, 128), 8.0, np.float32)
    depth[30:70, 40:80] = 2.0
    image = np.zeros((96, 128, 3), np.uint8)
    wrong = {"none": 0, "random": 0}
    for seed in range(10):
        for baseline in wrong:
            sample = parse(f"lidar(32, baseline={baseline})")(depth, image, np.random.default_rng(seed))
            points = sample.sparse > 0
            assert points.any()
            wrong[baseline] += int((np.abs(sample.sparse[points] - depth[points]) > 0.1).sum())
            if baseline == "none":
                assert not sample.outlier_mask.any()
    assert wrong["none"] == 0
    assert wrong["random"] > 0


def test_unknown_baseline_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="baseline"):
        parse("lidar(baseline=sideways)")


def test_tilted_lines_run_obliquely() -> None:
    """On a wall the slope of a scan line in the picture is the tangent of the tilt."""
    draws = [draw_lidar(96, 128, 1.0, np.random.default_rng(seed), 16, tilt=(0.3, 0.6)) for seed in range(50)]
    assert all(0.3 <= abs(draw.roll) <= 0.6 for draw in draws)
    assert {draw.roll > 0 for draw in draws} == {True, False}
    depth = np.full((96, 128), 5, np.float32)
    sparse = scan_from_baseline(
        depth, replace(STRAIGHT, lines=3, columns=400, roll=0.4, pitch_min=-0.01, pitch_max=0.01)
    )
    rows, columns = np.nonzero(sparse)
    assert np.polyfit(columns, rows, 1)[0] == pytest.approx(np.tan(0.4), abs=0.05)
