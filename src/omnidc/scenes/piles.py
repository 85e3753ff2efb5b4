"""Heaps of unlike things in unlike clothes: shapes and textures that tell nothing about each other."""

from __future__ import annotations

import numpy as np

from omnidc.scenes.description import Material, Mesh, Model, Rng, Scene, Viewpoint, rotation_matrix
from omnidc.scenes.lights import draw_sky, studio
from omnidc.scenes.materials import Kit, steel
from omnidc.scenes.objfile import read_obj
from omnidc.scenes.primitives import (
    box,
    boxes,
    chamfered_box,
    cylinder,
    hanging,
    lathe,
    rock,
    sphere,
    transformed,
    tube,
)
from omnidc.scenes.settle import HeightField, surface_points

MODEL_KINDS = ("toy", "kitchen small", "office small", "floor thing", "chair", "stool", "plant", "table lamp")
PLACES = 6
MAX_BYTES = 1_500_000  # shapes are read in Python here


def random_shape(rng: Rng, kit: Kit, size: float) -> Mesh:
    """Make a box, ball, tube, cone, ring, stone, vessel, table frame or solid of about `size` meters."""
    kind = rng.integers(9)
    sides = rng.uniform(0.3, 1, 3) * size
    if kind == 0:
        return chamfered_box(sides[0], sides[1], sides[2], float(rng.uniform(0.002, 0.1) * sides.min()))
    if kind == 1:
        return sphere(size / 2)
    if kind == 2:
        return cylinder(float(sides[0] / 2), float(sides[1]), float(sides[2] / 2))
    if kind == 3:
        ring = np.linspace(0, 2 * np.pi, 33)
        path = np.stack([np.cos(ring), np.sin(ring), 0 * ring], axis=1) * size / 2
        return tube(path, float(rng.uniform(0.02, 0.15) * size), 10, caps=False)
    if kind == 4:
        return transformed(rock(rng), matrix=np.eye(3) * size)
    if kind == 5:
        zs = np.linspace(0, size, 12)
        return lathe([(1e-4, 0), *zip(size * (0.25 + 0.15 * np.sin(zs / size * rng.uniform(2, 9))), zs)])
    if kind == 6:  # an open frame of bars
        bar, (a, b, c) = float(0.04 * size), sides / 2
        posts = [(x, y, -c, x + bar, y + bar, c) for x in (-a, a) for y in (-b, b)]
        rails = [(-a, y, z, a + bar, y + bar, z + bar) for y in (-b, b) for z in (-c, c)]
        ties = [(x, -b, z, x + bar, b + bar, z + bar) for x in (-a, a) for z in (-c, c)]
        return boxes([*posts, *rails, *ties])
    solid = kit.solid(rng, size)
    return solid if solid is not None else box(*(float(side) for side in sides))


def _model_mesh(rng: Rng, kit: Kit, widest: float) -> tuple[Model, Mesh] | None:
    model = kit.model(rng, *MODEL_KINDS, widest=widest, highest=widest * 1.5)
    if model is None or model.path.stat().st_size > MAX_BYTES or model.rotation:
        return None
    shape = read_obj(model.path)
    points = shape.vertices @ np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=np.float32).T  # y-up to z-up
    low, high = points.min(axis=0), points.max(axis=0)
    scale = np.array([model.width, model.depth, model.height]) / np.maximum(high - low, 1e-6)
    points = (points - (low + high) / 2) * scale
    points[:, 2] -= points[:, 2].min()
    return model, Mesh(points.astype(np.float32), shape.quads, shape.triangles)


