from __future__ import annotations

import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.geometry.camera import check_intrinsics, ray_to_z, undistort, undistorted_places, unproject

K = np.array([[100.0, 0, 31.5], [0, 110.0, 23.5], [0, 0, 1]])
SHAPE = (48, 64)


def plane(normal: tuple[float, float, float]) -> np.ndarray:
    """z-depth of the plane n · X = 1."""
    v, u = np.mgrid[: SHAPE[0], : SHAPE[1]]
    rays = np.stack([(u - 31.5) / 100, (v - 23.5) / 110, np.ones(SHAPE)], -1)
    return (1 / (rays @ np.array(normal))).astype(np.float32)


def test_points_project_back_to_their_pixels() -> None:
    points = unproject(plane((0.1, 0.2, 0.5)), K)
    pixels = points @ K.T
    v, u = np.mgrid[: SHAPE[0], : SHAPE[1]]
    np.testing.assert_allclose(pixels[..., 0] / pixels[..., 2], u, atol=1e-4)
    np.testing.assert_allclose(pixels[..., 1] / pixels[..., 2], v, atol=1e-4)


def test_distance_along_the_ray_becomes_depth() -> None:
    depth = plane((0.1, 0.2, 0.5))
    distance = np.linalg.norm(unproject(depth, K), axis=-1)
    np.testing.assert_allclose(ray_to_z(distance, K), depth, rtol=1e-6)


@pytest.mark.parametrize(
    "bad",
    [
        (0, 1, 2, 3),
        (1, np.nan, 2, 3),
        (-5, 5, 2, 3),
        (1, 2, 3),
        np.zeros((3, 3)),
        K.T,
        "fx",
        [[1, 0], [0, 1]],
    ],
)
def test_singular_and_malformed_cameras_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        check_intrinsics(bad)


@pytest.mark.parametrize(
    ("coefficients", "fisheye"),
    [((-0.25, 0.08, 0.001, 0.002), False), ((0.3, -0.05, 0.0, 0.0), False), ((-0.02, 0, 0, 0), True)],
)
def test_undistorted_places_invert_undistort(coefficients: tuple[float, ...], fisheye: bool) -> None:
    v, u = np.mgrid[: SHAPE[0], : SHAPE[1]]
    picture = np.stack([4 * u, 5 * v, np.zeros_like(u)], axis=2).astype(np.uint8)  # colors say the place
    straight, new_K = undistort(picture, K, coefficients, fisheye)
    places = undistorted_places(SHAPE, K, new_K, coefficients, fisheye)
    inside = np.isfinite(places).all(axis=2)
    assert inside.mean() > 0.5
    columns, rows = np.rint(places[inside]).astype(int).T
    found = straight[np.clip(rows, 0, SHAPE[0] - 1), np.clip(columns, 0, SHAPE[1] - 1)].astype(float)
    off = np.abs(found[:, :2] / (4, 5) - np.stack([u, v], axis=2)[inside])
    assert np.quantile(off, 0.95) < 1.0  # half a pixel of rounding, stretched by the lens
