"""Checks of unit, scale, camera, ray depth, outliers, returns and sky."""

from __future__ import annotations

import numpy as np
import pytest

from known_room import room
from omnidc.diagnose.camera import check_camera, check_ray
from omnidc.diagnose.planes import Points, fit_plane
from omnidc.diagnose.points import check_outliers, check_returns, check_scan_returns, check_sky
from omnidc.diagnose.scale import check_scale, check_unit, ground_plane
from omnidc.diagnose.sky import sky_mask
from omnidc.diagnose.verdict import Verdict
from omnidc.frame import Unit
from omnidc.geometry.camera import backproject
from omnidc.patterns import SparseSample, outliers

SUSPICIOUS, OK, CANNOT_TELL = Verdict.SUSPICIOUS, Verdict.OK, Verdict.CANNOT_TELL


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(("factor", "verdict"), [(1, OK), (1000, SUSPICIOUS), (0.001, SUSPICIOUS)])
def test_unit_off_by_a_thousand_is_suspicious(factor: float, verdict: Verdict) -> None:
    assert check_unit(room().depth * np.float32(factor), Unit.METERS).verdict is verdict


def test_unit_of_an_arbitrary_scale_cannot_be_told() -> None:
    assert check_unit(room().depth * 1000, Unit.SCENE).verdict is CANNOT_TELL


def test_plane_fit_ignores_a_third_of_outliers() -> None:
    scene = room(boxes=0)
    points = Points.of(np.where(scene.depth < 5.9, scene.random(0.02), np.float32(0)), scene.K)
    depth = points.depth.copy()
    wrong = rng().random(len(depth)) < 0.33
    depth[wrong] *= rng().uniform(0.3, 0.8, int(wrong.sum()))
    plane = fit_plane(Points(points.x, points.y, depth), rng())
    assert plane is not None
    assert plane.distance == pytest.approx(1.5, rel=1e-3)
    assert plane.normal[1] == pytest.approx(1, abs=1e-3)


def test_plane_of_points_on_a_line_is_none() -> None:
    x = np.linspace(-1, 1, 50)
    assert fit_plane(Points(x, x, np.full(50, 2.0)), rng()) is None


def test_ground_plane_has_the_camera_height() -> None:
    scene = room(3, boxes=6, camera_height=1.7)
    ground = ground_plane(Points.of(scene.random(0.05), scene.K), rng())
    assert ground is not None
    assert ground.distance == pytest.approx(1.7, rel=0.02)


@pytest.mark.parametrize(("factor", "verdict"), [(1, OK), (1000 / 256, SUSPICIOUS)])
def test_scale_of_256_for_1000_is_suspicious(factor: float, verdict: Verdict) -> None:
    scene = room(3, boxes=6)
    sparse = scene.random(0.05) * np.float32(factor)
    assert check_scale(sparse, scene.K, Unit.METERS, False, rng()).verdict is verdict


def test_scale_too_low_is_suspicious_only_outdoors() -> None:
    scene = room(3, boxes=6)
    sparse = scene.random(0.05) * np.float32(0.256)
    assert check_scale(sparse, scene.K, Unit.METERS, True, rng()).verdict is SUSPICIOUS
    assert check_scale(sparse, scene.K, Unit.METERS, False, rng()).verdict is CANNOT_TELL


def test_scale_without_camera_or_ground_cannot_be_told() -> None:
    scene = room()
    assert check_scale(scene.depth, None, Unit.METERS, False, rng()).verdict is CANNOT_TELL
    wall = np.full((240, 320), 3.0, np.float32)
    assert check_scale(wall, scene.K, Unit.METERS, False, rng()).verdict is CANNOT_TELL


@pytest.mark.parametrize(("factor", "verdict"), [(1, OK), (0.5, SUSPICIOUS), (2, SUSPICIOUS)])
def test_camera_of_another_resolution_is_suspicious(factor: float, verdict: Verdict) -> None:
    scene = room()
    K = scene.K.copy()
    K[:2] *= factor
    assert check_camera(K, scene.depth).verdict is verdict


def test_camera_of_a_crop_cannot_be_told() -> None:
    scene = room()
    K = scene.K.copy()
    K[0, 2] = 30
    assert check_camera(K, scene.depth).verdict is CANNOT_TELL
    assert check_camera(None, scene.depth).verdict is CANNOT_TELL


def test_camera_of_points_in_one_quarter_is_suspicious() -> None:
    scene = room()
    quarter = np.zeros_like(scene.depth)
    quarter[:120, :160] = scene.depth[::2, ::2]
    assert check_camera(None, quarter).verdict is SUSPICIOUS


