from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from posed_views import SIZE, K, wall_views

from omnidc.errors import FileError, InputError
from omnidc.io.images import write_picture
from omnidc.outputs.fuse import Cloud, agreement, fuse, neighbours, pixel_size, thin, write_cloud
from omnidc.outputs.overlay import error_map, point_overlay, sheet, uncertainty_overlay
from omnidc.outputs.turntable import render, turntable, write_turntable


def test_views_that_agree_give_their_common_surface(tmp_path: Path) -> None:
    views = wall_views(tmp_path, count=4)
    cloud = fuse(views)
    assert len(cloud.points) > 0.7 * 4 * SIZE[0] * SIZE[1]
    assert np.allclose(cloud.points[:, 2], 3.0, atol=1e-3)
    assert np.allclose(cloud.normals, [0, 0, -1], atol=1e-2)
    assert cloud.uncertainty is None


def test_what_only_one_view_says_is_dropped(tmp_path: Path) -> None:
    views = wall_views(tmp_path, count=4)
    wrong = views[0].depth()
    wrong[10:30, 20:50] *= 0.8  # a hallucinated bump
    views[0] = replace(views[0], depth=lambda: wrong)
    cloud = fuse(views)
    assert np.allclose(cloud.points[:, 2], 3.0, atol=0.1)
    assert len(fuse(views, tolerance=0.3).points) > len(cloud.points)
    with pytest.raises(InputError, match="at least 3 posed frames"):
        fuse(views[:2])


def test_agreement_is_the_definition_point_by_point(tmp_path: Path) -> None:
    view = wall_views(tmp_path)[2]
    rng = np.random.default_rng(0)
    points = rng.uniform([-3, -3, -1], [3, 3, 4], (400, 3))
    depth, matrix = view.depth(), np.linalg.inv(view.pose)
    expected = []
    for point in points:
        x, y, z = matrix[:3, :3] @ point + matrix[:3, 3]
        u, v = K[0, 0] * x / z + K[0, 2], K[1, 1] * y / z + K[1, 2]
        column, row = int(np.floor(u + 0.5)), int(np.floor(v + 0.5))
        good = z > 0 and 0 <= column < SIZE[1] and 0 <= row < SIZE[0]
        expected.append(bool(good and abs(z - depth[row, column]) <= 0.2 * depth[row, column]))
    assert agreement(points, depth, K, view.pose, 0.2).tolist() == expected
    assert any(expected)


def test_neighbours_look_the_same_way(tmp_path: Path) -> None:
    views = wall_views(tmp_path, count=5)
    back = views[1].pose @ np.diag([-1.0, 1.0, -1.0, 1.0])
    views[1] = replace(views[1], pose=back)
    assert neighbours(views, 0, 10) == [2, 3, 4]
    assert neighbours(views, 0, 2) == [2, 3]


def test_thinning_averages_the_points_of_a_cell(tmp_path: Path) -> None:
    cloud = fuse(wall_views(tmp_path))
    voxel = pixel_size(wall_views(tmp_path)) * 4
    small = thin(cloud, voxel)
    assert len(small.points) < len(cloud.points) / 8
    assert np.allclose(small.points[:, 2], 3.0, atol=1e-3)
    two = Cloud(
        np.array([[0.0, 0, 0], [0.2, 0, 0], [5, 5, 5]]),
        np.array([[0, 0, 0], [100, 0, 0], [9, 9, 9]], np.uint8),
        np.tile(np.array([0, 0, 1], np.float32), (3, 1)),
        np.array([1, 3, 5], np.float32),
    )
    merged = thin(two, 1.0)
    assert sorted(map(tuple, merged.points.round(6).tolist())) == [(0.1, 0, 0), (5, 5, 5)]
    assert sorted(merged.uncertainty.tolist()) == [2, 5]
    assert [50, 0, 0] in merged.colors.tolist()
    for voxel in (0.0, 1e-30):
        with pytest.raises(InputError, match="voxel"):
            thin(two, voxel)


