from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import InputError
from omnidc.geometry.camera import backproject, scale_intrinsics
from omnidc.geometry.rasterize import (
    auto_occlusion_window,
    hidden_points,
    project_to_depth,
    register,
    resample_depth,
    resample_sparse,
    scatter_lowres,
)
from omnidc.geometry.surface import drop_flying_pixels
from omnidc.geometry.transforms import inverse, rigid

K = np.array([[50.0, 0.0, 31.5], [0.0, 48.0, 23.5], [0.0, 0.0, 1.0]])
SHAPE = (48, 64)


def scatter_slow(points: npt.NDArray[np.float64], shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """The obvious loop: nearest pixel center, nearest point."""
    out = np.zeros(shape, np.float32)
    for x, y, z in points:
        if z <= 1e-6:
            continue
        u, v = K[0, 0] * x / z + K[0, 2], K[1, 1] * y / z + K[1, 2]
        column, row = int(np.floor(u + 0.5)), int(np.floor(v + 0.5))
        if 0 <= column < shape[1] and 0 <= row < shape[0] and (out[row, column] == 0 or z < out[row, column]):
            out[row, column] = z
    return out


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 300))
def test_scatter_is_the_loop_over_points(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform([-3, -3, -1], [3, 3, 5], (n, 3))
    sparse, count = project_to_depth(points, K, SHAPE, occlusion_window=0)
    assert np.array_equal(sparse, scatter_slow(points, SHAPE))
    assert count.given == n
    assert count.drawn == (sparse > 0).sum()


def test_non_finite_and_far_off_points_are_ignored() -> None:
    points = np.array([[np.nan, 0, 1], [np.inf, 0, 1], [0, 0, np.inf], [1e300, 0, 1.0], [0, 0, 2.0]])
    sparse, count = project_to_depth(points, K, SHAPE)
    assert count.drawn == 1
    assert sparse[24, 32] == 2.0  # (31.5, 23.5) rounds up


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 200),
    occlusion_window=st.sampled_from([3, 9, 31]),
    slope=st.tuples(st.floats(-0.02, 0.02), st.floats(-0.02, 0.02)),
)
def test_a_plane_never_hides_its_own_points(
    seed: int, n: int, occlusion_window: int, slope: tuple[float, float]
) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, SHAPE[0], n), rng.integers(0, SHAPE[1], n)
    inverse_depth = 2.3 + slope[0] * columns + slope[1] * rows  # affine in the image, between 0.1 and 4.5
    assert not hidden_points(columns, rows, 1 / inverse_depth, SHAPE, occlusion_window, tolerance=1e-4).any()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), occlusion_window=st.sampled_from([1, 3, 5]))
def test_hidden_point_has_nearer_one_in_each_window(seed: int, n: int, occlusion_window: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (9, 11)
    rows, columns = rng.integers(0, shape[0], n), rng.integers(0, shape[1], n)
    depth = rng.choice([1.0, 2.0, 4.0], n)
    expected = []
    for row, column, z in zip(rows, columns, depth):
        near = depth * 1.05 < z
        always = True
        for top in range(row - occlusion_window + 1, row + 1):
            for left in range(column - occlusion_window + 1, column + 1):
                inside = (
                    (rows >= top)
                    & (rows < top + occlusion_window)
                    & (columns >= left)
                    & (columns < left + occlusion_window)
                )
                always &= bool((near & inside).any())
        expected.append(always)
    assert hidden_points(columns, rows, depth, shape, occlusion_window).tolist() == expected


def test_fence_hides_only_the_wall_behind_it() -> None:
    fence_rows, fence_columns = (grid.ravel() for grid in np.mgrid[0:48:4, 0:32:4])
    wall_rows, wall_columns = (grid.ravel() for grid in np.mgrid[2:48:4, 2:64:4])
    rows, columns = np.concatenate([fence_rows, wall_rows]), np.concatenate([fence_columns, wall_columns])
    depth = np.concatenate([np.full(len(fence_rows), 2.0), np.full(len(wall_rows), 5.0)])
    hidden = hidden_points(columns, rows, depth, SHAPE, occlusion_window=9)
    assert not hidden[: len(fence_rows)].any()
    behind = (wall_columns > 4) & (wall_columns < 24) & (wall_rows > 4) & (wall_rows < 40)
    assert hidden[len(fence_rows) :][behind].all()
    assert not hidden[len(fence_rows) :][wall_columns > 32].any()


def test_points_known_to_be_seen_are_never_hidden() -> None:
    near = np.stack(np.broadcast_arrays(*np.mgrid[-1:1:20j, -1:1:20j], 2.0), axis=-1).reshape(-1, 3)
    points = np.concatenate([near, [[0.03, 0.02, 6.0]]])
    seen = np.zeros(len(points), dtype=bool)
    assert project_to_depth(points, K, SHAPE, occlusion_window=15)[0].max() == 2.0
    seen[-1] = True
    assert project_to_depth(points, K, SHAPE, occlusion_window=15, known_visible=seen)[0].max() == 6.0


def test_occlusion_window_follows_density() -> None:
    assert auto_occlusion_window(640 * 480, 1200, 640) == 2 * 32 + 1
    assert auto_occlusion_window(640 * 480, 30, 640) == 2 * 32 + 1
    assert auto_occlusion_window(4000 * 3000, 3000, 4000) == 2 * 126 + 1
    assert auto_occlusion_window(1242 * 200, 20000, 1242) == 2 * 7 + 1
    with pytest.raises(InputError, match="occlusion window"):
        project_to_depth(np.array([[0.0, 0.0, 1.0]]), K, SHAPE, occlusion_window=-1)


def test_rigid_makes_few_digits_exact_and_inverts() -> None:
    R = cv2.Rodrigues(np.array([0.3, -0.2, 0.5]))[0]
    matrix = rigid(np.hstack([np.round(R, 4), [[1], [2], [3]]]), "it")
    assert np.abs(matrix[:3, :3] @ matrix[:3, :3].T - np.eye(3)).max() < 1e-12
    assert np.allclose(matrix[:3, :3], R, atol=1e-4)
    assert np.allclose(inverse(matrix) @ matrix, np.eye(4))


@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        (np.diag([2.0, 2.0, 2.0, 1.0]), "not a rotation"),
        (np.diag([-1.0, 1.0, 1.0, 1.0]), "mirror"),
        (np.full((4, 4), np.nan), "NaN"),
        (np.eye(3), "4x4"),
    ],
)
def test_what_is_no_rigid_transform_is_refused_in_a_sentence(matrix: npt.NDArray[np.float64], word: str) -> None:
    with pytest.raises(InputError, match=word):
        rigid(matrix, "camera_from_lidar")


