"""Small things, and strewing them over surfaces so that none floats and none is inside another."""

from __future__ import annotations

import numpy as np

from omnidc.scenes.description import Material, Mesh, Rng, Scene, rotation_matrix
from omnidc.scenes.furniture import Piece
from omnidc.scenes.layout import Floor, Footprint
from omnidc.scenes.materials import Kit, plain, steel
from omnidc.scenes.plants import potted_plant
from omnidc.scenes.primitives import box, boxes, chamfered_box, lathe, lying_cable, merge, sphere, transformed, tube

THEMES = {
    "kitchen": ("kitchen small",),
    "office": ("office small",),
    "living": ("office small", "toy", "kitchen small", "table lamp"),
    "bathroom": ("bathroom small",),
}


def vessel(rng: Rng, kit: Kit) -> Piece:
    """Make a cup, bottle, bowl, vase or can turned on a lathe."""
    radius, height = rng.uniform(0.02, 0.06), rng.uniform(0.05, 0.3)
    form = rng.choice(["can", "bottle", "bowl", "vase", "cup"])
    if form == "can":
        profile = [(1e-4, 0), (radius, 0), (radius, height), (1e-4, height)]
    elif form == "bottle":
        neck, top = radius * rng.uniform(0.25, 0.5), height * rng.uniform(0.55, 0.75)
        profile = [(1e-4, 0), (radius, 0.004), (radius, top), (neck, top + radius), (neck, height), (1e-4, height)]
    elif form == "bowl":
        radius, height = radius * 2.2, height * 0.35
        outer = [(radius * np.sin(t), height * (1 - np.cos(t))) for t in np.linspace(0.25, np.pi / 2, 8)]
        profile = [(1e-4, 0), *outer, *[(r * 0.93, z + 0.004) for r, z in reversed(outer)], (1e-4, 0.006)]
    elif form == "vase":
        zs = np.linspace(0, height, 10)
        swell = radius * (0.7 + 0.35 * np.sin(zs / height * rng.uniform(2, 5) + rng.uniform(0, 3)))
        profile = [(1e-4, 0), *zip(swell, zs)]
    else:
        inner = radius * 0.9
        profile = [
            (1e-4, 0),
            (radius, 0.003),
            (radius, height * 0.5),
            (inner, height * 0.5),
            (inner, 0.008),
            (1e-4, 0.008),
        ]
    shape = lathe(profile)
    reach = float(shape.bounds[1, 0] - shape.bounds[0, 0])
    look = plain(rng) if rng.random() < 0.6 else kit.material(rng, "print", tile=float(height * 2))
    return Piece(reach, reach, float(shape.bounds[1, 2]), [(shape, look)])


def book(rng: Rng, kit: Kit, upright: bool = False) -> Piece:
    """Make a book that lies, or stands on its edge with its spine to −y."""
    long, wide, thick = rng.uniform(0.17, 0.32), rng.uniform(0.12, 0.23), rng.uniform(0.008, 0.05)
    cover = plain(rng) if rng.random() < 0.6 else kit.material(rng, "print", tile=float(rng.uniform(0.1, 0.3)))
    if upright:
        return Piece(thick, wide, long, [(chamfered_box(thick, wide, long, 0.002), cover)])
    return Piece(wide, long, thick, [(chamfered_box(wide, long, thick, 0.002), cover)])


def book_stack(rng: Rng, kit: Kit) -> Piece:
    """Make two to five lying books."""
    parts: list[tuple[Mesh, Material]] = []
    height = 0.0
    for _ in range(int(rng.integers(2, 6))):
        one = book(rng, kit)
        shape, cover = one.parts[0]
        assert isinstance(shape, Mesh)
        assert cover is not None
        parts.append((transformed(shape, (0, 0, height), rotation_matrix((0, 0, rng.normal(0, 0.15)))), cover))
        height += one.height
    return Piece(0.27, 0.34, height, list(parts))


def package(rng: Rng, kit: Kit) -> Piece:
    """Make a carton or toy block."""
    width, depth, height = rng.uniform(0.04, 0.22, 3)
    return Piece(width, depth, height, [(chamfered_box(width, depth, height, 0.003), kit.anything(rng, 0.3))])


def pen_pot(rng: Rng, kit: Kit) -> Piece:
    """Make a beaker with thin sticks: pens, brushes, cutlery."""
    beaker = lathe([(1e-4, 0), (0.035, 0), (0.038, 0.1), (0.034, 0.1), (0.032, 0.005), (1e-4, 0.005)])
    sticks = []
    for _ in range(int(rng.integers(3, 10))):
        x, y, lean_x, lean_y = rng.normal(0, 0.011, 4)
        path = [(x, y, 0.006), (x + lean_x * 1.5, y + lean_y * 1.5, rng.uniform(0.14, 0.22))]
        sticks.append((tube(path, float(rng.uniform(0.002, 0.005)), 6), plain(rng)))
    return Piece(0.1, 0.1, 0.2, [(beaker, plain(rng)), *sticks])