def test_ply_holds_colour_normal_and_uncertainty(tmp_path: Path) -> None:
    plyfile = pytest.importorskip("plyfile")
    cloud = fuse(wall_views(tmp_path))
    cloud.uncertainty = np.linspace(0, 1, len(cloud.points), dtype=np.float32)
    write_cloud(tmp_path / "c.ply", cloud)
    vertex = plyfile.PlyData.read(str(tmp_path / "c.ply"))["vertex"]
    assert np.allclose(np.stack([vertex[a] for a in "xyz"], 1), cloud.points, atol=1e-5)
    assert np.allclose(vertex["nz"], cloud.normals[:, 2])
    assert np.array_equal(vertex["red"], cloud.colors[:, 0])
    assert np.array_equal(vertex["uncertainty"], cloud.uncertainty)


# --- pictures -----------------------------------------------------------------------------------------------------


def test_the_nearest_point_is_drawn() -> None:
    points = np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 1.0], [0.0, 0.0, 3.0], [0.0, 0.0, -1.0]])
    colors = np.array([[1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0]], np.uint8)
    picture = render(points, colors, (21, 21), 10.0, dot=1)
    assert picture[10, 10].tolist() == [2, 0, 0]
    assert (picture.reshape(-1, 3) == 255).all(axis=1).sum() == 21 * 21 - 1


def test_turntables_turn_and_are_written_as_sheet_or_animation(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform([-1, -1, 3], [1, 1, 4], (2000, 3))
    colors = rng.integers(0, 200, (2000, 3)).astype(np.uint8)
    for swing in (30.0, None):
        pictures = turntable(points, colors, steps=6, swing=swing, size=(60, 80))
        assert len(pictures) == 6
        assert all((picture < 255).any() for picture in pictures)
        assert not np.array_equal(pictures[0], pictures[1])
    write_turntable(tmp_path / "t.png", pictures)
    assert Image.open(tmp_path / "t.png").size == (3 * 80, 2 * 60)
    write_turntable(tmp_path / "t.gif", pictures)
    with Image.open(tmp_path / "t.gif") as animation:
        assert animation.n_frames == 6
    with pytest.raises(FileError, match="turntable"):
        write_turntable(tmp_path / "t.mp4", pictures)
    with pytest.raises(InputError, match="no points"):
        turntable(points[:0], colors[:0])


def test_overlays_mark_what_they_should(tmp_path: Path) -> None:
    image = np.full((40, 60, 3), 120, np.uint8)
    sparse = np.zeros((40, 60), np.float32)
    sparse[10, 10], sparse[30, 50] = 1.0, 9.0
    drawn = point_overlay(image, sparse)
    near, far = drawn[10, 10].astype(int), drawn[30, 50].astype(int)
    assert near[0] > near[2]  # red
    assert far[2] > far[0]  # blue
    depth = np.full((40, 60), 2.0, np.float32)
    doubt = np.full_like(depth, 1e-6)
    doubt[:, 30:] = 1.0
    tinted = uncertainty_overlay(image, depth, doubt).astype(int)
    assert abs(tinted[5, 5, 0] - tinted[5, 5, 2]) <= 1
    assert tinted[5, 50, 0] > tinted[5, 50, 2] + 50
    truth = depth.copy()
    truth[:10], truth[10:20], truth[20:30] = 0.0, 3.0, 1.0
    errors = error_map(depth, truth).astype(int)
    assert errors[5, 5].tolist() == [0, 0, 0]
    assert errors[15, 5, 2] > errors[15, 5, 0]  # too near: blue
    assert errors[25, 5, 0] > errors[25, 5, 2]  # too far: red
    assert errors[35, 5].tolist() == [255, 255, 255]
    grid = sheet([image, image[:20, :30], image])
    assert grid.shape == (80, 120, 3)
    write_picture(tmp_path / "a.jpg", grid)
    with pytest.raises(FileError, match="suffix of a picture"):
        write_picture(tmp_path / "a.xyz", grid)
