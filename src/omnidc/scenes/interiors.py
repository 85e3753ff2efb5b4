"""The shell that all indoor worlds share: walls with openings, windows, doors, ceiling, light, and what is outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from omnidc.scenes.description import AreaLight, Material, Rng, Scene, Viewpoint, rotation_matrix
from omnidc.scenes.layout import WALL_YAWS, Floor
from omnidc.scenes.lights import ceiling_lamps, draw_sky
from omnidc.scenes.materials import Kit, mirror, plain, steel, wall_paint
from omnidc.scenes.plants import tree
from omnidc.scenes.primitives import Box, boxes, folded_sheet, lathe, merge, tube

WALL = 0.15  # thickness


@dataclass(frozen=True)
class Opening:
    """A hole in a wall, in the wall's own axes: x along it, z up."""

    x0: float
    z0: float
    x1: float
    z1: float
    kind: str  # "window", "door" or "passage"


@dataclass
class Room:
    """A shell, the floor that is left to stand on, and the holes of each wall (0 +y, 1 +x, 2 −y, 3 −x)."""

    width: float
    depth: float
    height: float
    floor: Floor
    openings: list[list[Opening]]

    def wall_origin(self, side: int) -> tuple[float, float, float]:
        """Return the middle of a wall's foot, on its inner face."""
        return [(0, self.depth / 2, 0), (self.width / 2, 0, 0), (0, -self.depth / 2, 0), (-self.width / 2, 0, 0)][side]

    def wall_length(self, side: int) -> float:
        """Return the length of a wall inside the room."""
        return self.width if side % 2 == 0 else self.depth

    def on_wall(self, side: int, x: float, y: float, z: float) -> tuple[float, float, float]:
        """Convert a point from a wall's axes (y points out of the room) to the world's."""
        turned = rotation_matrix((0, 0, WALL_YAWS[side])) @ (x, y, z)
        px, py, pz = np.asarray(self.wall_origin(side)) + turned
        return float(px), float(py), float(pz)


def draw_openings(rng: Rng, length: float, height: float, windows: float, doors: float) -> list[Opening]:
    """Draw windows and doors of one wall, left to right, without overlap. `windows`, `doors`: share of bays."""
    bays = max(1, int(length / rng.uniform(1.6, 3.0)))
    bay = length / bays
    style = (rng.uniform(0.5, 0.9), rng.choice([0.03, 0.5, 0.9, 1.0]), rng.uniform(0.9, 1.7))
    found = []
    for k in range(bays):
        middle = -length / 2 + (k + 0.5) * bay
        chance = rng.random()
        if chance < doors and bay > 1.1:
            half = rng.uniform(0.4, 0.5)
            kind = "passage" if rng.random() < 0.3 else "door"
            found.append(Opening(middle - half, 0.0, middle + half, min(rng.uniform(1.98, 2.1), height - 0.15), kind))
        elif chance < doors + windows:
            half = min(bay * style[0] / 2, bay / 2 - 0.1)
            top = min(style[1] + style[2], height - 0.2)
            if half > 0.2 and top - style[1] > 0.3:
                found.append(Opening(middle - half, style[1], middle + half, top, "window"))
    return found


def wall_boxes(length: float, height: float, openings: list[Opening], thickness: float = WALL) -> list[Box]:
    """Return boxes of the wall around its openings; inner face at y = 0."""
    found: list[Box] = []
    left = -length / 2
    for hole in sorted(openings, key=lambda hole: hole.x0):
        found.append((left, 0, 0, hole.x0, thickness, height))
        found.append((hole.x0, 0, 0, hole.x1, thickness, hole.z0))
        found.append((hole.x0, 0, hole.z1, hole.x1, thickness, height))
        left = hole.x1
    found.append((left, 0, 0, length / 2, thickness, height))
    return [b for b in found if b[3] - b[0] > 1e-3 and b[5] - b[2] > 1e-3]


def _frame_boxes(rng: Rng, hole: Opening) -> list[Box]:
    """Return boxes of frame, glazing bars or door leaf of an opening."""
    bar = float(rng.uniform(0.04, 0.08))
    deep = (-0.015, WALL + 0.01)
    found: list[Box] = [
        (hole.x0, deep[0], hole.z0, hole.x0 + bar, deep[1], hole.z1),
        (hole.x1 - bar, deep[0], hole.z0, hole.x1, deep[1], hole.z1),
        (hole.x0, deep[0], hole.z1 - bar, hole.x1, deep[1], hole.z1),
    ]
    if hole.kind == "window":
        found.append((hole.x0 - 0.03, -0.06, hole.z0, hole.x1 + 0.03, deep[1], hole.z0 + 0.03))
        columns, rows = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        for k in range(1, columns):
            x = hole.x0 + (hole.x1 - hole.x0) * k / columns
            found.append((x - 0.02, 0.06, hole.z0, x + 0.02, 0.1, hole.z1))
        for k in range(1, rows):
            z = hole.z0 + (hole.z1 - hole.z0) * k / rows
            found.append((hole.x0, 0.065, z - 0.015, hole.x1, 0.095, z + 0.015))
    return found


