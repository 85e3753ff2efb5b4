"""Living rooms, bedrooms, bathrooms and dining rooms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnidc.scenes.clutter import fill_shelf, floor_cable, rug, screen, strew
from omnidc.scenes.description import Material, Rng, Scene
from omnidc.scenes.furniture import Piece, from_model, make
from omnidc.scenes.interiors import (
    Room,
    build_shell,
    hang_pictures,
    hanging_lamps,
    room_views,
    wall_pipes,
)
from omnidc.scenes.layout import Footprint
from omnidc.scenes.materials import Kit
from omnidc.scenes.plants import potted_plant

# what stands along the walls of each kind of room, most wanted first
AT_WALLS: dict[str, tuple[str, ...]] = {
    "living": ("sofa", "bookcase", "tv stand", "armchair", "wardrobe", "bookcase", "floor lamp", "chair"),
    "bedroom": ("bed", "bedside", "wardrobe", "bedside", "desk", "chair", "bookcase", "floor lamp"),
    "dining": ("tv stand", "wardrobe", "bookcase", "chair", "chair", "thin stand"),
    "bathroom": ("base cabinet", "wardrobe", "thin stand", "stool", "box"),
}


def reserve_doors(room: Room) -> None:
    """Keep the floor before doors free."""
    for side, holes in enumerate(room.openings):
        for hole in holes:
            if hole.z0 == 0:
                x, y, _ = room.on_wall(side, (hole.x0 + hole.x1) / 2, -0.5, 0)
                room.floor.claim(Footprint(x, y, 1.0, 1.0))


def place_at_wall(scene: Scene, rng: Rng, room: Room, piece: Piece) -> Footprint | None:
    """Stand a piece with its back to a wall; high ones not before windows."""
    for _ in range(3):
        spot = room.floor.along_wall(rng, piece.width, piece.depth)
        if spot is None:
            return None
        if piece.height > 1.0 and _before_window(room, spot):
            room.floor.taken.pop()
            continue
        piece.stand(scene, spot.x, spot.y, 0, spot.yaw)
        return spot
    return None


def _before_window(room: Room, spot: Footprint) -> bool:
    corners = spot.corners()
    low, high = corners.min(axis=0) - 0.1, corners.max(axis=0) + 0.1
    for side, holes in enumerate(room.openings):
        for hole in holes:
            x, y, _ = room.on_wall(side, (hole.x0 + hole.x1) / 2, 0, 0)
            if low[0] < x < high[0] and low[1] < y < high[1]:
                return True
    return False


def dress(scene: Scene, rng: Rng, kit: Kit, piece: Piece, spot: Footprint, theme: str) -> None:
    """Put things onto a piece."""
    supports = piece.supports(spot.x, spot.y, 0, spot.yaw)
    if len(supports) > 1:
        for where, height, clearance in supports:
            fill_shelf(scene, rng, kit, where, height, clearance, theme)
    elif supports and rng.random() < 0.8:
        where, height, clearance = supports[0]
        strew(scene, rng, kit, where, height, int(rng.integers(1, 9)), theme, clearance)


def seat_around(scene: Scene, rng: Rng, kit: Kit, room: Room, spot: Footprint, seat: Piece, count: int) -> None:
    """Place equal chairs around a table, some pushed partly under it, some pulled away."""
    for _ in range(count):
        place = room.floor.beside(rng, spot, seat.width, seat.depth, float(rng.uniform(0.02, 0.25)))
        if place is not None:
            seat.stand(scene, place.x, place.y, 0, place.yaw)


def litter(scene: Scene, rng: Rng, kit: Kit, room: Room, finish: Sequence[Material], count: int) -> None:
    """Put things on the floor: boxes, balls, plants, racks."""
    for _ in range(count):
        chance = rng.random()
        model = kit.model(rng, "floor thing", "toy", widest=0.8)
        if chance < 0.6 and model is not None:
            piece = from_model(model)
        elif chance < 0.75:
            piece = potted_plant(rng, kit, float(rng.uniform(0.4, 1.6)))
        else:
            piece = make(rng, kit, finish, "thin stand" if chance < 0.88 else "box")
        spot = room.floor.anywhere(rng, piece.width, piece.depth, turned=True)
        if spot is not None:
            piece.stand(scene, spot.x, spot.y, 0, spot.yaw)


def build_room(rng: Rng, kit: Kit) -> Scene:
    """Build a furnished room of a home."""
    scene = Scene("room")
    kind = str(rng.choice(["living", "living", "bedroom", "dining", "bathroom"]))
    small = kind == "bathroom"
    width, depth = rng.uniform(2.0, 3.4, 2) if small else rng.uniform(2.8, 7.0, 2)
    room = build_shell(scene, rng, kit, float(width), float(depth), float(rng.uniform(2.3, 3.1)))
    reserve_doors(room)
    finish = kit.finishes(rng)
    theme = "bathroom" if small else "living"
    area = room.width * room.depth
    if kind in ("living", "dining"):
        what = "table" if kind == "dining" else "coffee table"
        piece = make(rng, kit, finish, what)
        spot = room.floor.anywhere(rng, piece.width, piece.depth)
        if spot is not None:
            piece.stand(scene, spot.x, spot.y, 0, spot.yaw)
            dress(scene, rng, kit, piece, spot, "kitchen" if kind == "dining" else "living")
            if rng.random() < 0.5:
                rug(scene, rng, kit, room.floor, spot.x, spot.y)
            seats = make(rng, kit, finish, "chair" if kind == "dining" else "armchair")
            seat_around(
                scene,
                rng,
                kit,
                room,
                spot,
                seats,
                int(rng.integers(2, 7)) if kind == "dining" else int(rng.integers(0, 3)),
            )
    wanted = list(AT_WALLS[kind])
    if small and kit.library.models.get("bathroom"):
        wanted = ["bathroom", "bathroom", "bathroom", *wanted]
    for what in wanted[: int(rng.integers(2, 4 + int(area / 4)))]:
        model = kit.model(rng, "bathroom") if what == "bathroom" else None
        piece = from_model(model) if model is not None else make(rng, kit, finish, what)
        spot = place_at_wall(scene, rng, room, piece)
        if spot is None:
            continue
        if what == "tv stand" and rng.random() < 0.6 and piece.shelves:
            screen(rng, kit).stand(scene, spot.x, spot.y, piece.shelves[0].z, spot.yaw)
        else:
            dress(scene, rng, kit, piece, spot, theme)
    litter(scene, rng, kit, room, finish, int(rng.integers(0, 2 + int(area / 5))))
    hang_pictures(scene, rng, kit, room, int(rng.integers(0, 6)))
    if rng.random() < 0.2:
        wall_pipes(scene, rng, room)
    if rng.random() < 0.3:
        hanging_lamps(scene, rng, room)
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        floor_cable(scene, rng, room.floor)
    scene.viewpoints = room_views(room)
    scene.nearest = float(np.clip(min(width, depth) * 0.12, 0.3, 0.5))
    return scene
