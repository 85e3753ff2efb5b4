from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.scenes.description import Item, Mesh, euler_angles, placed, rotation_matrix
from omnidc.scenes.primitives import (
    box,
    boxes,
    chamfered_box,
    cylinder,
    fractal_noise,
    grid,
    hanging,
    lathe,
    merge,
    sphere,
    transformed,
    tube,
)

sides = st.floats(0.05, 5)


def volume(shape: Mesh) -> float:
    """By the divergence theorem: positive only when the faces look outward."""
    quads = shape.quads
    faces = np.concatenate([shape.triangles, quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    a, b, c = (shape.vertices[faces[:, k]].astype(np.float64) for k in range(3))
    return float((a * np.cross(b, c)).sum() / 6)


@given(sides, sides, sides)
def test_a_box_has_its_volume_and_looks_outward(width: float, depth: float, height: float) -> None:
    assert volume(box(width, depth, height)) == pytest.approx(width * depth * height, rel=1e-3)


@given(sides, sides, sides, st.floats(0.01, 0.4))
def test_cutting_the_edges_takes_away_what_it_should(width: float, depth: float, height: float, share: float) -> None:
    bevel = share * min(width, depth, height)
    shape = chamfered_box(width, depth, height, bevel)
    edges = 4 * (width + depth + height - 6 * bevel) * bevel**2 / 2
    corners = 8 * (5 / 6) * bevel**3  # what is left of a cube of side `bevel` at each corner is a sixth
    assert volume(shape) == pytest.approx(width * depth * height - edges - corners, rel=2e-3)
    assert np.allclose(shape.bounds, [(-width / 2, -depth / 2, 0), (width / 2, depth / 2, height)], atol=1e-5)


def test_round_things_have_nearly_the_volume_of_round_things() -> None:
    assert volume(cylinder(0.5, 2.0, sides=64)) == pytest.approx(np.pi * 0.25 * 2, rel=0.01)
    assert volume(sphere(0.5, 32, 64)) == pytest.approx(np.pi / 6, rel=0.01)
    straight = tube([(0, 0, 0), (0, 0, 3)], 0.1, sides=64)
    assert abs(volume(straight)) == pytest.approx(np.pi * 0.01 * 3, rel=0.01)


def test_a_sphere_rests_on_the_floor() -> None:
    assert sphere(0.3).bounds[0, 2] == pytest.approx(0, abs=1e-6)


def test_flat_boxes_are_left_out() -> None:
    assert len(boxes([(0, 0, 0, 1, 1, 1), (0, 0, 0, 1, 0, 1)]).quads) == 6


def test_merging_keeps_every_face_where_it_was() -> None:
    first, second = box(1, 1, 1), transformed(lathe([(0.1, 0), (0.2, 1)], 8), (3, 0, 0))
    both = merge([first, second])
    assert np.array_equal(both.vertices[both.quads[len(first.quads) :]], second.vertices[second.quads])


def test_terrain_faces_up() -> None:
    shape = grid([0, 1, 2], [0, 1], np.zeros((2, 3)))
    corners = shape.vertices[shape.quads]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (normals[:, 2] > 0).all()


@given(st.floats(0, 3))
def test_a_wire_hangs_lowest_in_its_middle(sag: float) -> None:
    path = hanging((0, 0, 5), (10, 0, 5), sag, 21)
    assert path[10, 2] == pytest.approx(5 - sag)
    assert np.allclose(path[[0, -1], 2], 5)


def test_noise_fills_its_range_and_repeats_seamlessly() -> None:
    noise = fractal_noise(np.random.default_rng(0), 64, 1.5)
    assert noise.min() == 0
    assert noise.max() == pytest.approx(1)
    inside = np.abs(np.diff(noise, axis=1)).mean()
    assert np.abs(noise[:, 0] - noise[:, -1]).mean() < 2 * inside


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3))
def test_placing_turns_about_x_then_y_then_z(a: float, b: float, c: float) -> None:
    shape = box(1, 2, 3)
    item = Item(shape, None, (1, 2, 3), (a, b, c), (2, 1, 1))
    slow = shape.vertices.astype(np.float64) * (2, 1, 1)
    for turn in ((a, 0, 0), (0, b, 0), (0, 0, c)):
        slow = slow @ rotation_matrix(turn).T
    assert np.allclose(placed(item, shape.vertices), slow + np.array([1, 2, 3]), atol=1e-6)


@given(st.floats(-1.5, 1.5), st.floats(-1.4, 1.4), st.floats(-3, 3))
def test_euler_angles_come_back(a: float, b: float, c: float) -> None:
    assert euler_angles(rotation_matrix((a, b, c))) == pytest.approx((a, b, c), abs=1e-9)
