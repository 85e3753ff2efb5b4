"""Offices and classrooms: rows of equal desks with screens, chairs, cables and shelves."""

from __future__ import annotations

import numpy as np

from omnidc.scenes.clutter import floor_cable, screen, strew
from omnidc.scenes.description import Rng, Scene
from omnidc.scenes.furniture import make
from omnidc.scenes.interiors import build_shell, hang_pictures, room_views, wall_pipes
from omnidc.scenes.layout import Footprint
from omnidc.scenes.materials import Kit, plain
from omnidc.scenes.primitives import boxes
from omnidc.scenes.rooms import dress, litter, place_at_wall, reserve_doors


def build_office(rng: Rng, kit: Kit) -> Scene:
    """Build an office of one to twelve work places."""
    scene = Scene("office")
    width, depth = float(rng.uniform(3, 11)), float(rng.uniform(3, 9))
    room = build_shell(scene, rng, kit, width, depth, float(rng.uniform(2.5, 3.4)), windows=0.5, doors=0.1, lamps=1.3)
    reserve_doors(room)
    finish = kit.finishes(rng)
    # one model of desk and one of chair for the whole room, as offices are bought
    desk, chair = make(rng, kit, finish, "desk"), make(rng, kit, finish, "office chair")
    across, along = desk.width + rng.uniform(0.0, 0.8), desk.depth + chair.depth + rng.uniform(0.5, 1.2)
    divider = plain(rng) if rng.random() < 0.35 else None
    yaw = float(rng.choice([0.0, np.pi]))
    front = np.array([np.sin(yaw), -np.cos(yaw)])
    for x in np.arange(-width / 2 + desk.width / 2 + 0.1, width / 2 - desk.width / 2, across):
        for y in np.arange(-depth / 2 + along / 2, depth / 2 - along / 2 + 0.1, along):
            spot = Footprint(float(x), float(y), desk.width, desk.depth, yaw + float(rng.normal(0, 0.01)))
            if not room.floor.free(spot) or rng.random() < 0.12:
                continue
            room.floor.claim(spot)
            desk.stand(scene, spot.x, spot.y, 0, spot.yaw)
            for where, height, clearance in desk.supports(spot.x, spot.y, 0, spot.yaw)[:1]:
                back = Footprint(
                    where.x - front[0] * desk.depth * 0.25, where.y - front[1] * desk.depth * 0.25, 0, 0, spot.yaw
                )
                if rng.random() < 0.75:
                    screen(rng, kit).stand(scene, back.x, back.y, height, spot.yaw + float(rng.normal(0, 0.2)))
                strip = Footprint(
                    where.x + front[0] * desk.depth * 0.22,
                    where.y + front[1] * desk.depth * 0.22,
                    where.width,
                    where.depth * 0.45,
                    where.yaw,
                )
                strew(scene, rng, kit, strip, height, int(rng.integers(0, 6)), "office", clearance, largest=0.35)
            place = Footprint(
                float(spot.x + front[0] * (desk.depth / 2 + chair.depth * rng.uniform(0.35, 0.8)) + rng.normal(0, 0.1)),
                float(spot.y + front[1] * (desk.depth / 2 + chair.depth * rng.uniform(0.35, 0.8))),
                chair.width,
                chair.depth,
                float(yaw + np.pi + rng.normal(0, 0.5)),
            )
            if room.floor.inside(place):
                room.floor.claim(place)
                chair.stand(scene, place.x, place.y, 0, place.yaw)
            if divider is not None:
                wall = boxes(
                    [(-desk.width / 2, desk.depth / 2 + 0.01, 0.4, desk.width / 2, desk.depth / 2 + 0.04, 1.25)]
                )
                scene.add(wall, divider, (spot.x, spot.y, 0), spot.yaw)
    for what in ("bookcase", "filing cabinet", "bookcase", "filing cabinet", "thin stand")[: int(rng.integers(1, 6))]:
        piece = make(rng, kit, finish, what)
        spot_at_wall = place_at_wall(scene, rng, room, piece)
        if spot_at_wall is not None:
            dress(scene, rng, kit, piece, spot_at_wall, "office")
    litter(scene, rng, kit, room, finish, int(rng.integers(0, 5)))
    hang_pictures(scene, rng, kit, room, int(rng.integers(0, 5)))
    if rng.random() < 0.4:
        wall_pipes(scene, rng, room)
    for _ in range(int(rng.integers(0, 4))):
        floor_cable(scene, rng, room.floor)
    scene.viewpoints = room_views(room)
    return scene
