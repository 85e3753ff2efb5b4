"""Streets and country roads: they bend and climb, so that no horizon is always at the same row."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from omnidc.scenes.buildings import build_house
from omnidc.scenes.corridors import railing
from omnidc.scenes.description import Material, Mesh, PointLight, Rng, Scene, Viewpoint
from omnidc.scenes.furniture import Piece, from_model
from omnidc.scenes.lights import draw_sky
from omnidc.scenes.materials import Kit, color, foliage, plain, steel
from omnidc.scenes.plants import Plant, bush, tree, tuft
from omnidc.scenes.primitives import UP, boxes, cylinder, grid, hanging, merge, mesh, transformed, tube
from omnidc.scenes.roads import Road, band, draw_road
from omnidc.scenes.vehicles import car, turned_along
from omnidc.scenes.verges import lay_verges


def pave(scene: Scene, rng: Rng, kit: Kit, road: Road, country: bool) -> None:
    """Add ground, carriageway, curbs and markings."""
    n = 121
    far = np.sign(np.linspace(-1, 1, n)) * np.abs(np.linspace(-1, 1, n)) ** 2 * 450
    heights = np.broadcast_to(road.height(far)[:, None], (n, n)) - 0.06
    role = str(rng.choice(["grass", "soil"] if country else ["grass", "pavement", "pavement"]))
    scene.add(grid(far, far, heights), kit.material(rng, role))
    half, reach = road.width / 2, road.length
    scene.add(mesh(*band(road.strip(-half, half, 0.0, -reach, reach))), kit.material(rng, "road"))
    if not country:
        curb = 0.13
        strips = []
        for s in (-1, 1):
            inner, outer = s * half, s * (half + road.pavement)
            left, right = min(inner, outer), max(inner, outer)
            strips.append(road.strip(left, right, curb, -reach, reach))
            edge = road.strip(inner, inner, 0, -reach, reach)
            face = [
                np.array([a[0] + [0, 0, curb], a[0]]) if s > 0 else np.array([a[0], a[0] + [0, 0, curb]]) for a in edge
            ]
            strips.append(face)
        scene.add(merge([mesh(*band(strip)) for strip in strips]), kit.material(rng, "pavement"))
    paint = Material(color=(0.6, 0.6, 0.57), roughness=0.7, blotch=0.5, blotch_size=0.4)
    lines = []
    if rng.random() < 0.8:
        lines += [road.strip(-0.07, 0.07, 0.006, y, y + 3, 1.5) for y in np.arange(-reach, reach - 3, 8)]
    if rng.random() < 0.5:
        lines += [road.strip(s * (half - 0.3) - 0.06, s * (half - 0.3) + 0.06, 0.006, -reach, reach) for s in (-1, 1)]
    if not country and rng.random() < 0.5:
        y = float(rng.uniform(-20, 20))
        lines += [road.strip(x, x + 0.45, 0.006, y, y + 3, 1.5) for x in np.arange(-half + 0.3, half - 0.5, 0.9)]
    if lines:
        scene.add(merge([mesh(*band(line)) for line in lines]), paint)


def street_lamp(rng: Rng) -> tuple[Piece, float]:
    """Make a pole with an arm over the road; return the height of its light too."""
    tall, arm = float(rng.uniform(4.5, 8)), float(rng.uniform(0.6, 2))
    path = [(0, 0, 0), (0, 0, tall * 0.8), (0, -arm * 0.3, tall * 0.97), (0, -arm, tall)]
    head = boxes([(-0.12, -arm - 0.5, tall - 0.06, 0.12, -arm, tall + 0.06)])
    pole = tube(path, [0.08, 0.06, 0.045, 0.04], 8)
    return Piece(0.3, 0.3, tall, [(pole, steel(rng)), (head, steel(rng))]), tall


def road_sign(rng: Rng, kit: Kit) -> Piece:
    """Make a road sign: a plate on a thin pole."""
    tall = float(rng.uniform(2, 3))
    form = rng.integers(3)
    if form == 0:
        plate = transformed(cylinder(0.32, 0.02, sides=28), (0, -0.05, tall), [[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    elif form == 1:
        plate = boxes([(-0.3, -0.06, tall - 0.4, 0.3, -0.04, tall + 0.3)])
    else:
        plate = mesh(
            [(-0.4, -0.05, tall + 0.3), (0.4, -0.05, tall + 0.3), (0, -0.05, tall - 0.38)], triangles=[(0, 2, 1)]
        )
    face = kit.material(rng, "print", tile=0.7) if rng.random() < 0.4 else plain(rng)
    return Piece(0.6, 0.2, tall + 0.3, [(tube([(0, 0, 0), (0, 0, tall + 0.3)], 0.03, 8), steel(rng)), (plate, face)])


def traffic_light(rng: Rng) -> Piece:
    """Make a traffic light: three lamps on a pole, one of them lit."""
    tall = float(rng.uniform(2.6, 4))
    case = boxes([(-0.14, -0.28, tall - 0.9, 0.14, -0.08, tall)])
    parts = [(tube([(0, 0, 0), (0, 0, tall)], 0.05, 8), steel(rng)), (case, Material(color=(0.02, 0.02, 0.02)))]
    lit = int(rng.integers(3))
    for k, tone in enumerate([(0.05, 0.8, 0.2), (0.9, 0.5, 0.02), (0.9, 0.03, 0.02)]):
        lens = transformed(cylinder(0.09, 0.02), (0, -0.28, tall - 0.75 + 0.28 * k), [[1, 0, 0], [0, 0, -1], [0, 1, 0]])
        dim = (tone[0] * 0.1, tone[1] * 0.1, tone[2] * 0.1)
        parts.append((lens, Material(color=tone, emission=4.0) if k == lit else Material(color=dim)))
    return Piece(0.4, 0.4, tall, list(parts))


def fence(scene: Scene, rng: Rng, kit: Kit, road: Road, aside: float, start: float, end: float) -> None:
    """Add pickets, rails, or a net of wire between posts."""
    kind = rng.choice(["pickets", "rails", "net", "wall"])
    tall = float(rng.uniform(0.8, 1.8))
    bars: list[Mesh] = []
    if kind == "wall":
        block = boxes([(-0.1, -0.53, -0.5, 0.1, 0.53, tall * 0.7)])
        bars = [road.laid(block, aside, y + 0.5) for y in np.arange(start, end, 1.0)]
        scene.add(merge(bars), kit.material(rng, "facade"))
        return
    points = {
        z: np.array([road.at(aside, y, z) for y in np.arange(start, end, 2.0)]) for z in (0.25, tall * 0.55, tall - 0.1)
    }
    radius = 0.02 if kind != "net" else 0.004
    heights = np.arange(0.1, tall, 0.12) if kind == "net" else sorted(points)
    for z in heights:
        bars.append(tube(np.array([road.at(aside, y, z) for y in np.arange(start, end, 2.0)]), radius, 4))
    gap = 0.16 if kind == "pickets" else 2.0
    for y in np.arange(start, end - 1.9, gap):
        foot = np.array(road.at(aside, y))
        bars.append(tube([foot, foot + UP * tall], 0.018 if kind == "pickets" else 0.03, 4))
    if kind == "net":
        for y in np.arange(start, min(end, start + 16), 0.12):
            foot = np.array(road.at(aside, y))
            bars.append(tube([foot, foot + UP * tall], 0.004, 3, caps=False))
    scene.add(merge(bars), steel(rng) if kind == "net" else plain(rng))


def wires(scene: Scene, rng: Rng, kit: Kit, road: Road, aside: float) -> None:
    """Add wooden poles with cross-arms and sagging wires."""
    tall = float(rng.uniform(6, 9))
    ys = np.arange(-road.length, road.length, rng.uniform(20, 35))
    poles, lines = [], []
    offsets = [-0.7, 0.0, 0.7][: int(rng.integers(2, 4))]
    for y in ys:
        foot = np.array(road.at(aside, y))
        poles.append(tube([foot - UP * 0.5, foot + UP * tall], [0.13, 0.09], 8))
        poles.append(tube([foot + np.array([x, 0, tall - 0.4]) for x in (-0.9, 0.9)], 0.05, 4))
    for a, b in pairwise(ys):
        for offset in offsets:
            start, end = (np.array(road.at(aside, y)) + np.array([offset, 0, tall - 0.33]) for y in (a, b))
            lines.append(tube(hanging(start, end, float(rng.uniform(0.2, 0.9))), 0.013, 4, caps=False))
    scene.add(merge(poles), kit.material(rng, "wood"))
    scene.add(merge(lines), Material(color=(0.02, 0.02, 0.02), roughness=0.6))


def vehicle(rng: Rng, kit: Kit) -> tuple[Piece, float]:
    """Make a car, seldom a lorry or bus, and the yaw that lays it along the road."""
    kind = "large vehicle" if rng.random() < 0.12 else "car"
    model = kit.model(rng, kind) if rng.random() < 0.75 else None
    if model is None:
        return car(rng), 0.0
    return from_model(model), turned_along(model.width, model.depth)


def furnish(scene: Scene, rng: Rng, kit: Kit, road: Road, side: int, plants: list[Plant], country: bool) -> None:
    """Add parked cars, trees, lamps, signs, people and street furniture along one side."""
    half = road.width / 2
    ground = 0.0 if country else 0.13
    parked = 0.0 if country else float(rng.choice([0, 0.3, 0.7]))
    trees, lamps = float(rng.choice([0, 0.3, 0.8])), float(rng.choice([0, 0.3]))
    lamp, tall = street_lamp(rng)
    outward = -side * np.pi / 2
    for y in np.arange(-road.length * 0.7, road.length * 0.7, rng.uniform(5.5, 9)):
        heading = road.heading(y)
        if rng.random() < parked:
            piece, along = vehicle(rng, kit)
            x, py, z = road.at(side * (half - 1.05), y + rng.normal(0, 0.3))
            turn = heading + along + float(rng.choice([0, np.pi])) + float(rng.normal(0, 0.02))
            piece.stand(scene, x, py, z, turn, road.slope(py))
        if rng.random() < trees:
            plant = plants[int(rng.integers(len(plants)))]
            x, py, z = road.at(side * (half + (rng.uniform(1.5, 12) if country else 0.7)), y + 2.5, ground)
            size, turn = float(rng.uniform(0.7, 1.3)), float(rng.uniform(0, 6.3))
            for shape, look in plant.parts:
                scene.add(shape, look, (x, py, z), turn, scale=size)
        if rng.random() < lamps:
            x, py, z = road.at(side * (half + 0.35), y + 4, ground)
            lamp.stand(scene, x, py, z, heading - outward)
            if scene.sky.night:
                scene.lights.append(PointLight((x - side * 1.0, py, z + tall - 0.3), 400.0, (1.0, 0.75, 0.45), 0.15))
        extra = rng.random()
        piece_or_none: Piece | None = None
        if extra < 0.12:
            piece_or_none = road_sign(rng, kit)
        elif extra < 0.17 and not country:
            piece_or_none = traffic_light(rng)
        elif extra < 0.5 and not country:
            kind = str(rng.choice(["person", "street thing", "street thing", "two-wheeler", "animal"]))
            model = kit.model(rng, kind, highest=2.2)
            piece_or_none = from_model(model) if model is not None else None
        if piece_or_none is not None:
            x, py, z = road.at(
                side * (half + rng.uniform(0.8, max(0.9, road.pavement - 0.4))), y + rng.uniform(1, 4), ground
            )
            piece_or_none.elevation = 0.0
            piece_or_none.stand(scene, x, py, z, heading + float(rng.choice([0, np.pi])) + float(rng.normal(0, 0.6)))


def street_views(road: Road) -> Callable[[Rng], Viewpoint]:
    """Return a sampler of driving (wide, at car height), walking and drone views."""

    def draw(rng: Rng) -> Viewpoint:
        y = rng.uniform(-0.35, 0.35) * road.length
        ahead = rng.choice([-1, 1])
        kind = rng.random()
        heading = road.heading(y) + np.pi / 2 * ahead
        if kind < 0.45:
            eye = road.at(rng.choice([-1, 1]) * road.width * rng.uniform(0.05, 0.3), y, rng.uniform(1.3, 2.0))
            angle, pitch, lens, roll = (
                heading + rng.normal(0, 0.12),
                rng.normal(-0.03, 0.04),
                "driving",
                rng.normal(0, 0.015),
            )
        elif kind < 0.8:
            aside = rng.choice([-1, 1]) * (road.width / 2 + rng.uniform(-1, road.pavement))
            eye = road.at(aside, y, rng.uniform(0.8, 2.2))
            angle, pitch, lens, roll = (
                heading + rng.normal(0, 0.6),
                rng.normal(0.02, 0.15),
                "street",
                rng.normal(0, 0.05),
            )
        else:
            eye = road.at(rng.normal(0, road.width / 2), y, rng.uniform(5, 35))
            angle, pitch, lens, roll = rng.uniform(0, 6.3), -rng.uniform(0.15, 1.2), "drone", rng.normal(0, 0.06)
        x, py, z = eye
        return Viewpoint(eye, (x + np.cos(angle), py + np.sin(angle), z + np.tan(pitch)), float(roll), lens)

    return draw


def build_street(rng: Rng, kit: Kit) -> Scene:
    """Build a town street, a suburb or a country road."""
    scene = Scene("street", nearest=1.0)
    draw_sky(rng, kit, scene)
    road = draw_road(rng)
    kind = str(rng.choice(["town", "suburb", "country"], p=[0.4, 0.35, 0.25]))
    country = kind == "country"
    pave(scene, rng, kit, road, country)
    plants = [tree(rng, kit, float(rng.uniform(4, 9))) for _ in range(2)] + [bush(rng, kit, float(rng.uniform(0.8, 2)))]
    half = road.width / 2 + (3.0 if country else road.pavement)
    for side in (-1, 1):
        y = -road.length
        while y < road.length:
            length = float(rng.uniform(7, 18))
            height = float(rng.uniform(6, 26) if kind == "town" else rng.uniform(3, 7))
            back = 0.05 if kind == "town" else float(rng.uniform(1.5, 7))
            if rng.random() < {"town": 0.92, "suburb": 0.8, "country": 0.12}[kind]:
                x, py, z = road.at(side * (half + back), y + length / 2)
                # a front faces −y: turned so that it faces the road
                yaw = road.heading(y + length / 2) - side * np.pi / 2
                build_house(scene, rng, kit, (x, py, z), float(yaw), length, float(rng.uniform(6, 12)), height)
            y += length + float(rng.choice([0, 0, 3]) if kind == "town" else rng.uniform(1, 9))
        furnish(scene, rng, kit, road, side, plants, country)
        if rng.random() < 0.4:
            wires(scene, rng, kit, road, side * (road.width / 2 + (1.5 if country else 0.4)))
        if rng.random() < (0.5 if country else 0.35):
            start = float(rng.uniform(-40, 0))
            fence(scene, rng, kit, road, side * half, start, start + float(rng.uniform(15, 50)))
        if rng.random() < 0.15:
            start = float(rng.uniform(-30, 20))
            railing(
                scene,
                rng,
                road.at(side * (road.width / 2 + 0.15), start, 0.1),
                road.at(side * (road.width / 2 + 0.15), start + 8, 0.1),
            )
    taken: list[tuple[float, float]] = []
    for _ in range(int(rng.integers(0, 6))):
        piece, along = vehicle(rng, kit)
        lane_side, y = float(rng.choice([-1, 1])), float(rng.uniform(-45, 45))
        if any(lane == lane_side and abs(other - y) < 14 for lane, other in taken):
            continue
        taken.append((lane_side, y))
        x, py, z = road.at(lane_side * road.width * 0.2, y)
        turn = road.heading(y) + along + (np.pi if lane_side > 0 else 0.0)
        piece.stand(scene, x, py, z, turn, road.slope(py))
    if kind != "town" and rng.random() < 0.6:
        blades, look = tuft(rng), foliage(rng)
        for _ in range(int(rng.integers(100, 500))):
            aside, y = float(rng.choice([-1, 1]) * (half + rng.exponential(2.5))), float(rng.uniform(-40, 40))
            scene.add(
                blades, look, road.at(aside, y, -0.06), float(rng.uniform(0, 6.3)), scale=float(rng.uniform(0.5, 1.5))
            )
    if rng.random() < 0.25:  # rubbish and cones on the road
        for _ in range(int(rng.integers(1, 6))):
            cone = cylinder(0.17, 0.55, 0.03)
            scene.add(
                cone,
                Material(color=color(rng, (0.6, 0.9), (0.5, 0.9))),
                road.at(float(rng.normal(0, road.width / 3)), float(rng.uniform(-15, 15))),
            )
    lay_verges(scene, rng, kit, road, half, country)
    scene.viewpoints = street_views(road)
    return scene
