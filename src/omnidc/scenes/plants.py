"""Trees, bushes, grass and pot plants, grown from a few rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Material, Mesh, Model, Rng, Texture
from omnidc.scenes.furniture import Piece
from omnidc.scenes.materials import Kit, foliage, plain
from omnidc.scenes.primitives import cards, diamonds, lathe, merge, mesh, transformed, tube

MAX_LEAVES = 9000


@dataclass(frozen=True)
class Plant:
    """Meshes and their surfaces, rooted at the origin; `height` in meters."""

    parts: tuple[tuple[Mesh, Material], ...]
    height: float


def _unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9))


def _limb(
    rng: Rng, start: npt.NDArray[np.float64], direction: npt.NDArray[np.float64], length: float, bend: float
) -> npt.NDArray[np.float64]:
    """Return a crooked path of five points."""
    points = [start]
    for _ in range(4):
        direction = _unit(direction + rng.normal(0, bend, 3))
        points.append(points[-1] + direction * length / 4)
    return np.array(points)


def skeleton(rng: Rng, height: float, levels: int, conifer: bool) -> tuple[list[Mesh], npt.NDArray[np.float64]]:
    """Make trunk and branches as tubes, and the points [N, 3] where leaves grow.

    A broad-leaved crown forks; a conifer has one trunk and rings of drooping branches.
    """
    limbs: list[Mesh] = []
    tips: list[npt.NDArray[np.float64]] = []
    up = np.array([0.0, 0.0, 1.0])
    if conifer:
        trunk = _limb(rng, np.zeros(3), up, height, 0.02)
        limbs.append(tube(trunk, np.linspace(height * 0.02, height * 0.002, 5), 7))
        lean, bare = rng.uniform(0.15, 0.35), rng.uniform(0.05, 0.3)
        for z in np.arange(bare, 0.97, 0.035):
            turn = rng.uniform(0, 6.3)
            base = trunk[0] + (trunk[-1] - trunk[0]) * z
            for k in range(int(rng.integers(4, 7))):
                angle = turn + k * 6.28 / 5 + rng.normal(0, 0.2)
                out = np.array([np.cos(angle), np.sin(angle), rng.normal(-0.15, 0.15)])
                path = _limb(rng, base, out, height * lean * (1 - z) + 0.05, 0.08)
                limbs.append(tube(path, np.linspace(height * 0.004 * (1.1 - z), 0.003, 5), 4, caps=False))
                tips.append(path[1:] + rng.normal(0, 0.01, (4, 3)))
        return limbs, np.concatenate(tips)

    def grow(
        start: npt.NDArray[np.float64], direction: npt.NDArray[np.float64], length: float, radius: float, level: int
    ) -> None:
        path = _limb(rng, start, direction, length, 0.13)
        sides = 8 if level == levels else 5 if level > 1 else 4
        limbs.append(tube(path, np.linspace(radius, radius * 0.6, 5), sides, caps=False))
        if level <= 1:
            tips.append(path[1:])
        if level == 0:
            return
        heading = _unit(path[-1] - path[-2])
        for _ in range(int(rng.integers(2, 5))):
            aside = _unit(heading + rng.normal(0, 0.6, 3) + up * rng.normal(0.12, 0.2))
            fork = path[int(rng.integers(3, 5))]
            grow(fork, aside, length * rng.uniform(0.55, 0.85), radius * 0.6, level - 1)

    grow(
        np.array([0, 0, -0.1]),
        _unit(up + rng.normal(0, 0.06, 3)),
        height * rng.uniform(0.25, 0.4),
        height * 0.022,
        levels,
    )
    return limbs, np.concatenate(tips)


def leaves(
    rng: Rng, kit: Kit, points: npt.NDArray[np.float64], size: float, count: int, spread: float
) -> tuple[Mesh, Material]:
    """Make `count` leaves about the points: cards with a photographed twig if there are some, else pointed leaves."""
    count = min(count, MAX_LEAVES)
    centers = points[rng.integers(len(points), size=count)] + rng.normal(0, spread, (count, 3))
    along = _unit(rng.normal(0, 1, (count, 3)) + np.array([0, 0, 0.2]))
    across = _unit(np.cross(along, rng.normal(0, 1, (count, 3))))
    sizes = size * rng.uniform(0.6, 1.3, (count, 1))
    if kit.library.leaves and rng.random() < 0.6:
        file = kit.library.leaves[int(rng.integers(len(kit.library.leaves)))]
        look = Material(
            texture=Texture(path=file),
            cutout=True,
            hue=float(rng.normal(0, 0.03)),
            saturation=float(rng.uniform(0.6, 1.1)),
            value=float(rng.uniform(0.9, 2.0)),
            roughness=0.6,
        )
        return cards(centers, along * sizes * 1.6, across * sizes * 1.6), look
    return diamonds(centers, along * sizes, across * sizes * rng.uniform(0.3, 0.6)), foliage(rng)


def tree(rng: Rng, kit: Kit, height: float) -> Plant:
    """Make a tree: broad-leaved, conifer, or bare."""
    conifer = bool(rng.random() < 0.3)
    limbs, tips = skeleton(rng, height, 4, conifer)
    bark = kit.material(rng, "bark")
    parts = [(merge(limbs), bark)]
    if conifer:
        parts.append(leaves(rng, kit, tips, height * 0.016, 4500, height * 0.012))
    elif rng.random() < 0.88:
        dense = int(rng.choice([2500, 5000, 8000]))
        parts.append(
            leaves(rng, kit, tips, height * rng.uniform(0.012, 0.022), dense, height * rng.uniform(0.03, 0.06))
        )
    return Plant(tuple(parts), height)


def bush(rng: Rng, kit: Kit, height: float) -> Plant:
    """Make a bush: leaves on many thin stems from one root."""
    stems, tips = [], []
    for _ in range(int(rng.integers(8, 20))):
        path = _limb(
            rng,
            rng.normal(0, 0.1, 3) * (1, 1, 0) * height,
            np.append(rng.normal(0, 0.5, 2), 1),
            height * rng.uniform(0.6, 1),
            0.15,
        )
        stems.append(tube(path, height * 0.008, 4, caps=False))
        tips.append(path[1:])
    foliage_part = leaves(
        rng, kit, np.concatenate(tips), height * rng.uniform(0.03, 0.06), int(rng.integers(600, 2500)), height * 0.08
    )
    return Plant(((merge(stems), plain(rng)), foliage_part), height)


def tuft(rng: Rng, blades: int = 60, height: float = 0.35, width: float = 0.012, spread: float = 0.18) -> Mesh:
    """Make a tuft of grass: each blade two bent pieces."""
    root = np.concatenate([rng.normal(0, spread, (blades, 2)), np.zeros((blades, 1))], axis=1)
    tall = rng.uniform(0.3, 1, (blades, 1)) * height
    lean = np.concatenate([rng.normal(0, 0.35, (blades, 2)) * tall, tall], axis=1)
    turn = rng.uniform(0, 6.3, blades)
    side = np.stack([np.cos(turn), np.sin(turn), np.zeros(blades)], axis=1) * width / 2
    middle = root + lean * (0.4, 0.4, 0.6)
    tip = root + lean
    points = np.stack([root - side, root + side, middle + side * 0.7, middle - side * 0.7, tip], axis=1)
    start = np.arange(blades)[:, None] * 5
    return mesh(points, start + np.arange(4), start + np.array([3, 2, 4]))


def potted_plant(rng: Rng, kit: Kit, height: float | None = None) -> Piece:
    """Make a plant in a pot; from the library now and then. `height` None: one for a table."""
    size = float(rng.uniform(0.15, 0.4)) if height is None else height
    model = kit.model(rng, "plant", highest=size * 1.3) if rng.random() < 0.4 else None
    if model is not None and model.height > size * 0.5:
        return Piece(model.width, model.depth, model.height, [(model, None)])
    pot_height = size * rng.uniform(0.2, 0.35)
    radius = size * rng.uniform(0.1, 0.18)
    pot = lathe(
        [
            (1e-4, 0),
            (radius * 0.75, 0),
            (radius, pot_height),
            (radius * 0.9, pot_height),
            (radius * 0.9, pot_height * 0.9),
            (1e-4, pot_height * 0.9),
        ]
    )
    parts: list[tuple[Mesh | Model, Material | None]] = [(pot, plain(rng))]
    if rng.random() < 0.35:  # long blades
        blades = tuft(rng, int(rng.integers(12, 40)), size * 0.9, size * 0.06, radius * 0.35)
        parts.append((transformed(blades, (0, 0, pot_height * 0.9)), foliage(rng, dry=0.03)))
    else:
        grown = bush(rng, kit, size - pot_height)
        for shape, look in grown.parts:
            parts.append((transformed(shape, (0, 0, pot_height * 0.9)), look))
    reach = radius * 2.2
    return Piece(reach, reach, size, parts)