def drop_things(
    scene: Scene, rng: Rng, kit: Kit, field: HeightField, spread: float, count: int, size: tuple[float, float]
) -> None:
    """Let `count` things fall one after the other."""
    for _ in range(count):
        side = float(np.exp(rng.uniform(np.log(size[0]), np.log(size[1]))))
        material: Material | None
        shown: Mesh | Model
        found = _model_mesh(rng, kit, max(side * 2, 0.15)) if rng.random() < 0.45 else None
        if found is not None:
            shown, shape = found
            material = kit.anything(rng, side) if rng.random() < 0.35 else None
        else:
            shown = shape = random_shape(rng, kit, side)
            material = kit.anything(rng, float(rng.uniform(0.5, 2)) * side)
        tilt = (
            (0.0, 0.0)
            if rng.random() < 0.55
            else tuple(rng.choice([0, np.pi / 2, -np.pi / 2, rng.uniform(-0.6, 0.6)], 2))
        )
        rotation = (*tilt, float(rng.uniform(0, 6.3)))
        cloud = surface_points(rng, shape) @ rotation_matrix(rotation).T
        for _ in range(PLACES):  # what would topple is tried elsewhere
            x, y = rng.normal(0, spread, 2)
            points = cloud + np.array([x, y, 0])
            found_rest = field.rest(points)
            if found_rest is not None and found_rest[1]:
                z = found_rest[0]
                field.add(points + np.array([0, 0, z]))
                scene.add(shown, material, (x, y, z), rotation=rotation)
                break


def build_pile(rng: Rng, kit: Kit) -> Scene:
    """Build a heap on a floor between walls, with cords across it."""
    scene = Scene("pile", nearest=0.25)
    spread = float(rng.uniform(0.25, 1.4))
    reach = spread * 4
    open_air = bool(rng.random() < 0.35)
    role = str(rng.choice(["floor", "wood", "pavement", "photo", "fabric", "soil"]))
    scene.add(
        boxes([(-60, -60, -0.1, 60, 60, 0)] if open_air else [(-reach, -reach, -0.1, reach, reach, 0)]),
        kit.material(rng, role),
    )
    draw_sky(rng, kit, scene, outdoors=open_air)
    if not open_air:
        tall = max(2.5, reach)
        for side in range(4):
            wall = kit.wall(rng) if rng.random() < 0.5 else kit.material(rng, "photo", tile=float(rng.uniform(0.5, 3)))
            turn = rotation_matrix((0, 0, side * np.pi / 2))
            panel = transformed(boxes([(-reach - 0.1, reach, 0, reach + 0.1, reach + 0.1, tall)]), matrix=turn)
            if side or rng.random() < 0.5:  # now and then one side is open to the sky
                scene.add(panel, wall)
    studio(rng, scene, max(1.5, reach * 0.6), (15, 70))
    field = HeightField.flat(reach)
    drop_things(scene, rng, kit, field, spread, int(rng.integers(25, 80)), (0.12 * spread, 0.9 * spread))
    for _ in range(int(rng.integers(0, 14))):  # standing rods and cords from wall to wall
        radius = float(rng.uniform(0.003, 0.02))
        x, y = rng.normal(0, spread, 2)
        if rng.random() < 0.5:
            rod = tube(
                [(x, y, -0.05), (x + rng.normal(0, 0.2), y + rng.normal(0, 0.2), rng.uniform(0.3, 2))], radius, 6
            )
        else:
            z = rng.uniform(0.5, 2)
            across = (
                [(-reach, y, z), (reach, y + rng.normal(0, 0.5), z)]
                if rng.random() < 0.5
                else [(x, -reach, z), (x, reach, z)]
            )
            rod = tube(hanging(across[0], across[1], float(rng.uniform(0, 0.5)), 20), radius, 6)
        scene.add(rod, steel(rng))

    def draw(rng: Rng) -> Viewpoint:
        angle, away = rng.uniform(0, 6.3), rng.uniform(0.6, 2.6) * spread + 0.3
        eye = (np.cos(angle) * away, np.sin(angle) * away, rng.uniform(0.2, 1.8) * spread + 0.2)
        target = (*rng.normal(0, spread * 0.4, 2), rng.uniform(0, 0.6) * spread)
        return Viewpoint(eye, target, float(rng.normal(0, 0.12)), str(rng.choice(["indoor", "close"])))

    scene.viewpoints = draw
    return scene
