from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omnidc.errors import FileError, InputError
from omnidc.io.images import write_picture
from omnidc.viz.orbit import render, turntable, write_turntable
from omnidc.viz.overlay import point_overlay, uncertainty_overlay
from omnidc.viz.panels import contact_sheet


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
        assert len({picture.tobytes() for picture in pictures}) == 6
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
    uncertainty = np.full_like(depth, 1e-6)
    uncertainty[:, 30:] = 1.0
    tinted = uncertainty_overlay(image, depth, uncertainty).astype(int)
    assert abs(tinted[5, 5, 0] - tinted[5, 5, 2]) <= 1
    assert tinted[5, 50, 0] > tinted[5, 50, 2] + 50
    assert tinted.shape[0] > 40  # the legend
    assert tinted.shape[1] == 60
    none = uncertainty_overlay(image, np.zeros_like(depth), uncertainty).astype(int)
    assert (np.ptp(none[:40], axis=2) <= 1).all()  # no depth, no tint
    grid = contact_sheet([image, image[:20, :30], image])
    assert grid.shape == (80, 120, 3)
    write_picture(tmp_path / "a.jpg", grid)
    with pytest.raises(FileError, match="suffix of a picture"):
        write_picture(tmp_path / "a.xyz", grid)


def test_turntable_of_eight_steps_has_eight_distinct_views() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform([-1, -1, 3], [1, 1, 4], (3000, 3))
    pictures = turntable(points, rng.integers(0, 200, (3000, 3)).astype(np.uint8), size=(60, 80))
    pairs = [(a, b) for k, a in enumerate(pictures) for b in pictures[:k]]
    assert len(pictures) == 8
    assert min((a != b).any(axis=2).mean() for a, b in pairs) > 0.1


def test_legend_fits_pictures_of_any_width() -> None:
    for width in (1, 7, 60, 4000):
        depth = np.ones((5, width), np.float32)
        picture = uncertainty_overlay(np.zeros((5, width, 3), np.uint8), depth, depth)
        assert picture.shape[1] == width
