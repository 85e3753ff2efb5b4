from __future__ import annotations

import numpy as np
import pytest

from omnidc.errors import ConfigError
from omnidc.scenes.description import Mesh, Scene, placed
from omnidc.scenes.materials import Kit
from omnidc.scenes.worlds import MIX, WORLDS, build_scene, check_worlds, world_of


def fingerprint(scene: Scene) -> list[float]:
    numbers: list[float] = []
    for item in scene.items:
        assert isinstance(item.shape, Mesh)
        numbers += [*item.position, *item.rotation, *item.scale, float(item.shape.vertices.sum())]
        if item.material is not None:
            numbers += [*item.material.color, item.material.tile, item.material.roughness]
            if item.material.texture is not None and item.material.texture.pixels is not None:
                numbers.append(float(item.material.texture.pixels.sum()))
    return numbers


@pytest.mark.parametrize("world", WORLDS)
def test_a_seed_gives_the_same_scene_and_the_same_views_always(world: str, bare_kit: Kit) -> None:
    first, first_rng = build_scene(5, 3, bare_kit, [world])
    second, second_rng = build_scene(5, 3, bare_kit, [world])
    assert fingerprint(first) == fingerprint(second)
    assert [first.viewpoints(first_rng) for _ in range(4)] == [second.viewpoints(second_rng) for _ in range(4)]
    other, _ = build_scene(5, 4, bare_kit, [world])
    assert fingerprint(first) != fingerprint(other)


@pytest.mark.parametrize("world", WORLDS)
def test_scenes_are_whole_without_assets(world: str, bare_kit: Kit) -> None:
    scene, rng = build_scene(11, 0, bare_kit, [world])
    assert scene.world == world
    assert len(scene.items) > (2 if world == "display" else 8)  # a thrown cloth is a display
    for item in scene.items:
        assert isinstance(item.shape, Mesh)
        count = len(item.shape.vertices)
        assert count
        assert np.isfinite(placed(item, item.shape.vertices)).all()
        for faces in (item.shape.quads, item.shape.triangles):
            assert faces.size == 0 or (faces.min() >= 0 and faces.max() < count)
        assert item.material is not None  # nothing but models has a surface of its own
    spots = [scene.viewpoints(rng) for _ in range(20)]
    assert len({spot.eye for spot in spots}) == 20
    assert all(np.linalg.norm(np.subtract(spot.eye, spot.target)) > 0.01 for spot in spots)


@pytest.mark.parametrize("world", ["room", "office", "kitchen", "corridor", "closeup"])
def test_indoor_cameras_stand_between_floor_and_ceiling(world: str, bare_kit: Kit) -> None:
    scene, rng = build_scene(2, 0, bare_kit, [world])
    floor = scene.items[0].shape.bounds  # type: ignore[union-attr]
    ceiling = scene.items[1].shape.bounds[0, 2]  # type: ignore[union-attr]
    for _ in range(50):
        x, y, z = scene.viewpoints(rng).eye
        assert floor[0, 0] < x < floor[1, 0]
        assert floor[0, 1] < y < floor[1, 1]
        assert 0 < z < ceiling


def test_every_world_has_a_share_and_is_drawn_about_so_often() -> None:
    assert MIX.keys() == WORLDS.keys()
    assert sum(MIX.values()) == pytest.approx(1)
    drawn = [world_of(0, number) for number in range(2000)]
    for world, share in MIX.items():
        assert drawn.count(world) / 2000 == pytest.approx(share, abs=0.04)


def test_a_chosen_world_is_the_only_one() -> None:
    assert {world_of(1, number, ["pile"]) for number in range(20)} == {"pile"}


def test_an_unknown_world_is_named() -> None:
    with pytest.raises(ConfigError, match="'moon'"):
        check_worlds(["room", "moon"])