def _door(scene: Scene, rng: Rng, room: Room, side: int, hole: Opening, look: Material) -> None:
    """Add a leaf, shut or ajar into the room, with panels and a handle."""
    width, height = hole.x1 - hole.x0 - 0.08, hole.z1 - 0.05
    parts = [(0.0, 0.0, 0.01, width, 0.04, height)]
    panels = int(rng.integers(0, 4))
    for k in range(panels):
        z0, z1 = height * (k + 0.12) / panels, height * (k + 0.88) / panels
        parts += [(0.1, -0.008, z0, width - 0.1, 0.0, z0 + 0.03), (0.1, -0.008, z1 - 0.03, width - 0.1, 0.0, z1)]
    ajar = float(rng.choice([0, 0, rng.uniform(0.2, 1.6)]))
    position = room.on_wall(side, hole.x0 + 0.04, 0.03 if ajar == 0 else -0.02, 0)
    yaw = WALL_YAWS[side] - ajar
    scene.add(boxes(parts), look, position, yaw)
    handle = merge(
        [
            tube([(width - 0.07, -0.05, 1.02), (width - 0.17, -0.05, 1.02)], 0.009, 6),
            tube([(width - 0.07, 0.0, 1.02), (width - 0.07, -0.05, 1.02)], 0.009, 6),
        ]
    )
    scene.add(handle, steel(rng), position, yaw)


def _dress_window(
    scene: Scene, rng: Rng, kit: Kit, room: Room, side: int, hole: Opening, curtain: Material | None, blinds: bool
) -> None:
    middle, yaw = (hole.x0 + hole.x1) / 2, WALL_YAWS[side]
    if curtain is not None:
        top = min(hole.z1 + 0.2, room.height - 0.04)
        low = 0.03 if rng.random() < 0.5 else max(0.03, hole.z0 - 0.2)
        wide = float(rng.uniform(0.25, 0.6))
        for sign in (-1, 1):
            x = middle + sign * ((hole.x1 - hole.x0) / 2 + rng.uniform(-0.3, 0.15) * wide)
            sheet = folded_sheet(wide, top - low, 0.035, float(rng.uniform(3, 7)), rng)
            scene.add(sheet, curtain, room.on_wall(side, x, -0.1, low), yaw)
        rod = tube([(hole.x0 - 0.3, 0, 0), (hole.x1 + 0.3, 0, 0)], 0.012, 8)
        scene.add(rod, steel(rng), room.on_wall(side, 0, -0.1, top), yaw)
    elif blinds:
        slats = np.arange(hole.z0 + rng.uniform(0, 0.7) * (hole.z1 - hole.z0), hole.z1, 0.045)
        bars: list[Box] = [(hole.x0 + 0.02, -0.045, z, hole.x1 - 0.02, -0.015, z + 0.004) for z in slats]
        scene.add(boxes(bars), Material(color=(0.7, 0.7, 0.68), roughness=0.5), room.on_wall(side, 0, 0, 0), yaw)


def outside(scene: Scene, rng: Rng, kit: Kit, reach: float) -> None:
    """Add ground, blocks and trees that are visible through windows and doors."""
    low = -float(rng.choice([0.15, 0.3, 4, 9]))
    role = str(rng.choice(["grass", "pavement", "road"]))
    scene.add(boxes([(-300, -300, low - 0.2, 300, 300, low)]), kit.material(rng, role, tile=4.0))
    for _ in range(int(rng.integers(0, 7))):
        angle, side, tall = rng.uniform(0, 6.3), rng.uniform(5, 14), rng.uniform(3, 18)
        away = reach + side + rng.uniform(4, 40)
        block = boxes([(-side / 2, -side / 2, low, side / 2, side / 2, low + tall)])
        scene.add(block, kit.material(rng, "facade"), (np.cos(angle) * away, np.sin(angle) * away, 0), float(angle))
    if rng.random() < 0.6:
        plant = tree(rng, kit, float(rng.uniform(3, 8)))
        for _ in range(int(rng.integers(1, 4))):
            angle, away = rng.uniform(0, 6.3), reach + rng.uniform(2, 14)
            for shape, look in plant.parts:
                scene.add(shape, look, (np.cos(angle) * away, np.sin(angle) * away, low), float(angle))


