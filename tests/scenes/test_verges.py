"""What lies on and beside a road."""

from __future__ import annotations

import numpy as np
import pytest

from omnidc.scenes.description import Mesh, Scene
from omnidc.scenes.materials import Kit
from omnidc.scenes.roads import Road, band, draw_road
from omnidc.scenes.verges import bank, hedge, lay_verges, patches, rails, strips

STRAIGHT = Road(8.0, 2.0, 60.0, (0.0, 0.02, 0.0), (0.0, 0.02, 0.0))


def vertices(scene: Scene) -> np.ndarray:
    return np.concatenate([item.shape.vertices for item in scene.items if isinstance(item.shape, Mesh)])


@pytest.mark.parametrize("seed", range(5))
def test_patches_and_strips_lie_flat_on_the_ground(seed: int, bare_kit: Kit) -> None:
    scene, rng = Scene("street"), np.random.default_rng(seed)
    patches(scene, rng, bare_kit, STRAIGHT)
    strips(scene, rng, bare_kit, STRAIGHT, 1, 6.0)
    points = vertices(scene)
    assert (np.abs(points[:, 2]) < 0.04).all()  # road signs and covers have a thickness
    assert len({item.material for item in scene.items}) > 2


def test_patches_stay_on_the_carriageway(bare_kit: Kit) -> None:
    scene = Scene("street")
    patches(scene, np.random.default_rng(0), bare_kit, STRAIGHT)
    flat = [item.shape.vertices for item in scene.items if isinstance(item.shape, Mesh) and len(item.shape.quads)]
    sides = np.concatenate([points[:, 0] for points in flat])
    assert np.abs(sides).max() < STRAIGHT.width / 2 + 0.33  # a cover may lie on the edge


def test_tracks_have_the_gauge_of_real_ones(bare_kit: Kit) -> None:
    scene = Scene("street")
    rails(scene, np.random.default_rng(3), bare_kit, STRAIGHT, 0.0)
    bars = scene.items[-1].shape
    assert isinstance(bars, Mesh)
    x = np.unique(np.round(bars.vertices[:, 0], 3))
    assert np.isclose(x[-1] - x[0], 1.435 + 0.07, atol=2e-3)
    assert bars.vertices[:, 2].max() < 0.2


@pytest.mark.parametrize("side", [-1, 1])
def test_a_bank_rises_away_from_the_road(side: int, bare_kit: Kit) -> None:
    heights = []
    for seed in range(8):
        scene = Scene("street")
        bank(scene, np.random.default_rng(seed), bare_kit, STRAIGHT, side, 7.0)
        points = vertices(scene)
        assert (side * points[:, 0] > 6.9).all()
        order = np.argsort(side * points[:, 0])
        assert points[order[0], 2] <= points[order[-1], 2] + 1e-6
        heights.append(points[:, 2].max())
    assert max(heights) > 0.4


def test_a_hedge_stands_on_the_ground_along_a_bending_road(bare_kit: Kit) -> None:
    road = draw_road(np.random.default_rng(1))
    scene = Scene("street")
    hedge(scene, np.random.default_rng(0), bare_kit, road, 7.0)
    points = vertices(scene)
    over = points[:, 2] - road.height(points[:, 1])
    assert over.min() < 0
    assert 0.5 < over.max() < 4


def test_a_leaning_strip_rises_to_its_right() -> None:
    points, quads = band(STRAIGHT.strip(1.0, 3.0, 0.5, -2.0, 2.0, rise=1.5))
    assert np.allclose(points[::2, 2], 0.5)
    assert np.allclose(points[1::2, 2], 2.0)
    assert quads.max() == len(points) - 1


def test_verges_are_those_of_the_seed(bare_kit: Kit) -> None:
    scenes = [Scene("street"), Scene("street")]
    for scene in scenes:
        lay_verges(scene, np.random.default_rng(4), bare_kit, STRAIGHT, 6.0, country=True)
    assert np.array_equal(vertices(scenes[0]), vertices(scenes[1]))
