from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.interop.fusion import Cloud, consistent_mask, fuse, neighbors, pixel_size, voxel_downsample, write_cloud
from posed_views import SIZE, K, wall_views


def test_views_that_agree_give_their_common_surface(tmp_path: Path) -> None:
    views = wall_views(tmp_path, count=4)
    cloud = fuse(views)
    assert len(cloud.points) > 0.7 * 4 * SIZE[0] * SIZE[1]
    assert np.allclose(cloud.points[:, 2], 3.0, atol=1e-3)
    assert np.allclose(cloud.normals, [0, 0, -1], atol=1e-2)
    assert cloud.uncertainty is None


def test_fuse_stride_takes_a_subset_of_the_points(tmp_path: Path) -> None:
    views = wall_views(tmp_path, count=4)
    every, third = fuse(views), fuse(views, stride=3)
    assert len(every.points) / 12 < len(third.points) < len(every.points) / 7
    known = {tuple(point) for point in every.points.round(5).tolist()}
    assert np.mean([tuple(point) in known for point in third.points.round(5).tolist()]) > 0.99
    assert np.allclose(third.normals, [0, 0, -1], atol=1e-2)


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
    assert consistent_mask(points, depth, K, view.pose, 0.2).tolist() == expected
    assert any(expected)


def test_neighbors_look_the_same_way(tmp_path: Path) -> None:
    views = wall_views(tmp_path, count=5)
    back = views[1].pose @ np.diag([-1.0, 1.0, -1.0, 1.0])
    views[1] = replace(views[1], pose=back)
    assert neighbors(views, 0, 10) == [2, 3, 4]
    assert neighbors(views, 0, 2) == [2, 3]


def test_thinning_averages_the_points_of_a_cell(tmp_path: Path) -> None:
    cloud = fuse(wall_views(tmp_path))
    voxel = pixel_size(wall_views(tmp_path)) * 4
    small = voxel_downsample(cloud, voxel)
    assert len(small.points) < len(cloud.points) / 8
    assert np.allclose(small.points[:, 2], 3.0, atol=1e-3)
    two = Cloud(
        np.array([[0.0, 0, 0], [0.2, 0, 0], [5, 5, 5]]),
        np.array([[0, 0, 0], [100, 0, 0], [9, 9, 9]], np.uint8),
        np.tile(np.array([0, 0, 1], np.float32), (3, 1)),
        np.array([1, 3, 5], np.float32),
    )
    merged = voxel_downsample(two, 1.0)
    assert sorted(map(tuple, merged.points.round(6).tolist())) == [(0.1, 0, 0), (5, 5, 5)]
    assert sorted(merged.uncertainty.tolist()) == [2, 5]
    assert [50, 0, 0] in merged.colors.tolist()
    for voxel in (0.0, 1e-30):
        with pytest.raises(InputError, match="voxel"):
            voxel_downsample(two, voxel)


def test_ply_holds_color_normal_and_uncertainty(tmp_path: Path) -> None:
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