def screen(rng: Rng, kit: Kit) -> Piece:
    """Make a monitor or television on a foot, on or off; it faces −y."""
    width = float(rng.uniform(0.4, 0.9))
    height = width * 0.6
    dark = Material(color=(0.02, 0.02, 0.022), roughness=0.35)
    case = merge(
        [
            transformed(boxes([(-width / 2, 0, 0, width / 2, 0.03, height)]), (0, 0, 0.1)),
            boxes([(-0.03, 0, 0, 0.03, 0.02, 0.12), (-0.12, -0.08, 0, 0.12, 0.08, 0.012)]),
        ]
    )
    face = boxes([(-width / 2 + 0.012, -0.002, 0.112, width / 2 - 0.012, 0, 0.088 + height)])
    shown = Material(texture=kit.texture(rng, "print"), tile=width, emission=float(rng.uniform(0.5, 3)))
    return Piece(
        width,
        0.2,
        height + 0.1,
        [(case, dark), (face, shown if rng.random() < 0.6 else Material(color=(0.01, 0.01, 0.012), roughness=0.1))],
    )


def ball(rng: Rng, kit: Kit) -> Piece:
    """Make a ball or fruit."""
    radius = float(rng.uniform(0.02, 0.09))
    return Piece(
        2 * radius,
        2 * radius,
        2 * radius,
        [(sphere(radius), plain(rng) if rng.random() < 0.6 else kit.anything(rng, 0.3))],
    )


def small_thing(rng: Rng, kit: Kit, theme: str, largest: float) -> Piece:
    """Make anything of a theme of `THEMES` that is no larger than `largest` meters (some are cut short)."""
    if rng.random() < 0.6:
        model = kit.model(rng, *THEMES[theme], widest=largest, highest=max(largest, 0.3))
        if model is not None:
            return Piece(model.width, model.depth, model.height, [(model, None)])
    if rng.random() < 0.2:
        size = float(rng.uniform(0.05, min(0.25, largest)))
        solid = kit.solid(rng, size)
        if solid is not None:
            low, high = solid.bounds
            width, depth, height = (float(side) for side in high - low)
            return Piece(width, depth, height, [(solid, kit.anything(rng, 0.3))])
    maker = [vessel, vessel, book, book_stack, package, pen_pot, ball][int(rng.integers(7))]
    return maker(rng, kit)


def strew(
    scene: Scene,
    rng: Rng,
    kit: Kit,
    support: Footprint,
    height: float,
    count: int,
    theme: str,
    clearance: float = 1.0,
    largest: float = 0.5,
) -> None:
    """Stand up to `count` small things on a rectangle at `height`; each has its own place."""
    floor = Floor(support.width, support.depth)
    c, s = np.cos(support.yaw), np.sin(support.yaw)
    for _ in range(count):
        thing = potted_plant(rng, kit) if rng.random() < 0.06 else small_thing(rng, kit, theme, largest)
        if thing.height > clearance:
            continue
        spot = floor.anywhere(rng, thing.width, thing.depth, turned=bool(rng.random() < 0.5))
        if spot is not None:
            x, y = support.x + c * spot.x - s * spot.y, support.y + s * spot.x + c * spot.y
            thing.stand(scene, float(x), float(y), height, support.yaw + spot.yaw)
    if rng.random() < 0.15 and min(support.width, support.depth) > 0.4:
        cable = lying_cable(rng, (0, 0, 0), float(rng.uniform(0.3, 0.6)), float(rng.uniform(0.002, 0.005)))
        reach = np.abs(cable.vertices[:, :2]).max()
        if reach < min(support.width, support.depth) / 2:
            scene.add(cable, steel(rng), (support.x, support.y, height), support.yaw)


def fill_shelf(
    scene: Scene, rng: Rng, kit: Kit, support: Footprint, height: float, clearance: float, theme: str
) -> None:
    """Add a row of upright books, or small things, or nothing."""
    kind = rng.random()
    if kind < 0.2:
        return
    if kind < 0.6:
        c, s = np.cos(support.yaw), np.sin(support.yaw)
        x, end = -support.width / 2, support.width * rng.uniform(-0.2, 0.5)
        for _ in range(100):
            one = book(rng, kit, upright=True)
            if x + one.width > end:
                return
            if one.height < clearance and one.depth + 0.02 < support.depth:
                u, v = x + one.width / 2, -support.depth / 2 + one.depth / 2 + rng.uniform(0, 0.02)
                one.stand(
                    scene, float(support.x + c * u - s * v), float(support.y + s * u + c * v), height, support.yaw
                )
                x += one.width + 0.001
        return
    strew(scene, rng, kit, support, height, int(rng.integers(1, 6)), theme, clearance, largest=min(0.4, support.depth))


def floor_cable(scene: Scene, rng: Rng, floor: Floor) -> None:
    """Add a cable on the floor near the middle of the room, where it does not run through a wall."""
    start = (*rng.normal(0, 0.8, 2), 0.0)
    cable = lying_cable(rng, start, float(rng.uniform(0.8, 3)), float(rng.uniform(0.003, 0.008)))
    if (np.abs(cable.vertices[:, :2]).max(axis=0) < (floor.width / 2, floor.depth / 2)).all():
        scene.add(cable, steel(rng))


def rug(scene: Scene, rng: Rng, kit: Kit, floor: Floor, x: float, y: float) -> None:
    """Add a carpet of about a centimeter, unless it would reach into a wall."""
    width, depth = rng.uniform(0.8, 2.6, 2)
    material = kit.material(rng, "fabric" if rng.random() < 0.7 else "photo", tile=float(rng.uniform(0.4, 2)))
    spot = Footprint(x, y, float(width), float(depth), float(rng.choice([0, rng.uniform(0, 6.3)])))
    if floor.inside(spot):
        scene.add(box(spot.width, spot.depth, 0.012), material, (x, y, 0), spot.yaw)
