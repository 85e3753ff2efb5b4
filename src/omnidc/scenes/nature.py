"""Open country: terrain, rocks, trees, grass, water, fences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.scenes.buildings import build_house
from omnidc.scenes.description import Material, Rng, Scene, Viewpoint
from omnidc.scenes.lights import draw_sky
from omnidc.scenes.materials import Kit, foliage, plain, steel
from omnidc.scenes.plants import bush, tree, tuft
from omnidc.scenes.primitives import UP, boxes, fractal_noise, grid, merge, rock, tube, turned

CELLS = 192


class Terrain:
    """Heights [CELLS, CELLS] over a square of side 2 · `reach`."""

    def __init__(self, rng: Rng, reach: float) -> None:
        self.reach = reach
        relief = rng.uniform(2, 25)
        self.heights = fractal_noise(rng, CELLS, rng.uniform(1.7, 2.3)) * relief
        self.heights += fractal_noise(rng, CELLS, 1.2) * rng.uniform(0.1, 0.6)
        self.low, self.high = float(self.heights.min()), float(self.heights.max())

    def at(self, x: npt.ArrayLike, y: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the height at points, interpolated as the mesh's triangles nearly are; clipped at the border."""
        u = np.clip((np.asarray(x) + self.reach) / (2 * self.reach) * (CELLS - 1), 0, CELLS - 1.001)
        v = np.clip((np.asarray(y) + self.reach) / (2 * self.reach) * (CELLS - 1), 0, CELLS - 1.001)
        i, j = u.astype(int), v.astype(int)
        fu, fv = u - i, v - j
        h = self.heights
        return np.asarray(
            (1 - fv) * ((1 - fu) * h[j, i] + fu * h[j, i + 1]) + fv * ((1 - fu) * h[j + 1, i] + fu * h[j + 1, i + 1])
        )


def _distant_hills(scene: Scene, rng: Rng, kit: Kit, reach: float, level: float) -> None:
    xs = np.linspace(-900, 900, 96)
    away = np.hypot(*np.meshgrid(xs, xs))
    hills = fractal_noise(rng, 96, 2.2) * rng.uniform(10, 160) - rng.uniform(0, 30)
    hills = level + hills * np.clip((away - reach) / 500, 0, 1) ** 1.5 - np.clip((reach * 1.35 - away) / 10, 0, 30)
    scene.add(grid(xs, xs, hills), kit.material(rng, str(rng.choice(["grass", "rock", "soil"])), tile=25.0))


