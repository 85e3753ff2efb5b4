"""Corridors, stairwells' landings and large halls with columns, railings and pipes."""

from __future__ import annotations

import numpy as np

from omnidc.scenes.description import Rng, Scene, Viewpoint
from omnidc.scenes.furniture import make
from omnidc.scenes.interiors import Room, build_shell, hang_pictures, room_views, wall_pipes
from omnidc.scenes.layout import Footprint
from omnidc.scenes.materials import Kit, steel
from omnidc.scenes.primitives import Box, boxes, cylinder, merge, tube
from omnidc.scenes.rooms import dress, litter, place_at_wall, reserve_doors


def railing(scene: Scene, rng: Rng, start: tuple[float, float, float], end: tuple[float, float, float]) -> None:
    """Add two rails and thin balusters between two points at floor height (they may differ: stairs)."""
    low, high = np.array(start), np.array(end)
    height, gap = float(rng.uniform(0.85, 1.1)), float(rng.uniform(0.09, 0.2))
    radius = float(rng.uniform(0.004, 0.012))
    up = np.array([0, 0, height])
    count = max(2, int(np.linalg.norm(high - low) / gap))
    bars = [tube([low + up, high + up], 0.022, 8), tube([low + up * 0.12, high + up * 0.12], 0.012, 6)]
    if rng.random() < 0.7:
        for t in np.linspace(0, 1, count):
            foot = low + (high - low) * t
            bars.append(tube([foot, foot + up], radius, 5, caps=False))
    else:
        bars += [
            tube([low + up * k, high + up * k], radius, 5) for k in np.linspace(0.25, 0.85, int(rng.integers(2, 6)))
        ]
        bars += [
            tube([low + (high - low) * t, low + (high - low) * t + up], 0.018, 6)
            for t in np.linspace(0, 1, max(2, count // 8))
        ]
    scene.add(merge(bars), steel(rng))


def stairs(scene: Scene, rng: Rng, kit: Kit, room: Room) -> None:
    """Add a flight along the +y wall with a railing on its free side."""
    width, run, rise = rng.uniform(0.9, 1.4), 0.27, 0.17
    steps = int(min(room.height / rise, (room.width - 1.5) / run))
    if steps < 4:
        return
    x0, y1 = -room.width / 2 + 0.8, room.depth / 2
    treads: list[Box] = [
        (x0 + k * run, y1 - width, max(0, (k - 1) * rise), x0 + (k + 1) * run, y1, (k + 1) * rise) for k in range(steps)
    ]
    scene.add(boxes(treads), kit.material(rng, str(rng.choice(["wood", "floor", "rock"]))))
    length = steps * run
    room.floor.claim(Footprint(x0 + length / 2, y1 - width / 2, length + 0.8, width + 0.1))
    railing(scene, rng, (x0, y1 - width + 0.03, rise), (x0 + length - run, y1 - width + 0.03, steps * rise))


def build_corridor(rng: Rng, kit: Kit) -> Scene:
    """Build a corridor (narrow and long) or a hall (wide and high)."""
    scene = Scene("corridor")
    hall = bool(rng.random() < 0.5)
    if hall:
        width, depth, height = rng.uniform(7, 18), rng.uniform(7, 22), rng.uniform(3, 7)
    else:
        width, depth, height = rng.uniform(1.3, 2.8), rng.uniform(6, 22), rng.uniform(2.3, 3.2)
    doors = 0.1 if hall else 0.35
    room = build_shell(
        scene,
        rng,
        kit,
        float(width),
        float(depth),
        float(height),
        windows=0.35 if hall else 0.15,
        doors=doors,
        lamps=1.2,
    )
    reserve_doors(room)
    finish = kit.finishes(rng)
    if hall:
        if rng.random() < 0.6:
            thick = float(rng.uniform(0.12, 0.5))
            column = (
                cylinder(thick / 2, float(height))
                if rng.random() < 0.5
                else boxes([(-thick / 2, -thick / 2, 0, thick / 2, thick / 2, float(height))])
            )
            look = kit.wall(rng)
            for x in np.arange(-width / 2 + 2.5, width / 2 - 1.5, rng.uniform(3, 5)):
                for y in np.arange(-depth / 2 + 2.5, depth / 2 - 1.5, rng.uniform(3, 6)):
                    scene.add(column, look, (x, y, 0))
                    room.floor.claim(Footprint(float(x), float(y), thick, thick))
        if rng.random() < 0.5:
            stairs(scene, rng, kit, room)
        if rng.random() < 0.6:
            y = float(rng.uniform(-0.3, 0.3) * depth)
            railing(
                scene,
                rng,
                (float(-width * rng.uniform(0.1, 0.45)), y, 0),
                (float(width * rng.uniform(0.1, 0.45)), y, 0),
            )
        rows = make(rng, kit, finish, str(rng.choice(["chair", "table", "bookcase", "box"])))
        for _ in range(int(rng.integers(0, 25))):
            spot = room.floor.anywhere(rng, rows.width, rows.depth)
            if spot is not None:
                rows.stand(scene, spot.x, spot.y, 0, spot.yaw)
                dress(scene, rng, kit, rows, spot, "office")
    elif rng.random() < 0.35:
        side = float(rng.choice([-1, 1])) * (width / 2 - 0.07)
        scene.add(tube([(side, -depth / 2, 0.95), (side, depth / 2, 0.95)], 0.02, 8), steel(rng))
    for what in ("bookcase", "chair", "filing cabinet", "chair", "thin stand", "bookcase")[: int(rng.integers(1, 7))]:
        piece = make(rng, kit, finish, what)
        if piece.depth < width * 0.4:
            spot = place_at_wall(scene, rng, room, piece)
            if spot is not None:
                dress(scene, rng, kit, piece, spot, "office")
    litter(scene, rng, kit, room, finish, int(rng.integers(0, 8 if hall else 4)))
    hang_pictures(scene, rng, kit, room, int(rng.integers(0, 7)))
    if rng.random() < 0.5:
        wall_pipes(scene, rng, room)
    if hall:
        scene.viewpoints = room_views(room)
        return scene

    def along(rng: Rng) -> Viewpoint:
        x, y = rng.uniform(-0.5, 0.5) * (width - 0.5), rng.uniform(-0.45, 0.45) * depth
        z, ahead = rng.uniform(0.6, 2.0), rng.choice([-1, 1])
        target = (rng.normal(0, width * 0.4), y + ahead * rng.uniform(1, 5), z + rng.normal(-0.1, 0.3))
        return Viewpoint((x, y, z), target, float(rng.normal(0, 0.06)), "indoor")

    scene.viewpoints = along
    return scene