@pytest.mark.parametrize("share", [1.0, 0.02])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_ray_distances_are_suspicious(share: float, noise: float) -> None:
    scene = room(1, boxes=5)
    sparse = scene.random(share)
    sparse *= np.exp(noise * rng().standard_normal(sparse.shape)).astype(np.float32)
    along = sparse.copy()
    along[sparse > 0] = np.linalg.norm(backproject(sparse, scene.K), axis=1)
    assert check_ray(scene.K, sparse, rng()).verdict is OK
    assert check_ray(scene.K, along, rng()).verdict is SUSPICIOUS


def test_ray_of_a_long_lens_cannot_be_told() -> None:
    scene = room()
    K = np.array([[5000.0, 0, 160], [0, 5000.0, 120], [0, 0, 1]])
    assert check_ray(K, scene.depth, rng()).verdict is CANNOT_TELL
    assert check_ray(None, scene.depth, rng()).verdict is CANNOT_TELL


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_outliers_of_a_tenth_are_suspicious(share: float) -> None:
    scene = room(2)
    sparse = scene.random(share)
    clean = SparseSample(sparse, np.zeros(sparse.shape, np.bool_))
    noisy = outliers(0.1)(clean, scene.depth, scene.image, rng()).sparse
    assert check_outliers(sparse, rng()).verdict is OK
    assert check_outliers(noisy, rng()).verdict is SUSPICIOUS


def test_outliers_among_few_or_rough_points_cannot_be_told() -> None:
    scene = room(2)
    assert check_outliers(scene.random(0.001), rng()).verdict is CANNOT_TELL
    rough = np.where(scene.random(0.05) > 0, rng().uniform(1, 50, scene.depth.shape), 0).astype(np.float32)
    assert check_outliers(rough, rng()).verdict is CANNOT_TELL


def test_two_returns_of_one_ray_are_suspicious() -> None:
    scene = room(3)
    rays = np.zeros_like(scene.depth)
    rays[::3, ::3] = scene.depth[::3, ::3]
    rays[::3, 1::9] = scene.depth[::3, 1::9]  # some rays lie beside each other
    second = rays.copy()
    second[::3, 1::9] *= 1.5
    assert check_returns(rays, rng()).verdict is OK
    assert check_returns(second, rng()).verdict is SUSPICIOUS
    assert check_returns(scene.depth, rng()).verdict is CANNOT_TELL  # a raster


def test_two_returns_of_a_scan_are_suspicious() -> None:
    scene = room(3)
    scan = backproject(scene.random(0.05), scene.K)
    assert check_scan_returns(scan).verdict is OK
    assert check_scan_returns(np.concatenate([scan, 1.5 * scan[::10]])).verdict is SUSPICIOUS
    assert check_scan_returns(scan[:20]).verdict is CANNOT_TELL


def sky_scene() -> tuple[np.ndarray, np.ndarray]:
    """A blue sky above a ground with texture, and points on the ground."""
    image = rng().integers(40, 120, (200, 300, 3)).astype(np.uint8)
    image[:90] = [120, 160, 220]
    v = np.arange(200)[:, None] + np.zeros((1, 300))
    depth = np.where(v > 100, 150 / np.maximum(v - 90, 1), 0).astype(np.float32)
    return image, np.where(rng().random(depth.shape) < 0.1, depth, np.float32(0))


def test_sky_mask_covers_the_sky_only() -> None:
    image, _ = sky_scene()
    sky = sky_mask(image)
    assert sky[:80].mean() > 0.95
    assert sky[100:].mean() < 0.02


def test_sky_points_are_suspicious() -> None:
    image, sparse = sky_scene()
    assert check_sky(image, sparse).verdict is OK
    rows, columns = rng().integers(5, 80, 40), rng().integers(5, 295, 40)
    scattered = sparse.copy()
    scattered[rows, columns] = rng().uniform(1, 15, 40)
    assert check_sky(image, scattered).verdict is SUSPICIOUS
    saturated = sparse.copy()
    saturated[5:80:3, ::3] = 100
    assert check_sky(image, saturated).verdict is SUSPICIOUS


def test_sky_colored_surface_with_points_is_ok() -> None:
    image, sparse = sky_scene()
    ceiling = sparse.copy()
    ceiling[5:80:3, ::3] = np.linspace(3, 4, 25)[:, None]
    assert check_sky(image, ceiling).verdict is OK


def test_sky_of_a_dark_photograph_cannot_be_told() -> None:
    image, sparse = sky_scene()
    assert check_sky(np.zeros_like(image), sparse).verdict is CANNOT_TELL