def build_nature(rng: Rng, kit: Kit) -> Scene:
    """Build a meadow, wood, desert or shore."""
    scene = Scene("nature", nearest=0.7)
    draw_sky(rng, kit, scene)
    land = Terrain(rng, float(rng.uniform(50, 140)))
    reach = land.reach
    xs = np.linspace(-reach, reach, CELLS)
    kind = str(rng.choice(["meadow", "wood", "wood", "rocks"]))
    role = {"meadow": "grass", "wood": str(rng.choice(["grass", "soil"])), "rocks": str(rng.choice(["rock", "soil"]))}[
        kind
    ]
    scene.add(grid(xs, xs, land.heights), kit.material(rng, role))
    _distant_hills(scene, rng, kit, reach, (land.low + land.high) / 2)
    water = land.low - 1
    if rng.random() < 0.2:
        water = land.low + (land.high - land.low) * rng.uniform(0.1, 0.35)
        tone = (0.02, 0.04, 0.05)
        scene.add(boxes([(-900, -900, water - 50, 900, 900, water)]), Material(color=tone, roughness=0.12, bump=0.1))

    def scatter(count: int, spread: float) -> npt.NDArray[np.float64]:
        # half of it near the camera, where it is seen best
        spreads = np.where(rng.random((count, 1)) < 0.5, spread, spread / 3)
        spots = np.clip(rng.normal(0, 1, (count, 2)) * spreads, -reach * 0.95, reach * 0.95)
        heights = land.at(spots[:, 0], spots[:, 1])
        return np.concatenate([spots, heights[:, None]], axis=1)[heights > water]

    plants = [tree(rng, kit, 6.0) for _ in range(int(rng.integers(2, 4)))] + [bush(rng, kit, 1.5)]
    count = {"meadow": rng.integers(5, 30), "wood": rng.integers(50, 160), "rocks": rng.integers(0, 20)}[kind]
    for x, y, z in scatter(int(count), reach * 0.35):
        plant = plants[int(rng.integers(len(plants)))]
        size, turn = float(rng.uniform(0.4, 2)), float(rng.uniform(0, 6.3))
        for shape, look in plant.parts:
            scene.add(shape, look, (x, y, z - 0.1), turn, scale=size)
    stone = kit.material(rng, "rock")
    for _ in range(3):
        shape = rock(rng)
        for x, y, z in scatter(int(rng.integers(3, 60 if kind == "rocks" else 20)), reach * 0.2):
            size = 0.2 + abs(rng.normal(0, 1.2))
            scale = (size, size * rng.uniform(0.6, 1.4), size * rng.uniform(0.4, 1))
            scene.add(
                shape,
                stone,
                (x, y, z + 0.1 * size),
                rotation=(*rng.normal(0, 0.3, 2), rng.uniform(0, 6.3)),
                scale=scale,
            )
    if kind != "rocks" and rng.random() < 0.85:
        look = foliage(rng, dry=0.3)
        blades = [tuft(rng, 70, float(rng.uniform(0.15, 0.6))) for _ in range(2)]
        for x, y, z in scatter(int(rng.integers(200, 1400)), 9.0):
            scene.add(
                blades[int(rng.integers(2))],
                look,
                (x, y, z - 0.02),
                float(rng.uniform(0, 6.3)),
                scale=float(rng.uniform(0.6, 1.6)),
            )
    if rng.random() < 0.3:  # a fence over the hills
        line = np.array([(x, 0, 0) for x in np.arange(-25, 25, 2.2)])
        posts = line @ turned(rng.uniform(0, 6.3)).T + [*rng.normal(0, 6, 2), 0]
        posts[:, 2] = land.at(posts[:, 0], posts[:, 1])
        bars = [tube([p - UP * 0.3, p + UP * 1.1], 0.05, 6) for p in posts]
        bars += [tube(posts + UP * z, 0.006, 4) for z in (0.35, 0.65, 1.0)]
        scene.add(merge(bars), plain(rng) if rng.random() < 0.5 else steel(rng))
    if rng.random() < 0.2:
        x, y = rng.uniform(-25, 25), rng.uniform(12, 30)
        build_house(
            scene,
            rng,
            kit,
            (float(x), float(y), float(land.at(x, y))),
            float(rng.uniform(-0.5, 0.5)),
            float(rng.uniform(6, 12)),
            8.0,
            float(rng.uniform(3, 6)),
        )
    for _ in range(int(rng.integers(0, 4))):
        model = kit.model(rng, "garden thing", "animal", "street thing", "person", "two-wheeler")
        x, y = rng.normal(0, 7, 2)
        if model is not None and float(land.at(x, y)) > water:
            scene.add(model, None, (x, y, float(land.at(x, y)) - 0.02), float(rng.uniform(0, 6.3)))

    def draw(rng: Rng) -> Viewpoint:
        x, y = rng.normal(0, 7, 2)
        kind = rng.random()
        lift = 1.6 if kind < 0.3 else rng.uniform(0.4, 2.5) if kind < 0.75 else rng.uniform(4, 30)
        z = max(float(land.at(x, y)), water) + lift
        angle = rng.uniform(0, 6.3)
        pitch = rng.normal(-0.1, 0.2) if kind < 0.75 else -rng.uniform(0.15, 1.1)
        lens = "street" if kind < 0.75 else "drone"
        return Viewpoint(
            (x, y, z), (x + np.cos(angle), y + np.sin(angle), z + np.tan(pitch)), float(rng.normal(0, 0.06)), lens
        )

    scene.viewpoints = draw
    return scene
