"""Things on and beside a road: strips of other ground, rails, patches, covers, hedges, banks.

Most of it is flat. A boundary between two kinds of ground looks like the outline of a thing and is none; where the
ground is all of one piece, every line that a network sees near it is a depth edge, and so is every tram rail that it
meets in a photograph.
"""

from __future__ import annotations

import numpy as np

from omnidc.scenes.description import Material, Rng, Scene
from omnidc.scenes.materials import Kit, color, plain, steel
from omnidc.scenes.primitives import boxes, cylinder, merge, mesh, transformed
from omnidc.scenes.roads import Road, band

STRIPS = ("grass", "soil", "pavement", "road", "rock")
GAUGE, SLEEPER = 1.435, 2.4  # meters


def lay_verges(scene: Scene, rng: Rng, kit: Kit, road: Road, edge: float, country: bool) -> None:
    """Dress the ground; `edge` is how far from the center line the built-up part begins."""
    for side in (-1, 1):
        if rng.random() < 0.7:
            strips(scene, rng, kit, road, side, edge)
        if rng.random() < (0.5 if country else 0.15):
            bank(scene, rng, kit, road, side, edge + 1)
        if rng.random() < 0.35:
            hedge(scene, rng, kit, road, side * (edge + float(rng.uniform(-0.4, 2.0))))
    if rng.random() < 0.6:
        patches(scene, rng, kit, road)
    if rng.random() < 0.35:
        aside = float(rng.choice([-1, 1]) * rng.uniform(0, edge + 2))
        rails(scene, rng, kit, road, aside)


def strips(scene: Scene, rng: Rng, kit: Kit, road: Road, side: int, edge: float) -> None:
    """Add one to four bands of other ground that run along the road."""
    near = edge
    for _ in range(int(rng.integers(1, 5))):
        far = near + float(rng.uniform(0.3, 4))
        left, right = sorted((side * near, side * far))
        start = float(rng.uniform(-road.length, 0)) if rng.random() < 0.3 else -road.length
        shape = mesh(*band(road.strip(left, right, float(rng.uniform(-0.03, 0.0)), start, road.length)))
        scene.add(shape, kit.material(rng, str(rng.choice(STRIPS))))
        near = far


def bank(scene: Scene, rng: Rng, kit: Kit, road: Road, side: int, foot: float) -> None:
    """Add a slope up to a plateau that follows the road, or a wide level of other ground."""
    wide, rise = float(rng.uniform(2, 8)), float(rng.choice([-0.05, rng.uniform(0.4, 4)]))
    shapes = []
    for near, far, low, high in ((foot, foot + wide, -0.1, rise), (foot + wide, foot + wide + 30, rise, rise)):
        left, right, lift, end = (near, far, low, high) if side > 0 else (-far, -near, high, low)
        shapes.append(mesh(*band(road.strip(left, right, lift, -road.length, road.length, rise=end - lift))))
    scene.add(merge(shapes), kit.material(rng, str(rng.choice(["grass", "grass", "soil", "rock"]))))


def hedge(scene: Scene, rng: Rng, kit: Kit, road: Road, aside: float) -> None:
    """Add a clipped hedge or a low wall of uneven blocks."""
    start = float(rng.uniform(-60, 10))
    tall, thick = float(rng.uniform(0.6, 2.6)), float(rng.uniform(0.2, 0.6))
    blocks = []
    for y in np.arange(start, start + rng.uniform(10, 70), 0.8):
        top, half = tall * rng.uniform(0.93, 1.07), thick * rng.uniform(0.85, 1.15)
        blocks.append(road.laid(boxes([(-half, -0.45, -0.5, half, 0.45, top)]), aside, y))
    scene.add(merge(blocks), kit.material(rng, str(rng.choice(["grass", "grass", "rock", "facade"]))))


def patches(scene: Scene, rng: Rng, kit: Kit, road: Road) -> None:
    """Add mended asphalt, stains, painted signs and covers, all flat."""
    half = road.width / 2
    for k in range(int(rng.integers(3, 30))):
        x, y = float(rng.uniform(-half, half - 0.3)), float(rng.normal(0, 20))
        wide = min(float(rng.exponential(1.2)) + 0.2, half - x)
        shape = mesh(*band(road.strip(x, x + wide, 0.003 + 0.0002 * k, y, y + float(rng.exponential(2.5)) + 0.3, 1.0)))
        kind = rng.random()
        if kind < 0.5:
            look = kit.material(rng, str(rng.choice(["road", "pavement"])))
        elif kind < 0.7:
            look = kit.material(rng, "print", tile=float(rng.uniform(1, 4)))
        else:
            look = Material(color=color(rng, (0, 0.3), (0.01, 0.7)), roughness=float(rng.uniform(0.2, 0.9)))
        scene.add(shape, look)
    discs = [
        transformed(cylinder(0.32, 0.012, sides=24), road.at(float(rng.uniform(-half, half)), float(rng.normal(0, 15))))
        for _ in range(int(rng.integers(0, 6)))
    ]
    if discs:
        scene.add(merge(discs), plain(rng))


def rails(scene: Scene, rng: Rng, kit: Kit, road: Road, aside: float) -> None:
    """Add one or two tracks: sunk in the road, or on sleepers in a bed of stones."""
    bed = bool(rng.random() < 0.6)
    lift, tall = (0.02, 0.16) if bed else (0.0, 0.012)
    for track in range(int(rng.integers(1, 3))):
        middle = aside + track * 3.2
        if bed:
            ground = mesh(*band(road.strip(middle - 1.6, middle + 1.6, lift, -road.length, road.length)))
            scene.add(ground, kit.material(rng, str(rng.choice(["rock", "soil", "grass"]))))
            beam = boxes([(-SLEEPER / 2, -0.13, -0.1, SLEEPER / 2, 0.13, 0.04)])
            beams = merge([road.laid(beam, middle, y, lift) for y in np.arange(-60, 60, 0.65)])
            scene.add(beams, kit.material(rng, str(rng.choice(["wood", "pavement"]))))
        bars = []
        for x in (middle - GAUGE / 2, middle + GAUGE / 2):
            bars.append(mesh(*band(road.strip(x - 0.035, x + 0.035, lift + tall, -road.length, road.length))))
            for s in (-0.035, 0.035):  # the two sides
                foot = road.strip(x + s, x + s, lift, -road.length, road.length)
                up = np.array([0, 0, tall])
                bars.append(mesh(*band([np.array([a[0], a[0] + up] if s < 0 else [a[0] + up, a[0]]) for a in foot])))
        scene.add(merge(bars), steel(rng))