def build_shell(
    scene: Scene,
    rng: Rng,
    kit: Kit,
    width: float,
    depth: float,
    height: float,
    windows: float = 0.4,
    doors: float = 0.15,
    lamps: float = 1.0,
) -> Room:
    """Build walls, floor, ceiling, windows, doors, sky and lamps of a room around the origin."""
    room = Room(width, depth, height, Floor(width, depth), [])
    windows *= float(rng.choice([0, 0.5, 1]))  # most photographs of rooms do not look outside
    first = kit.wall(rng)
    walls = [first, first, first, first]
    if rng.random() < 0.25:
        walls[int(rng.integers(4))] = kit.wall(rng)
    trim = wall_paint(rng) if rng.random() < 0.5 else kit.material(rng, "wood")
    leaf = trim if rng.random() < 0.5 else kit.material(rng, "wood")
    floor = kit.material(rng, "floor")
    scene.add(boxes([(-width / 2 - WALL, -depth / 2 - WALL, -0.1, width / 2 + WALL, depth / 2 + WALL, 0)]), floor)
    cover = wall_paint(rng) if rng.random() < 0.75 else kit.material(rng, "ceiling")
    scene.add(
        boxes([(-width / 2 - WALL, -depth / 2 - WALL, height, width / 2 + WALL, depth / 2 + WALL, height + 0.1)]), cover
    )
    curtain = kit.material(rng, "fabric") if rng.random() < 0.35 else None
    blinds = bool(rng.random() < 0.2)
    skirting = float(rng.uniform(0.05, 0.12)) if rng.random() < 0.75 else 0.0
    any_hole = False
    for side in range(4):
        length = room.wall_length(side)
        # at most three walls have windows: one is the neighbor's
        holes = draw_openings(rng, length, height, windows if side < 3 else 0.0, doors)
        room.openings.append(holes)
        any_hole |= bool(holes)
        origin, yaw = room.wall_origin(side), WALL_YAWS[side]
        # walls overlap at corners, so that no light leaks in
        scene.add(boxes(wall_boxes(length + 2 * WALL * (side % 2), height, holes)), walls[side], origin, yaw)
        bars = [bar for hole in holes for bar in _frame_boxes(rng, hole)]
        if skirting:
            solid = wall_boxes(length, skirting, [hole for hole in holes if hole.z0 == 0], 0.012)
            bars += [(x0, -0.012, z0, x1, 0.0, z1) for x0, _, z0, x1, _, z1 in solid]
        if bars:
            scene.add(boxes(bars), trim, origin, yaw)
        for hole in holes:
            if hole.kind == "door":
                _door(scene, rng, room, side, hole, leaf)
            elif hole.kind == "window":
                _dress_window(scene, rng, kit, room, side, hole, curtain, blinds)
    draw_sky(rng, kit, scene, outdoors=False)
    if any_hole:
        outside(scene, rng, kit, max(width, depth) / 2)
    _light(scene, rng, room, lamps)
    return room


def _light(scene: Scene, rng: Rng, room: Room, lamps: float) -> None:
    """Add daylight from the windows as soft boxes outside them, and lamps where it is dark."""
    windows = [(side, hole) for side, holes in enumerate(room.openings) for hole in holes if hole.kind == "window"]
    day = bool(windows) and not scene.sky.night
    if day:
        strength = rng.uniform(25, 110)
        for side, hole in windows:
            wide, tall = hole.x1 - hole.x0, hole.z1 - hole.z0
            position = room.on_wall(side, (hole.x0 + hole.x1) / 2, 0.25, (hole.z0 + hole.z1) / 2)
            rotation = (-np.pi / 2, 0.0, WALL_YAWS[side])
            scene.lights.append(
                AreaLight(position, (wide, tall), float(strength * wide * tall), (0.85, 0.93, 1.0), rotation)
            )
    if not day or rng.random() < 0.45:
        ceiling_lamps(rng, scene, room.width, room.depth, room.height, lamps)


