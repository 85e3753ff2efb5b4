from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnidc.scenes.interiors import Opening, draw_openings, wall_boxes
from omnidc.scenes.layout import Floor, Footprint, overlap

footprints = st.builds(
    Footprint, st.floats(-2, 2), st.floats(-2, 2), st.floats(0.2, 2), st.floats(0.2, 2), st.floats(0, 6.3)
)


def inside(spot: Footprint, points: np.ndarray) -> np.ndarray:
    c, s = np.cos(spot.yaw), np.sin(spot.yaw)
    local = (points - (spot.x, spot.y)) @ np.array([[c, -s], [s, c]])
    return np.asarray((np.abs(local) < (spot.width / 2, spot.depth / 2)).all(axis=1))


@given(footprints, footprints)
def test_overlap_agrees_with_looking_at_many_points(a: Footprint, b: Footprint) -> None:
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 161), np.linspace(-4, 4, 161)), axis=-1).reshape(-1, 2)
    if (inside(a, grid) & inside(b, grid)).any():
        assert overlap(a, b)
    if not overlap(a, b):
        assert not (inside(a, grid) & inside(b, grid)).any()


@given(footprints)
def test_points_drawn_from_a_footprint_are_in_it(spot: Footprint) -> None:
    rng = np.random.default_rng(0)
    points = np.array([spot.sample(rng) for _ in range(20)])
    larger = Footprint(spot.x, spot.y, spot.width + 1e-6, spot.depth + 1e-6, spot.yaw)
    assert inside(larger, points).all()


@given(st.integers(0, 2**32))
def test_a_floor_never_holds_two_things_at_one_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    floor = Floor(4.0, 5.0)
    table = floor.anywhere(rng, 1.2, 0.8)
    assert table is not None
    for _ in range(8):
        floor.along_wall(rng, *rng.uniform(0.3, 1.5, 2))
        floor.anywhere(rng, *rng.uniform(0.2, 0.8, 2), turned=True)
        floor.beside(rng, table, 0.45, 0.45, 0.1)
    assert len(floor.taken) > 4
    for k, spot in enumerate(floor.taken):
        assert floor.inside(spot)
        assert not any(overlap(spot, other) for other in floor.taken[:k])


@given(st.integers(0, 2**32), st.integers(0, 3))
def test_what_stands_at_a_wall_has_its_back_to_it(seed: int, side: int) -> None:
    spot = Floor(4.0, 5.0).along_wall(np.random.default_rng(seed), 1.0, 0.5, side)
    assert spot is not None
    back = np.array([spot.x, spot.y]) + 0.25 * np.array([-np.sin(spot.yaw), np.cos(spot.yaw)])
    distance = [2.5 - back[1], 2.0 - back[0], 2.5 + back[1], 2.0 + back[0]][side]
    assert abs(distance - 0.02) < 1e-6


def test_chairs_face_their_table() -> None:
    floor = Floor(6.0, 6.0)
    table = floor.claim(Footprint(0.3, -0.2, 1.4, 0.9, 0.4))
    for seed in range(4):
        chair = floor.beside(np.random.default_rng(seed), table, 0.45, 0.45, 0.1)
        assert chair is not None
        front = np.array([np.sin(chair.yaw), -np.cos(chair.yaw)])
        toward = np.array([table.x - chair.x, table.y - chair.y])
        assert front @ toward / np.linalg.norm(toward) > 0.5


@given(st.integers(0, 2**32), st.floats(2, 15), st.floats(2.3, 4))
def test_openings_lie_in_their_wall_and_the_rest_is_wall(seed: int, length: float, height: float) -> None:
    holes = draw_openings(np.random.default_rng(seed), length, height, 0.5, 0.3)
    for left, right in pairwise(holes):
        assert left.x1 <= right.x0
    for hole in holes:
        assert -length / 2 < hole.x0 < hole.x1 < length / 2
        assert 0 <= hole.z0 < hole.z1 < height
    area = sum((x1 - x0) * (z1 - z0) for x0, _, z0, x1, _, z1 in wall_boxes(length, height, holes))
    open_area = sum((hole.x1 - hole.x0) * (hole.z1 - hole.z0) for hole in holes)
    assert abs(area + open_area - length * height) < 0.02 * length * height


def test_a_wall_without_openings_is_one_box() -> None:
    assert wall_boxes(4, 2.5, []) == [(-2, 0, 0, 2, 0.15, 2.5)]
    assert len(wall_boxes(4, 2.5, [Opening(-0.5, 0.9, 0.5, 2, "window")])) == 4
