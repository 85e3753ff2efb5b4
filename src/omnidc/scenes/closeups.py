"""Hand-held close-ups: table tops, shelves and window sills, a hand's breadth to a meter away."""

from __future__ import annotations

import numpy as np

from omnidc.scenes.clutter import fill_shelf, screen, strew
from omnidc.scenes.description import Rng, Scene, Viewpoint
from omnidc.scenes.furniture import Piece, bookcase, table
from omnidc.scenes.interiors import build_shell, hang_pictures
from omnidc.scenes.layout import Footprint
from omnidc.scenes.lights import studio
from omnidc.scenes.materials import Kit
from omnidc.scenes.rooms import litter


def build_closeup(rng: Rng, kit: Kit) -> Scene:
    """Build things on a table or in a shelf, in a room of which little is seen."""
    scene = Scene("closeup", nearest=0.12)
    width, depth = (float(side) for side in rng.uniform(2.6, 5, 2))
    room = build_shell(scene, rng, kit, width, depth, float(rng.uniform(2.4, 3)), windows=0.4, doors=0.1, lamps=1.3)
    finish = kit.finishes(rng)
    theme = str(rng.choice(["kitchen", "office", "living", "bathroom"]))
    shelf = bool(rng.random() < 0.35)
    if shelf:
        piece = bookcase(
            rng, finish, float(rng.uniform(0.7, 1.8)), float(rng.uniform(0.25, 0.45)), float(rng.uniform(1.0, 2.1))
        )
        spot = room.floor.claim(
            Footprint(float(rng.normal(0, 0.3)), depth / 2 - piece.depth / 2 - 0.02, piece.width, piece.depth)
        )
        for where, height, clearance in piece.supports(spot.x, spot.y, 0, spot.yaw):
            fill_shelf(scene, rng, kit, where, height, clearance, theme)
    else:
        piece = table(
            rng, finish, float(rng.uniform(0.8, 2)), float(rng.uniform(0.6, 1)), float(rng.uniform(0.45, 0.9))
        )
        y = depth / 2 - piece.depth / 2 - 0.03 if rng.random() < 0.5 else float(rng.normal(0, 0.3))
        spot = room.floor.claim(Footprint(float(rng.normal(0, 0.3)), y, piece.width, piece.depth))
        _lay(scene, rng, kit, piece, spot, theme)
    piece.stand(scene, spot.x, spot.y, 0, spot.yaw)
    litter(scene, rng, kit, room, finish, int(rng.integers(0, 4)))
    hang_pictures(scene, rng, kit, room, int(rng.integers(0, 5)))
    if rng.random() < 0.5:
        studio(rng, scene, 1.4, (10, 40))
    heights = [height for _, height, _ in piece.supports(spot.x, spot.y)]

    def draw(rng: Rng) -> Viewpoint:
        x, y = spot.shrunk(0.05).sample(rng)
        level = heights[int(rng.integers(len(heights)))]
        target = (x, y, level + rng.uniform(0.0, 0.18))
        away = float(np.exp(rng.uniform(np.log(0.3), np.log(1.3))))
        angle = rng.uniform(-2.4, -0.7) if shelf else rng.uniform(0, 6.3)
        rise = rng.normal(0, 0.2) if shelf else rng.uniform(0.1, 1.2)
        eye = (
            x + np.cos(angle) * away * np.cos(rise),
            y + np.sin(angle) * away * np.cos(rise),
            target[2] + away * np.sin(rise) + 0.05,
        )
        eye = (
            float(np.clip(eye[0], -width / 2 + 0.1, width / 2 - 0.1)),
            float(np.clip(eye[1], -depth / 2 + 0.1, depth / 2 - 0.1)),
            float(np.clip(eye[2], 0.1, room.height - 0.15)),
        )
        return Viewpoint(eye, target, float(rng.normal(0, 0.12)), "close" if rng.random() < 0.7 else "indoor")

    scene.viewpoints = draw
    return scene


def _lay(scene: Scene, rng: Rng, kit: Kit, piece: Piece, spot: Footprint, theme: str) -> None:
    for where, height, clearance in piece.supports(spot.x, spot.y, 0, spot.yaw):
        front = where
        if theme == "office" and rng.random() < 0.7:
            screen(rng, kit).stand(scene, where.x, where.y + where.depth * 0.35, height, float(rng.normal(0, 0.15)))
            front = Footprint(where.x, where.y - where.depth * 0.15, where.width, where.depth * 0.6, where.yaw)
        strew(scene, rng, kit, front, height, int(rng.integers(5, 28)), theme, clearance)
