from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnidc.scenes.camera import intrinsics
from omnidc.scenes.normals import normals_of

MATRIX = intrinsics(64, 48, 70)
RAYS = np.stack([*np.meshgrid(np.arange(64), np.arange(48)), np.ones((48, 64))], axis=-1) @ np.linalg.inv(MATRIX).T


def plane(normal: np.ndarray, distance: float) -> np.ndarray:
    """Depth of the plane n·p = −distance, whose normal n looks at the camera."""
    return np.asarray(-distance / (RAYS @ normal), dtype=np.float32)


@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(0.5, 20))
def test_a_plane_has_its_normal_everywhere(x: float, y: float, distance: float) -> None:
    normal = np.array([x, y, -1.0]) / np.linalg.norm([x, y, 1.0])
    found = normals_of(plane(normal, distance), MATRIX)
    assert np.abs(found - normal).max() < 0.02  # steps of 1/63, and float32 depth


def test_no_normal_reaches_across_a_step() -> None:
    left, right = np.array([0.3, 0.0, -0.954]), np.array([-0.3, 0.0, -0.954])
    depth = np.where(np.arange(64) < 30, plane(left, 2.0), plane(right, 5.0))
    found = normals_of(depth, MATRIX)
    assert np.abs(found[:, :30] - left).max() < 0.02
    assert np.abs(found[:, 30:] - right).max() < 0.02


def test_sky_and_lone_pixels_have_none() -> None:
    depth = np.zeros((48, 64), dtype=np.float32)
    depth[20, 20] = 3.0
    assert not normals_of(depth, MATRIX).any()
