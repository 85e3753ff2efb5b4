"""Displays: things close before a wall, seen from an arm's length to a few steps away.

Depth differs by a tenth or two over the whole picture: boards, cloth, books, dolls and plants on a table at a wall,
what hangs on a wall, and clutter seen from above. Without them a network learns that every outline is a deep step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.scenes.clutter import book, small_thing
from omnidc.scenes.description import Material, PointLight, Rng, Scene, Viewpoint
from omnidc.scenes.layout import Floor
from omnidc.scenes.lights import draw_sky, lamp_color
from omnidc.scenes.materials import Kit, steel
from omnidc.scenes.piles import drop_things, random_shape
from omnidc.scenes.plants import potted_plant
from omnidc.scenes.primitives import box, boxes, folded_sheet, fractal_noise, grid, hanging, transformed, tube, turned
from omnidc.scenes.settle import HeightField

Floats = npt.NDArray[np.floating]

HALF = 2.6  # half the width of the back wall: no view sees past it
TALL = 3.2
KINDS = ("stand", "stand", "stand", "boards", "cloth", "hang", "above", "above")
_FACING = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])  # up (z) becomes out of the wall (−y)


def wrinkled(rng: Rng, width: float, depth: float, lift: float) -> tuple[Floats, Floats, Floats]:
    """Return xs, ys and heights of a sheet that was thrown down: hills and creases up to `lift` meters high."""
    n = 96
    hills, creases = fractal_noise(rng, n, rng.uniform(1.6, 2.4)), fractal_noise(rng, n, 1.5)
    heights = lift * (0.75 * hills + 0.25 * np.abs(2 * creases - 1))
    return np.linspace(-width / 2, width / 2, n), np.linspace(-depth / 2, depth / 2, n), heights


def surface(rng: Rng, kit: Kit) -> Material:
    """Choose the surface of a wall, board or table: paint, print, cloth, wood, brick."""
    if rng.random() < 0.25:
        return kit.wall(rng)
    role = str(rng.choice(["photo", "photo", "fabric", "fabric", "wood", "print", "wall", "facade", "floor"]))
    return kit.material(rng, role, tile=float(np.exp(rng.uniform(np.log(0.15), np.log(2)))))


def _lamps(scene: Scene, rng: Rng, above: bool) -> None:
    tone = lamp_color(rng)
    for _ in range(int(rng.integers(1, 4))):
        x, away, side = rng.normal(0, 1.3), rng.uniform(1.0, 3.0), rng.uniform(0.2, 2.2)
        place = (x, rng.normal(0, 1), away) if above else (x, -away, side)
        power, radius = float(rng.uniform(20, 120)), float(rng.choice([0.05, 0.25, 0.6]))
        scene.lights.append(PointLight((float(place[0]), float(place[1]), float(place[2])), power, tone, radius))


def _stand(scene: Scene, rng: Rng, kit: Kit, depth: float) -> None:
    """Add things on a table and on boxes of several heights at the wall."""
    width = float(rng.uniform(1.2, 2.4))
    floor = Floor(width, depth)
    theme = str(rng.choice(["living", "living", "office", "kitchen"]))
    for _ in range(int(rng.integers(0, 6))):
        wide, deep, tall = rng.uniform(0.15, 0.6), rng.uniform(0.1, 0.5) * depth, rng.uniform(0.04, 0.5)
        spot = floor.along_wall(rng, float(wide), float(deep), side=0)
        if spot is None:
            continue
        y = spot.y - depth / 2
        scene.add(box(spot.width, spot.depth, float(tall)), surface(rng, kit), (spot.x, y, 0))
        thing = small_thing(rng, kit, theme, float(min(wide, deep)))
        if max(thing.width, thing.depth) < min(spot.width, spot.depth):
            thing.stand(scene, spot.x, y, float(tall), float(rng.normal(0, 0.6)))
    for _ in range(int(rng.integers(12, 40))):
        chance = rng.random()
        scale = float(rng.uniform(0.8, 2.2))
        if chance < 0.12:
            thing = potted_plant(rng, kit, float(rng.uniform(0.2, 0.6)))
            scale = 1.0
        elif chance < 0.3:
            thing = book(rng, kit, upright=True)
            scale = 1.0
        else:
            thing = small_thing(rng, kit, theme, 0.3)
        spot = floor.anywhere(rng, thing.width * scale, thing.depth * scale, turned=True)
        if spot is not None:
            for shape, look in thing.parts:
                scene.add(shape, look, (spot.x, spot.y - depth / 2, 0), spot.yaw, scale=scale)


def _boards(scene: Scene, rng: Rng, kit: Kit, depth: float) -> None:
    """Add panels, pictures and books that lean against the wall, one row before the other."""
    rows = int(rng.integers(2, 5))
    for row in range(rows):
        foot = -depth * (row + rng.uniform(0.4, 0.9)) / rows
        x = -1.2 + rng.uniform(0, 0.5)
        while x < 1.2:
            wide, tall = float(rng.uniform(0.12, 0.7)), float(rng.uniform(0.15, 0.9) * (1 - 0.25 * row))
            thick = float(rng.uniform(0.004, 0.05))
            gap = -foot if row == 0 else 0.45 * depth / rows  # to the wall, or to the feet of the row behind
            lean = float(min(np.arcsin(min(0.9, gap / tall)), rng.uniform(0.05, 0.5)))
            board = boxes([(-wide / 2, 0, 0, wide / 2, thick, tall)])
            look = surface(rng, kit)
            scene.add(board, look, (x + wide / 2, foot, 0), rotation=(-lean, 0, float(rng.normal(0, 0.03))))
            x += wide * rng.uniform(1.0, 1.6) + 0.02


def _cloth(scene: Scene, rng: Rng, kit: Kit, depth: float) -> None:
    """Add curtains and thrown sheets, one before the other."""
    for layer in range(int(rng.integers(1, 4))):
        wide, tall = float(rng.uniform(0.5, 3.0)), float(rng.uniform(0.6, 2.4))
        deep = float(rng.uniform(0.01, 0.07))
        y = -min(depth, 0.1 + 0.22 * layer + float(rng.uniform(0, 0.1))) - deep
        sheet = folded_sheet(wide, tall, deep, float(rng.uniform(1, 6) * wide), rng)
        x = float(rng.normal(0, 0.5))
        scene.add(sheet, kit.material(rng, "fabric" if rng.random() < 0.7 else "photo"), (x, y, 0.02))
        rod = tube([(x - wide / 2 - 0.1, y, tall + 0.02), (x + wide / 2 + 0.1, y, tall + 0.02)], 0.012, 8)
        scene.add(rod, steel(rng))
    if rng.random() < 0.5:
        xs, ys, heights = wrinkled(rng, 3.0, depth + 0.6, float(rng.uniform(0.03, 0.2)))
        scene.add(grid(xs, ys, heights), kit.material(rng, "fabric"), (0, -depth / 2 - 0.3, 0.002))


def _hang(scene: Scene, rng: Rng, kit: Kit) -> None:
    """Add flat and bulging things on a wall, with cords between them."""
    if rng.random() < 0.4:  # the wall itself is rough: rock, crumpled paper, a relief
        xs, ys, heights = wrinkled(rng, 2 * HALF, TALL, float(rng.uniform(0.05, 0.3)))
        scene.add(transformed(grid(xs, ys, heights), (0, 0, TALL / 2), _FACING), surface(rng, kit))
        return
    wall = Floor(2.2, 1.8)
    for _ in range(int(rng.integers(6, 30))):
        size = float(np.exp(rng.uniform(np.log(0.06), np.log(0.6))))
        if rng.random() < 0.55:
            wide, high, thick = size, size * float(rng.uniform(0.4, 1.6)), float(rng.uniform(0.004, 0.08))
            shape = boxes([(-wide / 2, -high / 2, 0, wide / 2, high / 2, thick)])
        else:
            solid = random_shape(rng, kit, size)
            low, up = solid.bounds
            shape = transformed(solid, -(low + up) / 2 * (1, 1, 0) - (0, 0, low[2] + 0.2 * (up[2] - low[2])))
        wide, high, _ = shape.bounds[1] - shape.bounds[0]
        spot = wall.anywhere(rng, float(wide), float(high))
        if spot is not None:
            facing = transformed(shape, matrix=_FACING @ turned(spot.yaw))
            scene.add(facing, surface(rng, kit), (spot.x, 0, 1.2 + spot.y))
    for _ in range(int(rng.integers(0, 5))):
        z = rng.uniform(0.4, 2.2, 2)
        cord = hanging((-1.5, -0.04, z[0]), (1.5, -rng.uniform(0.03, 0.3), z[1]), float(rng.uniform(0, 0.5)), 20)
        scene.add(tube(cord, float(rng.uniform(0.002, 0.01)), 6), steel(rng))


def _above(scene: Scene, rng: Rng, kit: Kit) -> None:
    """Add clutter on a floor or table top, or a thrown cloth, to be looked down upon."""
    if rng.random() < 0.3:
        xs, ys, heights = wrinkled(rng, 2 * HALF, 2 * HALF, float(rng.uniform(0.05, 0.25)))
        scene.add(grid(xs, ys, heights), kit.material(rng, "fabric" if rng.random() < 0.5 else "photo"), (0, 0, 0.002))
        return
    low = float(rng.uniform(0.05, 0.15))
    drop_things(scene, rng, kit, HeightField.flat(1.6), 0.5, int(rng.integers(25, 90)), (low, 2.5 * low))


def build_display(rng: Rng, kit: Kit) -> Scene:
    """Build one wall, the things before it, and a camera that faces it."""
    scene = Scene("display", nearest=0.35)
    draw_sky(rng, kit, scene, outdoors=False)
    kind = KINDS[int(rng.integers(len(KINDS)))]
    above = kind == "above"
    scene.add(boxes([(-HALF, 0, -0.1, HALF, 0.1, TALL)]), surface(rng, kit), (0, HALF if above else 0, 0))
    scene.add(boxes([(-6, -8, -0.1, 6, HALF if above else 0, 0)]), surface(rng, kit))
    _lamps(scene, rng, above)
    depth = float(rng.uniform(0.25, 0.8))
    if kind == "stand":
        _stand(scene, rng, kit, depth)
    elif kind == "boards":
        _boards(scene, rng, kit, depth)
    elif kind == "cloth":
        _cloth(scene, rng, kit, depth)
    elif kind == "hang":
        _hang(scene, rng, kit)
    else:
        _above(scene, rng, kit)
    middle = 0.3 if kind in ("stand", "boards") else 1.1

    def draw(rng: Rng) -> Viewpoint:
        away = float(np.exp(rng.uniform(np.log(0.9), np.log(3.0))))
        side = rng.normal(0, 0.3)
        if above:
            target = np.array([*rng.normal(0, 0.25, 2), 0.0])
            slant = abs(rng.normal(0, 0.3))
            turn = rng.uniform(0, 6.3)
            out = np.array([np.cos(turn) * np.sin(slant), np.sin(turn) * np.sin(slant), np.cos(slant)])
            roll = rng.uniform(-3, 3)
        else:
            target = np.array([rng.normal(0, 0.3), -depth / 2, middle + rng.normal(0, 0.12)])
            rise = rng.uniform(0.0, 0.35) if kind in ("stand", "boards") else rng.normal(0, 0.2)
            out = np.array([np.sin(side) * np.cos(rise), -np.cos(side) * np.cos(rise), np.sin(rise)])
            roll = rng.normal(0, 0.05)
        eye = target + away * out
        eye[2] = max(eye[2], 0.06)
        return Viewpoint(
            (float(eye[0]), float(eye[1]), float(eye[2])),
            (float(target[0]), float(target[1]), float(target[2])),
            float(roll),
            "portrait",
        )

    scene.viewpoints = draw
    return scene
