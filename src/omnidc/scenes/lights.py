"""Skies, suns and lamps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnidc.scenes.description import AreaLight, Color, PointLight, Rng, Scene, Sky, Sun
from omnidc.scenes.materials import Kit, glowing
from omnidc.scenes.primitives import box

# panoramas of little else than sky: houses and trees in a picture would be things without depth
OPEN_PANORAMA = ("sky", "dawn", "sunrise", "sunset", "night", "esplanade")


def lamp_color(rng: Rng) -> Color:
    """Draw a color from candle to daylight tube; one lamp in fourteen is colored."""
    if rng.random() < 0.07:
        r, g, b = rng.uniform(0.1, 1, 3)
        return float(r), float(g), float(b)
    cold = rng.random()
    return 1.0, float(0.7 + 0.3 * cold), float(0.42 + 0.58 * cold)


def _panorama(rng: Rng, kit: Kit, night: bool) -> Path | None:
    outside = [p for p in kit.library.panoramas if p.stem in OPEN_PANORAMA]
    files = [p for p in outside if ("night" in p.stem) == night]
    return files[int(rng.integers(len(files)))] if files else None


def draw_sky(rng: Rng, kit: Kit, scene: Scene, outdoors: bool = True) -> None:
    """Give the scene a sky, most days a sun, some nights, some haze."""
    night = bool(rng.random() < (0.08 if outdoors else 0.2))
    panorama = _panorama(rng, kit, night) if rng.random() < (0.2 if outdoors else 0.5) else None
    elevation = float(np.radians(rng.uniform(4, 75)))
    azimuth = float(rng.uniform(0, 2 * np.pi))
    overcast = bool(rng.random() < 0.25)
    haze = float(10 ** rng.uniform(-3.2, -1.7)) if outdoors and rng.random() < 0.2 else 0.0
    scene.sky = Sky(
        strength=float(rng.uniform(0.0005, 0.004) if night and panorama is None else rng.uniform(0.6, 1.4)),
        panorama=panorama,
        turn=azimuth,
        elevation=elevation,
        azimuth=azimuth,
        air=float(rng.uniform(0.7, 2)),
        dust=float(rng.uniform(0, 4)),
        clouds=0.95 if overcast else float(rng.choice([0, rng.uniform(0.2, 0.8)])),
        cloud_color=float(rng.uniform(0.6, 2.0)),
        cloud_offset=(float(rng.uniform(0, 50)), float(rng.uniform(0, 50)), float(rng.uniform(0, 50))),
        night=night,
        haze=haze,
    )
    if night:
        scene.key = 0.06 if outdoors else 0.13
    elif not overcast and panorama is None:
        warmth = min(1.0, elevation / 0.7)
        scene.lights.append(
            Sun(
                elevation,
                azimuth,
                strength=float(rng.uniform(2, 6)),
                color=(1.0, 0.7 + 0.3 * warmth, 0.45 + 0.5 * warmth),
                angle=float(np.radians(rng.choice([0.5, 0.5, 2, 8]))),
            )
        )


def ceiling_lamps(rng: Rng, scene: Scene, width: float, depth: float, height: float, strength: float = 1.0) -> None:
    """Add panels, spots or bulbs under a ceiling; a grid in large rooms."""
    tone = lamp_color(rng)
    columns, rows = max(1, round(width / rng.uniform(2.2, 5))), max(1, round(depth / rng.uniform(2.2, 5)))
    wide, long = rng.uniform(0.1, 0.6), rng.uniform(0.1, 1.2)
    power = float(rng.uniform(12, 30) * strength * width * depth / (columns * rows) / 3)
    kind = rng.choice(["panel", "panel", "bulb", "hidden"])
    for x in (np.arange(columns) + 0.5) / columns * width - width / 2:
        for y in (np.arange(rows) + 0.5) / rows * depth - depth / 2:
            if columns * rows > 2 and rng.random() < 0.15:
                continue
            if kind == "bulb":
                scene.lights.append(PointLight((x, y, height - 0.35), power, tone, radius=0.08))
                continue
            scene.lights.append(AreaLight((x, y, height - 0.04), (wide, long), power, tone))
            if kind == "panel":
                scene.add(box(wide, long, 0.02), glowing(tone, float(rng.uniform(2, 6))), (x, y, height - 0.025))


def studio(rng: Rng, scene: Scene, reach: float, power: tuple[float, float]) -> None:
    """Add one to three soft boxes above things on a table or floor; with luck one behind them."""
    for _ in range(int(rng.integers(1, 4))):
        x, y = rng.normal(0, reach, 2)
        side = float(rng.uniform(0.2, 1) * reach)
        tilt = rng.normal(0, 0.5, 2)
        scene.lights.append(
            AreaLight(
                (float(x), float(y), float(rng.uniform(0.8, 2) * reach)),
                (side, side),
                float(rng.uniform(*power)) * reach**2,
                lamp_color(rng),
                (float(tilt[0]), float(tilt[1]), 0.0),
            )
        )
