"""The eight orientations of EXIF, compared with Pillow; cameras and poses turn with their pictures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

from omnidc.errors import InputError
from omnidc.geometry.orientation import UPRIGHT, Orientation
from omnidc.geometry.rasterize import project_to_depth
from omnidc.geometry.transforms import transform

K = np.array([[50.0, 0.0, 20.0], [0.0, 40.0, 11.0], [0.0, 0.0, 1.0]])
SHAPE = (24, 36)


@pytest.mark.parametrize("number", range(1, 9))
def test_orientation_apply_equals_pillow(number: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    picture = Image.fromarray(pixels)
    picture.getexif()[0x0112] = number
    orientation = Orientation.of_exif(number)
    turned = orientation.apply(pixels)
    assert np.array_equal(turned, np.asarray(ImageOps.exif_transpose(picture)))
    assert turned.shape[:2] == orientation.shape((5, 7))
    assert np.array_equal(orientation.undo(turned), pixels)


@pytest.mark.parametrize("number", [0, 9, 77])
def test_orientation_unknown_number_changes_nothing(number: int) -> None:
    assert Orientation.of_exif(number) == UPRIGHT
    assert not UPRIGHT


@pytest.mark.parametrize("number", [1, 3, 6, 8])
def test_orientation_camera_draws_the_turned_map(number: int) -> None:
    points = np.random.default_rng(1).uniform((-1, -1, 2), (1, 1, 5), (200, 3))
    orientation = Orientation.of_exif(number)
    straight, _ = project_to_depth(points, K, SHAPE, occlusion_window=0)
    turned, _ = project_to_depth(
        transform(orientation.rotation(), points),
        orientation.intrinsics(K, SHAPE),
        orientation.shape(SHAPE),
        occlusion_window=0,
    )
    assert np.allclose(turned, orientation.apply(straight), atol=1e-5)


def test_orientation_pose_keeps_world_points() -> None:
    orientation = Orientation.of_exif(6)
    pose = np.eye(4)
    pose[:3, 3] = (1, 2, 3)
    point = np.array([[0.1, 0.2, 3.0]])
    moved = transform(orientation.pose(pose), transform(orientation.rotation(), point))
    assert np.allclose(moved, transform(pose, point))


def test_orientation_mirror_refuses_cameras() -> None:
    with pytest.raises(InputError, match="mirrored"):
        Orientation.of_exif(2).intrinsics(K, SHAPE)
