"""Houses with real openings: recessed windows, doors, balconies, cornices and roofs."""

from __future__ import annotations

from omnidc.scenes.description import Material, Rng, Scene
from omnidc.scenes.materials import Kit, dark_glass, glowing, plain, steel
from omnidc.scenes.primitives import Box, boxes, mesh

FOOTING = 3.0  # meters below ground, so that houses on slopes do not float


def facade(rng: Rng, length: float, height: float, depth: float) -> dict[str, list[Box]]:
    """Return the boxes of one street side, facing −y at y = 0: wall, trim, glass and rails."""
    floors = max(1, int(height / rng.uniform(2.7, 3.6)))
    story = height / floors
    columns = max(1, int(length / rng.uniform(1.8, 3.5)))
    bay = length / columns
    wide, tall = bay * rng.uniform(0.35, 0.75), story * rng.uniform(0.4, 0.7)
    recess, bars = rng.uniform(0.05, 0.3), rng.random() < 0.7
    shop = rng.random() < 0.3
    cornice, balconies = rng.random() < 0.4, rng.random() < 0.35
    parts: dict[str, list[Box]] = {"wall": [], "trim": [], "glass": [], "rail": []}
    for floor in range(floors):
        ground = floor == 0
        z = floor * story
        w, t = (bay * 0.85, story * 0.75) if shop and ground else (wide, tall)
        z0 = z + (0.3 if shop and ground else (story - t) / 2)
        z1 = min(z0 + t, z + story - 0.1)
        parts["wall"] += [
            (-length / 2, 0, z, length / 2, depth, z0),
            (-length / 2, 0, z1, length / 2, depth, z + story),
        ]
        left = -length / 2
        for k in range(columns):
            x = -length / 2 + (k + 0.5) * bay
            x0, x1 = x - w / 2, x + w / 2
            parts["wall"].append((left, 0, z0, x0, depth, z1))
            left = x1
            if ground and rng.random() < 0.2:  # a door instead of a window
                parts["trim"] += [(x0, recess, z, x1, recess + 0.05, z1), (x0 - 0.08, -0.03, z, x0, recess, z1 + 0.08)]
                continue
            parts["glass"].append((x0, recess, z0, x1, recess + 0.02, z1))
            parts["trim"].append((x0 - 0.06, -0.09, z0 - 0.07, x1 + 0.06, recess, z0))
            if bars:
                parts["trim"].append((x - 0.03, recess - 0.04, z0, x + 0.03, recess, z1))
                parts["trim"].append((x0, recess - 0.04, (z0 + z1) / 2 - 0.02, x1, recess, (z0 + z1) / 2 + 0.02))
        parts["wall"].append((left, 0, z0, length / 2, depth, z1))
        if cornice:
            parts["trim"].append((-length / 2, -0.14, z + story - 0.16, length / 2, 0, z + story))
        if floor and balconies and length > 3.5:
            for x in rng.uniform(-length / 2 + 1.2, length / 2 - 1.2, int(rng.integers(0, 3))):
                parts["trim"].append((x - 1, -0.9, z - 0.12, x + 1, 0, z))
                parts["rail"] += [(x - 1 + 0.1 * k, -0.9, z, x - 0.985 + 0.1 * k, -0.885, z + 0.95) for k in range(21)]
                parts["rail"].append((x - 1, -0.92, z + 0.95, x + 1, -0.87, z + 1))
    return parts


def build_house(
    scene: Scene,
    rng: Rng,
    kit: Kit,
    position: tuple[float, float, float],
    yaw: float,
    length: float,
    depth: float,
    height: float,
) -> None:
    """Build a house whose front is at `position`, facing −y before the turn."""
    skin = 0.4
    parts = facade(rng, length, height, skin)
    wall = kit.material(rng, "facade")
    parts["wall"] += [
        (-length / 2, skin, 0, length / 2, depth, height),
        (-length / 2, 0, -FOOTING, length / 2, depth, 0),
    ]
    glass = dark_glass(rng)
    if scene.sky.night and rng.random() < 0.6:
        glass = glowing((1.0, 0.8, 0.5), float(rng.uniform(0.1, 0.6)))
    looks: dict[str, Material] = {"wall": wall, "trim": plain(rng), "glass": glass, "rail": steel(rng)}
    for name, extents in parts.items():
        if extents:
            scene.add(boxes(extents), looks[name], position, yaw)
    roof = rng.random()
    if roof < 0.45:
        rise, over = rng.uniform(1, 3.5), 0.4
        x, y0, y1 = length / 2 + over, -over, depth + over
        points = [
            (-x, y0, height),
            (x, y0, height),
            (x, y1, height),
            (-x, y1, height),
            (-x, (y0 + y1) / 2, height + rise),
            (x, (y0 + y1) / 2, height + rise),
        ]
        shape = mesh(points, [(0, 1, 5, 4), (2, 3, 4, 5), (3, 2, 1, 0)], [(0, 4, 3), (1, 2, 5)])
        scene.add(shape, kit.material(rng, "roof"), position, yaw)
    else:
        extras: list[Box] = [(-length / 2, 0, height, length / 2, 0.25, height + rng.uniform(0.3, 1))]
        for _ in range(int(rng.integers(0, 4))):
            x, y = rng.uniform(-0.4, 0.4) * length, rng.uniform(0.2, 0.8) * depth
            side = rng.uniform(0.3, 1.2)
            extras.append((x - side, y - side, height, x + side, y + side, height + rng.uniform(0.5, 2.5)))
        scene.add(boxes(extras), wall, position, yaw)
