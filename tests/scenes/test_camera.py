from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.scenes import camera
from omnidc.scenes.camera import choose_view, draw_view, fault, intrinsics, look_at, score, wide_size
from omnidc.scenes.description import Rng, Scene, Viewpoint

numbers = st.floats(-5, 5)


@given(st.tuples(numbers, numbers, numbers), st.tuples(numbers, numbers, numbers), st.floats(-1, 1))
def test_a_pose_is_a_rotation_that_looks_at_its_target(
    eye: tuple[float, ...], offset: tuple[float, ...], roll: float
) -> None:
    if np.linalg.norm(offset) < 1e-3:
        return
    pose = look_at(eye, np.add(eye, offset), roll)
    rotation = pose[:3, :3]
    assert np.allclose(rotation.T @ rotation, np.eye(3), atol=1e-9)
    assert np.linalg.det(rotation) == pytest.approx(1)
    assert np.allclose(rotation[:, 2], np.array(offset) / np.linalg.norm(offset))


def test_level_cameras_have_down_below() -> None:
    assert look_at((0, 0, 1), (0, 5, 1))[:3, 1] == pytest.approx([0, 0, -1])
    assert look_at((0, 0, 1), (0, 5, 1))[:3, 0] == pytest.approx([1, 0, 0])


@pytest.mark.parametrize("size", [(320, 240), (240, 320)])
def test_lens_angle_spans_the_larger_side(size: tuple[int, int]) -> None:
    matrix = intrinsics(*size, 80)
    assert np.degrees(2 * np.arctan(max(size) / 2 / matrix[0, 0])) == pytest.approx(80)
    assert matrix[0, 2] == (size[0] - 1) / 2
    assert matrix[1, 2] == (size[1] - 1) / 2


def test_a_cut_shows_the_same_rays_in_more_pixels() -> None:
    whole, part, corner = intrinsics(320, 240, 70), 0.5, np.array([0.3, 0.1])
    cut = camera.cut(whole, (320, 240), part, corner)
    edges = np.array([[-0.5, 319.5], [-0.5, 239.5], [1, 1]])  # outer corners of the picture
    inside = corner[:, None] * [[320], [240]] + (edges[:2] + 0.5) * part - 0.5
    assert np.linalg.solve(cut, edges)[:2] == pytest.approx(np.linalg.solve(whole, np.vstack([inside, [1, 1]]))[:2])


def test_half_of_the_views_are_cut_out_of_a_larger_picture() -> None:
    rng = np.random.default_rng(0)
    views = [draw_view(rng, Viewpoint((0, 0, 1), (0, 1, 1)), 320, 240) for _ in range(200)]
    focal, center = np.array([view.intrinsics[0, (0, 2)] for view in views]).T
    whole = center == 159.5
    assert 70 < whole.sum() < 130
    assert 1.5 < np.median(focal[~whole]) / np.median(focal[whole]) < 2.5


def test_driving_views_have_the_shape_of_kitti() -> None:
    width, height = wide_size(320, 240)
    assert width / height == pytest.approx(1242 / 375, rel=0.02)
    assert width * height == pytest.approx(320 * 240, rel=0.05)
    rng = np.random.default_rng(0)
    for lens, share, sizes in (
        ("driving", 1.0, {(width, height)}),
        ("driving", 0.5, {(width, height), (320, 240)}),
        ("driving", 0.0, {(320, 240)}),
        ("indoor", 1.0, {(320, 240)}),
    ):
        spot = Viewpoint((0, 0, 1), (0, 1, 1), lens=lens)
        views = [draw_view(rng, spot, 320, 240, share) for _ in range(40)]
        assert {(view.width, view.height) for view in views} == sizes


def test_views_too_near_too_empty_or_too_flat_are_refused() -> None:
    good = np.linspace(1, 4, 48)
    assert score(good, ["a"] * 48, 0.3) is not None
    assert score(np.append(good[1:], 0.2), ["a"] * 48, 0.3) is None
    assert score(np.where(np.arange(48) < 40, np.inf, good), ["a"] * 48, 0.3) is None
    assert score(np.linspace(2, 2.05, 48), ["a"] * 48, 0.3) is None


def test_more_things_and_more_depth_score_higher() -> None:
    depths = np.linspace(1, 4, 48)
    few, many = score(depths, ["a"] * 48, 0.3), score(depths, list(range(48)), 0.3)
    deep = score(np.linspace(1, 40, 48), ["a"] * 48, 0.3)
    assert few is not None
    assert many is not None
    assert deep is not None
    assert many > few
    assert deep > few


def test_what_depth_range_is_worth_may_be_turned_round() -> None:
    shallow, deep = np.linspace(1, 1.3, 48), np.linspace(1, 40, 48)
    for taste in (-2.0, 2.0):
        near, far = score(shallow, ["a"] * 48, 0.3, taste), score(deep, ["a"] * 48, 0.3, taste)
        assert near is not None
        assert far is not None
        assert (far > near) == (taste > 0)


def wall_at(distance: float) -> camera.RayCast:
    """A world that is one wall at y = distance, seen from anywhere before it; behind the camera there is nothing."""

    def cast(eye: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, Sequence[Hashable]]:
        with np.errstate(divide="ignore"):
            t = (distance - eye[1]) / directions[:, 1]
        t = np.where(t > 0, t, np.inf)
        return t, ["wall" if np.isfinite(one) else None for one in t]

    return cast


def looking_along_y(angle: float) -> Scene:
    def draw(rng: Rng) -> Viewpoint:
        return Viewpoint((0, 0, 1), (np.sin(angle), np.cos(angle), 1))

    return Scene("test", viewpoints=draw, nearest=0.3)


def test_view_choice_refuses_wall_at_the_lens() -> None:
    rng = np.random.default_rng(0)
    assert choose_view(rng, looking_along_y(0.6), wall_at(2.0), 64, 48) is not None
    assert choose_view(rng, looking_along_y(0.6), wall_at(0.2), 64, 48) is None
    assert choose_view(rng, looking_along_y(0.0), wall_at(2.0), 64, 48) is None  # no depth variation at all
    assert choose_view(rng, looking_along_y(np.pi), wall_at(2.0), 64, 48) is None  # nothing there


def test_test_rays_hit_the_depth_of_a_facing_wall() -> None:
    view = draw_view(np.random.default_rng(0), Viewpoint((0, 0, 1), (0, 1, 1)), 64, 48)
    rays = camera.test_rays(view)
    lengths = np.linalg.norm(rays, axis=1)
    distances, _ = wall_at(3.0)(view.pose[:3, 3], rays / lengths[:, None])
    assert distances / lengths == pytest.approx(np.full(48, 3.0))


def test_faults_are_named() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (48, 64, 3)).astype(np.uint8)
    depth = np.tile(np.linspace(1, 4, 64, dtype=np.float32), (48, 1))
    assert fault(image, depth) is None
    assert fault(image, np.where(depth > 1.5, 0, depth)) == "mostly sky"
    assert fault(image, np.full_like(depth, 2.0)) == "flat"
    assert fault(image, np.where(depth < 3, depth * 0.05, depth)) == "a wall before the lens"
    assert fault(image, np.where(np.indices(depth.shape).sum(0) % 3 == 0, depth * 2, depth)) == "too many depth edges"
    assert fault((image * 0.02).astype(np.uint8), depth) == "too dark"
