"""Alignment of depth edges with contours: shift, roll, motion; mirrored and swapped input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from known_room import Room, room, shifted
from omnidc.diagnose.alignment import Transform, align
from omnidc.diagnose.calibration import check_calibration, corrected_extrinsics, corrected_map
from omnidc.diagnose.edges import contours, depth_edges_between
from omnidc.diagnose.orientation import check_mirrored, check_swapped
from omnidc.diagnose.verdict import Verdict
from omnidc.frame import Unit
from omnidc.geometry.camera import backproject
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import transform

SUSPICIOUS, OK, CANNOT_TELL = Verdict.SUSPICIOUS, Verdict.OK, Verdict.CANNOT_TELL


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def center(scene: Room) -> tuple[float, float]:
    return float(scene.K[0, 2]), float(scene.K[1, 2])


def test_edges_of_a_slanted_plane_are_none() -> None:
    v, u = np.mgrid[:120, :160]
    plane = (1 / (0.02 + 0.002 * v + 0.001 * u)).astype(np.float32)
    assert len(depth_edges_between(plane, rng())) == 0
    sparse = np.where(np.random.default_rng(1).random(plane.shape) < 0.1, plane, np.float32(0))
    jumps = len(depth_edges_between(sparse, rng()))
    assert jumps < 0.1 * (sparse > 0).sum()


def test_edges_of_a_step_lie_at_the_step() -> None:
    step = np.full((50, 80), 2.0, np.float32)
    step[:, 40:] = 4.0
    edges = depth_edges_between(step, rng())
    assert len(edges) == 50
    np.testing.assert_allclose(edges.x, 39.5)
    assert (edges.axis == 0).all()
    np.testing.assert_allclose(edges.inverse_depth, 0.5)


def test_contours_of_a_flat_picture_are_zero() -> None:
    assert np.abs(contours(np.full((60, 60, 3), 128, np.uint8))).max() < 1e-3


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize(("dx", "dy"), [(4, 0), (0, -4), (-5, 3)])
def test_align_finds_a_planted_shift(share: float, dx: int, dy: int) -> None:
    scene = room(2)
    found = align(scene.image, shifted(scene.random(share), dx, dy), None, rng())
    assert found is not None
    assert math.hypot(found.best.x + dx, found.best.y + dy) <= 1.5
    assert check_calibration(found, scene.K, Unit.METERS).verdict is SUSPICIOUS


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_align_of_untouched_points_is_ok(share: float) -> None:
    scene = room(2)
    found = align(scene.image, scene.random(share), None, rng())
    assert check_calibration(found, scene.K, Unit.METERS).verdict is OK


def test_align_without_depth_edges_cannot_tell() -> None:
    flat = np.full((100, 100), 2.0, np.float32)
    found = align(np.zeros((100, 100, 3), np.uint8), flat, None, rng())
    assert found is None
    assert check_calibration(found, None, Unit.METERS).verdict is CANNOT_TELL


def test_align_with_unrelated_photograph_cannot_tell() -> None:
    noise = np.random.default_rng(3).integers(0, 255, (240, 320, 3)).astype(np.uint8)
    found = align(noise, room(2).depth, None, rng())
    assert check_calibration(found, None, Unit.METERS).verdict is not OK


def test_align_finds_a_roll() -> None:
    scene = room(4, boxes=30)
    planted = Transform(0, 0, math.radians(-1.5))
    found = align(scene.image, corrected_map(scene.depth, planted, center(scene)), center(scene), rng())
    assert found is not None
    assert math.degrees(found.best.roll) == pytest.approx(1.5, abs=0.51)


def test_align_finds_a_motion_along_the_axis() -> None:
    scene = room(5, boxes=30)
    planted = Transform(0, 0, 0, 0.25)  # points 25 cm too near
    found = align(scene.image, corrected_map(scene.depth, planted, center(scene)), center(scene), rng())
    assert found is not None
    assert found.best.motion == pytest.approx(-0.25, abs=0.1)
    assert "ms at 2.5 m/s" in check_calibration(found, scene.K, Unit.METERS, speed=2.5).evidence


def test_corrected_map_undoes_its_inverse() -> None:
    scene = room(6)
    sparse = scene.random(0.05)
    back = corrected_map(corrected_map(sparse, Transform(3, -2), None), Transform(-3, 2), None)
    inside = np.s_[5:-5, 5:-5]
    np.testing.assert_allclose(back[inside], sparse[inside], rtol=1e-6)


@pytest.mark.parametrize(
    "correction", [Transform(4, 0), Transform(0, -3), Transform(0, 0, 0.01), Transform(0, 0, 0, 0.1)]
)
def test_corrected_extrinsics_move_points_as_the_transform(correction: Transform) -> None:
    scene = room(7)
    points = backproject(scene.random(0.02), scene.K)
    moved = transform(corrected_extrinsics(np.eye(4), correction, scene.K), points)
    u = scene.K[0, 0] * moved[:, 0] / moved[:, 2] + scene.K[0, 2]
    v = scene.K[1, 1] * moved[:, 1] / moved[:, 2] + scene.K[1, 2]
    x = scene.K[0, 0] * points[:, 0] / points[:, 2] + scene.K[0, 2]
    y = scene.K[1, 1] * points[:, 1] / points[:, 2] + scene.K[1, 2]
    expected = correction.displace(x, y, 1 / points[:, 2], center(scene))
    # A turn of the camera is a shift only near the middle of the image.
    middle = (np.abs(x - 159.5) < 80) & (np.abs(y - 119.5) < 60)
    np.testing.assert_allclose(u[middle], expected[0][middle], atol=0.7)
    np.testing.assert_allclose(v[middle], expected[1][middle], atol=0.7)


def test_corrected_extrinsics_repair_a_turned_sensor() -> None:
    scene = room(2)
    wrong = corrected_extrinsics(np.eye(4), Transform(5, 0), scene.K)
    points = backproject(scene.random(0.3), scene.K)
    sparse, _ = project_to_depth(transform(wrong, points), scene.K, scene.depth.shape, occlusion_window=0)
    found = align(scene.image, sparse, center(scene), rng())
    assert found is not None
    repaired = corrected_extrinsics(wrong, found.best, scene.K)
    assert np.degrees(np.arccos((np.trace(repaired[:3, :3]) - 1) / 2)) < 0.3


def test_mirrored_photograph_is_suspicious() -> None:
    scene = room(8)
    edges = depth_edges_between(scene.random(0.2), rng())
    assert check_mirrored(contours(scene.image), edges).verdict is OK
    assert check_mirrored(contours(np.ascontiguousarray(scene.image[:, ::-1])), edges).verdict is SUSPICIOUS
    assert check_mirrored(contours(np.ascontiguousarray(scene.image[::-1])), edges).verdict is SUSPICIOUS


def test_swapped_axes_of_a_wide_image_are_suspicious() -> None:
    scene = room(8)
    sparse = scene.random(0.05)
    wrong = np.zeros_like(sparse)
    wrong[:, :240] = sparse[:, :240].T
    picture = contours(scene.image)
    assert check_swapped(picture, depth_edges_between(sparse, rng()), sparse).verdict is OK
    assert check_swapped(picture, depth_edges_between(wrong, rng()), wrong).verdict is SUSPICIOUS


def test_swapped_axes_of_a_square_image_are_suspicious() -> None:
    scene = room(8)
    sparse = scene.random(0.3)[:, :240]
    picture = contours(np.ascontiguousarray(scene.image[:, :240]))
    wrong = np.ascontiguousarray(sparse.T)
    assert check_swapped(picture, depth_edges_between(sparse, rng()), sparse).verdict is OK
    assert check_swapped(picture, depth_edges_between(wrong, rng()), wrong).verdict is SUSPICIOUS


def test_orientation_without_edges_cannot_tell() -> None:
    flat = np.full((100, 100), 2.0, np.float32)
    edges = depth_edges_between(flat, rng())
    picture = contours(np.zeros((100, 100, 3), np.uint8))
    assert check_mirrored(picture, edges).verdict is CANNOT_TELL
    assert check_swapped(picture, edges, flat).verdict is CANNOT_TELL