def test_intrinsics_follow_a_resized_image() -> None:
    point = np.array([0.3, -0.2, 2.0])
    small = scale_intrinsics(K, 0.5, 0.25)
    u, v = (K @ point)[:2] / point[2]
    x, y = (small @ point)[:2] / point[2]
    assert x == pytest.approx((u + 0.5) * 0.5 - 0.5)
    assert y == pytest.approx((v + 0.5) * 0.25 - 0.5)


def test_registration_shifts_by_parallax() -> None:
    depth = np.full(SHAPE, 4.0, np.float32)
    depth[:, 30:] = 1.0  # a near surface on the right
    move = np.eye(4)
    move[0, 3] = -0.1  # the color camera is 0.1 to the right: things move left by f · b / z
    sparse, _ = register(depth, K, K, move, SHAPE)
    assert set(np.unique(sparse)) <= {0.0, 1.0, 4.0}
    row = sparse[24]
    assert (row[:25] == 4.0).all()  # the far wall moved by 1.25 pixels; those under the near surface are gone
    assert (row[25:59] == 1.0).all()  # the near one by 5
    assert (row[59:] == 0.0).all()  # nothing was measured there


def test_a_distorted_depth_camera_is_straightened_on_the_way() -> None:
    bend = np.array([-0.2, 0.05, 0.001, -0.002, 0.0])
    depth = np.zeros(SHAPE, np.float32)
    depth[5, 60] = depth[40, 3] = 2.0
    points = backproject(depth, K, bend)
    pixels = cv2.projectPoints(points, np.zeros(3), np.zeros(3), K, bend)[0].reshape(-1, 2)
    assert np.allclose(pixels, [[60, 5], [3, 40]], atol=1e-3)


def test_low_resolution_depth_lands_in_the_middle_of_its_cell() -> None:
    depth = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    big = scatter_lowres(depth, (30, 40))
    assert (big > 0).sum() == 12
    assert big[5, 5] == 1
    assert big[25, 35] == 12
    shrunk = scatter_lowres(depth, (1, 2))
    assert shrunk.tolist() == [[1, 3]]  # the nearest of each cell


def test_flying_pixels_go_and_surfaces_stay() -> None:
    columns = np.arange(40)
    slant = np.repeat((1 / (0.05 + 0.02 * columns))[None], 30, axis=0).astype(np.float32)  # 20 m to 1.2 m
    assert (drop_flying_pixels(slant) > 0).all()
    edge = np.where(columns < 20, 1.0, 3.0)[None].repeat(30, axis=0).astype(np.float32)
    assert (drop_flying_pixels(edge) > 0).all()
    edge[:, 20] = 2.0  # between the two
    edge[5, 5] = 1.5  # a speckle
    cleaned = drop_flying_pixels(edge)
    assert (cleaned[:, 20] == 0).all()
    assert cleaned[5, 5] == 0
    assert (cleaned[:, 30] == 3.0).all()


def test_resample_depth_keeps_edges_and_holes() -> None:
    depth = np.ones((6, 8), np.float32)
    depth[:, 4:] = 2
    depth[5, 0] = 0
    rows, columns = np.mgrid[:6, :8].astype(np.float32)
    shifted = np.stack([columns + 0.4, rows], axis=2)
    moved = resample_depth(depth, shifted)
    assert set(np.unique(moved)) == {0, 1, 2}  # no mean over the edge
    shifted[0, 0] = np.nan
    assert resample_depth(depth, shifted)[0, 0] == 0


def test_resample_depth_is_bilinear_on_a_slope() -> None:
    rows, columns = np.mgrid[:20, :30].astype(np.float32)
    depth = (5 + 0.02 * columns + 0.03 * rows).astype(np.float32)
    places = np.stack([columns + 0.3, rows - 0.2], axis=2)
    inner = np.s_[2:-2, 2:-2]
    assert np.allclose(resample_depth(depth, places)[inner], (depth + 0.02 * 0.3 - 0.03 * 0.2)[inner], atol=2e-4)


def test_move_points_moves_each_measurement_once() -> None:
    sparse = np.zeros((10, 10), np.float32)
    sparse[4, 4], sparse[8, 1] = 3, 7
    rows, columns = np.mgrid[:20, :20].astype(np.float32)
    places = np.stack([columns, rows], axis=2) / 2  # a grid twice as fine
    moved, values = resample_sparse(sparse, places, np.where(sparse > 0, sparse / 10, np.nan))
    assert (moved > 0).sum() == 2
    assert moved[8, 8] == 3
    assert moved[16, 2] == 7
    assert values[8, 8] == pytest.approx(0.3)
    assert np.isnan(values[0, 0])