def hang_pictures(scene: Scene, rng: Rng, kit: Kit, room: Room, count: int) -> None:
    """Add framed pictures, boards and, rarely, a mirror, where no window is and each beside the other."""
    hung: list[tuple[int, float, float]] = []
    for _ in range(count):
        side = int(rng.integers(4))
        wide, tall = float(rng.uniform(0.25, 1.3)), float(rng.uniform(0.25, 0.9))
        room_left = room.wall_length(side) - wide - 0.3
        if room_left <= 0:
            continue
        x, z = float(rng.uniform(-0.5, 0.5) * room_left), float(rng.uniform(1.35, 1.75))
        x0, x1 = x - wide / 2 - 0.06, x + wide / 2 + 0.06
        clash = any(hole.x0 < x1 and hole.x1 > x0 for hole in room.openings[side])
        clash |= any(other == side and a < x1 and b > x0 for other, a, b in hung)
        if clash or z + tall / 2 > room.height - 0.1:
            continue
        hung.append((side, x0, x1))
        position, yaw = room.on_wall(side, x, 0, z - tall / 2), WALL_YAWS[side]
        face = boxes([(-wide / 2, -0.016, 0, wide / 2, -0.002, tall)])
        look = mirror() if rng.random() < 0.1 else kit.material(rng, "photo", tile=max(wide, tall), fitted=True)
        scene.add(face, look, position, yaw)
        bar = float(rng.uniform(0.015, 0.05))
        frame: list[Box] = [
            (-wide / 2 - bar, -0.028, -bar, -wide / 2, 0, tall + bar),
            (wide / 2, -0.028, -bar, wide / 2 + bar, 0, tall + bar),
            (-wide / 2, -0.028, -bar, wide / 2, 0, 0),
            (-wide / 2, -0.028, tall, wide / 2, 0, tall + bar),
        ]
        if rng.random() < 0.8:
            scene.add(boxes(frame), plain(rng), position, yaw)


def wall_pipes(scene: Scene, rng: Rng, room: Room) -> None:
    """Add pipes, ducts or cables under the ceiling and down the walls."""
    radius = float(rng.choice([rng.uniform(0.004, 0.01), rng.uniform(0.01, 0.06)]))
    look = steel(rng)
    z = room.height - radius - rng.uniform(0.02, 0.3)
    lines = []
    for _ in range(int(rng.integers(1, 5))):
        y = rng.uniform(-0.48, 0.48) * room.depth
        lines.append([(-room.width / 2, y, z), (room.width / 2, y, z)])
    for _ in range(int(rng.integers(0, 3))):
        x = rng.uniform(-0.45, 0.45) * room.width
        y = (room.depth / 2 - radius - 0.01) * rng.choice([-1, 1])
        lines.append([(x, y, 0), (x, y, room.height)])
    scene.add(merge([tube(line, radius, 8) for line in lines]), look)


def hanging_lamps(scene: Scene, rng: Rng, room: Room) -> None:
    """Add lamps on thin cords over the middle."""
    shade = lathe([(rng.uniform(0.08, 0.25), 0), (0.04, rng.uniform(0.1, 0.25))])
    look, cord = plain(rng), steel(rng)
    for _ in range(int(rng.integers(1, 4))):
        x, y = rng.normal(0, 0.25, 2) * (room.width / 2, room.depth / 2)
        low = room.height - rng.uniform(0.4, 1.1)
        scene.add(shade, look, (float(x), float(y), float(low)))
        scene.add(tube([(0, 0, 0.05), (0, 0, room.height - low)], 0.004, 5), cord, (float(x), float(y), float(low)))


def room_views(room: Room, lens: str = "indoor") -> Callable[[Rng], Viewpoint]:
    """Return a sampler of views as people take them: anywhere in the room, mostly across it; a third at one wall."""

    def facing(rng: Rng) -> Viewpoint:
        side = int(rng.integers(4))
        along = float(rng.uniform(-0.4, 0.4)) * room.wall_length(side)
        away = float(rng.uniform(0.9, min(2.8, 0.9 * room.wall_length(side + 1 & 3))))
        spot = room.on_wall(side, along, 0, float(rng.uniform(0.3, 1.6)))
        shift = float(rng.normal(0, 0.35)) * away
        x, y, z = room.on_wall(side, along + shift, -away, float(rng.uniform(0.5, 1.9)))
        x, y = np.clip(
            (x, y), (0.2 - room.width / 2, 0.2 - room.depth / 2), (room.width / 2 - 0.2, room.depth / 2 - 0.2)
        )
        glass = "portrait" if rng.random() < 0.4 else lens
        return Viewpoint((float(x), float(y), min(z, room.height - 0.2)), spot, float(rng.normal(0, 0.06)), glass)

    def draw(rng: Rng) -> Viewpoint:
        if rng.random() < 0.33:
            return facing(rng)
        x, y = rng.uniform(-0.5, 0.5, 2) * (room.width - 0.4, room.depth - 0.4)
        z = rng.uniform(0.4, min(2.2, room.height - 0.2))
        if rng.random() < 0.7:
            target = (rng.normal(0, room.width * 0.2), rng.normal(0, room.depth * 0.2), rng.uniform(0.1, 1.5))
        else:
            angle = rng.uniform(0, 6.3)
            target = (x + np.cos(angle), y + np.sin(angle), z + rng.normal(-0.2, 0.35))
        return Viewpoint((x, y, z), target, float(rng.normal(0, 0.06)), lens)

    return draw
