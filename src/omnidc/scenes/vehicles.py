"""Cars from nothing: a side profile pulled over the width, wheels and dark windows."""

from __future__ import annotations

import numpy as np

from omnidc.scenes.description import Material, Rng
from omnidc.scenes.furniture import Piece
from omnidc.scenes.materials import color, dark_glass
from omnidc.scenes.primitives import cylinder, merge, mesh, transformed


def _pulled(profile: list[tuple[float, float]], low: float, high: float) -> list[tuple[float, float, float]]:
    """Return both sides of a body: x from ±low (at its belt) to ±high (at its roof), by height."""
    zs = [z for _, z in profile]
    bottom, top = min(zs), max(zs)
    half = [low + (high - low) * max(0.0, (z - bottom) / (top - bottom)) for z in zs]
    return [(-h, y, z) for h, (y, z) in zip(half, profile)] + [(h, y, z) for h, (y, z) in zip(half, profile)]


def car(rng: Rng) -> Piece:
    """Make a car of 3.6–5 m that looks along −y."""
    length, width, height = rng.uniform(3.6, 5.0), rng.uniform(1.65, 1.9), rng.uniform(1.4, 1.75)
    belt, clearance, half = height * 0.58, 0.18, length / 2
    nose, rear = half * rng.uniform(0.35, 0.55), half * rng.uniform(0.55, 0.95)
    body = [
        (-half, 0.35),
        (-half + 0.15, belt * 0.85),
        (-nose, belt),
        (rear, belt),
        (half, belt * 0.95),
        (half, 0.35),
        (half - 0.2, clearance),
        (-half + 0.2, clearance),
    ]
    cabin = [(-nose, belt), (-nose + 0.75, height), (rear - 0.5, height), (rear, belt)]

    def solid(
        profile: list[tuple[float, float]], low: float, high: float
    ) -> tuple[list[tuple[float, float, float]], int]:
        return _pulled(profile, low, high), len(profile)

    shells = []
    for profile, low, high in ((body, width / 2, width / 2), (cabin, width / 2 - 0.04, width / 2 - 0.22)):
        points, count = solid(profile, low, high)
        quads = [(k, (k + 1) % count, count + (k + 1) % count, count + k) for k in range(count)]
        fans = [(0, k + 1, k) for k in range(1, count - 1)] + [
            (count, count + k, count + k + 1) for k in range(1, count - 1)
        ]
        shells.append(mesh(points, quads, fans))
    roof = mesh(
        [(x, y, height + 0.005) for x in (-width / 2 + 0.22, width / 2 - 0.22) for y in (-nose + 0.75, rear - 0.5)],
        [(0, 1, 3, 2)],
    )
    wheel = transformed(cylinder(0.31, 0.2, sides=18), (0, 0, -0.1), [[0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    spots = [(sx * (width / 2 - 0.1), sy * half * 0.62, 0.31) for sx in (-1, 1) for sy in (-1, 1)]
    wheels = merge([transformed(wheel, spot) for spot in spots])
    paint = Material(
        color=color(rng, (0, 0.85), (0.02, 0.8)), roughness=0.3, coat=1.0, metallic=float(rng.choice([0, 0.5]))
    )
    return Piece(
        float(width),
        float(length),
        float(height),
        [
            (shells[0], paint),
            (shells[1], dark_glass(rng)),
            (roof, paint),
            (wheels, Material(color=(0.015, 0.015, 0.015), roughness=0.8)),
        ],
    )


def turned_along(width: float, depth: float) -> float:
    """Return the yaw that lays a thing's longer side along y."""
    return np.pi / 2 if width > depth else 0.0
