"""Kitchens: a row of base cabinets under a worktop, cabinets on the wall above, appliances, a table."""

from __future__ import annotations

import numpy as np

from omnidc.scenes.clutter import strew
from omnidc.scenes.description import Material, Rng, Scene
from omnidc.scenes.furniture import cabinet, make
from omnidc.scenes.interiors import Room, build_shell, hang_pictures, hanging_lamps, room_views
from omnidc.scenes.layout import WALL_YAWS, Footprint
from omnidc.scenes.materials import Kit, plain, steel
from omnidc.scenes.primitives import boxes, chamfered_box, merge, tube
from omnidc.scenes.rooms import dress, litter, place_at_wall, reserve_doors, seat_around

UNIT = 0.6


def worktop(scene: Scene, rng: Rng, kit: Kit, room: Room, side: int, finish: list[Material]) -> None:
    """Add units along one wall as far as no door is in the way."""
    length = room.wall_length(side)
    door_spans = [(hole.x0 - 0.15, hole.x1 + 0.15) for hole in room.openings[side] if hole.z0 < 0.85]
    height = float(rng.uniform(0.86, 0.94))
    slab = kit.material(rng, str(rng.choice(["wood", "floor", "rock"]))) if rng.random() < 0.7 else plain(rng)
    tiles = kit.material(rng, "wall", tile=0.6) if rng.random() < 0.5 else None
    upper = float(rng.uniform(0.5, 0.9)) if rng.random() < 0.8 else 0.0
    yaw = WALL_YAWS[side]
    base = cabinet(rng, finish, UNIT, 0.58, height - 0.04)
    above = cabinet(rng, finish, UNIT, 0.34, upper, plinth=0.0) if upper else None
    for x in np.arange(-length / 2 + UNIT / 2, length / 2 - UNIT / 2 + 1e-6, UNIT):
        x0, x1 = x - UNIT / 2, x + UNIT / 2
        px, py, _ = room.on_wall(side, float(x), -0.31, 0)
        spot = Footprint(px, py, UNIT, 0.6, yaw)
        if any(a < x1 and b > x0 for a, b in door_spans) or not room.floor.free(spot.shrunk(0.01)):
            continue
        room.floor.claim(spot)
        tall = None
        if rng.random() < 0.1:
            model = kit.model(rng, "appliance", widest=0.75, highest=2.1)
            if model is not None and model.height > 1.2:
                tall = model
        if tall is not None:
            scene.add(tall, None, (px, py, 0), yaw)
            continue
        base.stand(scene, px, py, 0, yaw)
        scene.add(boxes([(-UNIT / 2, -0.32, height - 0.04, UNIT / 2, 0.29, height)]), slab, (px, py, 0), yaw)
        where = Footprint(px, py, UNIT - 0.04, 0.5, yaw)
        device = rng.random()
        if device < 0.15:  # a sink: rim, basin and tap
            rim = [
                (-0.25, -0.2, 0, 0.25, -0.18, 0.012),
                (-0.25, 0.18, 0, 0.25, 0.2, 0.012),
                (-0.25, -0.2, 0, -0.23, 0.2, 0.012),
                (0.23, -0.2, 0, 0.25, 0.2, 0.012),
            ]
            tap = tube([(0, 0.22, 0), (0, 0.22, 0.28), (0, 0.16, 0.32), (0, 0.06, 0.3), (0, 0.05, 0.24)], 0.011, 8)
            scene.add(boxes(rim), steel(rng), (px, py, height), yaw)
            scene.add(tap, Material(color=(0.6, 0.6, 0.6), metallic=1, roughness=0.15), (px, py, height), yaw)
        elif device < 0.25:  # a hob
            scene.add(
                chamfered_box(0.52, 0.46, 0.01, 0.003),
                Material(color=(0.01, 0.01, 0.01), roughness=0.1),
                (px, py, height),
                yaw,
            )
        else:
            strew(scene, rng, kit, where, height, int(rng.choice([0, 0, 1, 2, 4])), "kitchen", 0.45)
        clear = not any(hole.x0 < x1 and hole.x1 > x0 for hole in room.openings[side])
        if clear and above is not None and rng.random() < 0.85 and 1.4 + upper < room.height:
            ux, uy, _ = room.on_wall(side, float(x), -0.18, 0)
            above.stand(scene, ux, uy, 1.4, yaw)
        elif clear and rng.random() < 0.4:  # rail with things that hang
            rail = [tube([(-UNIT / 2, 0.24, 1.45), (UNIT / 2, 0.24, 1.45)], 0.006, 6)]
            for hook in rng.uniform(-0.25, 0.25, int(rng.integers(1, 6))):
                rail.append(
                    tube(
                        [(hook, 0.235, 1.45), (hook + rng.normal(0, 0.005), 0.235, 1.45 - rng.uniform(0.12, 0.3))],
                        float(rng.uniform(0.003, 0.012)),
                        6,
                    )
                )
            scene.add(merge(rail), steel(rng), (px, py, 0), yaw)
        if clear and tiles is not None:
            tx, ty, _ = room.on_wall(side, float(x), -0.004, 0)
            scene.add(boxes([(-UNIT / 2, -0.004, height, UNIT / 2, 0.004, 1.4)]), tiles, (tx, ty, 0), yaw)


def build_kitchen(rng: Rng, kit: Kit) -> Scene:
    """Build a kitchen, often with a place to eat."""
    scene = Scene("kitchen")
    width, depth = (float(side) for side in rng.uniform(2.4, 5.5, 2))
    room = build_shell(scene, rng, kit, width, depth, float(rng.uniform(2.35, 2.9)), windows=0.35, doors=0.15)
    reserve_doors(room)
    finish = kit.finishes(rng)
    if rng.random() < 0.6:
        finish[0] = plain(rng)
    for side in rng.permutation(4)[: int(rng.integers(1, 4))]:
        worktop(scene, rng, kit, room, int(side), finish)
    for _ in range(int(rng.integers(0, 3))):
        piece = make(rng, kit, finish, "appliance")
        place_at_wall(scene, rng, room, piece)
    if rng.random() < 0.7:
        table = make(rng, kit, finish, "table")
        spot = room.floor.anywhere(rng, table.width, table.depth)
        if spot is not None:
            table.stand(scene, spot.x, spot.y, 0, spot.yaw)
            dress(scene, rng, kit, table, spot, "kitchen")
            seat_around(
                scene,
                rng,
                kit,
                room,
                spot,
                make(rng, kit, finish, str(rng.choice(["chair", "stool"]))),
                int(rng.integers(1, 6)),
            )
    litter(scene, rng, kit, room, finish, int(rng.integers(0, 4)))
    hang_pictures(scene, rng, kit, room, int(rng.integers(0, 3)))
    if rng.random() < 0.4:
        hanging_lamps(scene, rng, room)
    scene.viewpoints = room_views(room)
    return scene
