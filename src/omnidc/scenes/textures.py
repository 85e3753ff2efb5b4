"""Pictures made from noise: what surfaces wear when no asset package is there, and often when there is.

Each function draws one uint8 [H, W, 3] sRGB picture that tiles (prints and dead leaves need not).
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Array, Rng
from omnidc.scenes.primitives import fractal_noise

Picture = npt.NDArray[np.uint8]
SIZE = 256


def hsv(hue: float, saturation: float, value: float) -> Array:
    """Convert to sRGB in 0…1."""
    return np.array(colorsys.hsv_to_rgb(hue % 1, saturation, value), dtype=np.float32)


def _finish(picture: npt.NDArray[np.floating]) -> Picture:
    return np.asarray(np.clip(picture, 0, 1) * 255 + 0.5, dtype=np.uint8)


def _blend(low: Array, high: Array, weight: Array) -> Array:
    return low + (high - low) * weight[..., None]


def plaster(rng: Rng) -> Picture:
    """Make a painted wall: nearly one color."""
    paint = hsv(rng.random(), rng.choice([0.03, 0.08, 0.35]) * rng.random(), rng.uniform(0.55, 0.97))
    grain = fractal_noise(rng, SIZE, rng.uniform(0.2, 1.4)) - 0.5
    return _finish(paint * (1 + rng.uniform(0.01, 0.1) * grain[..., None]))


def stone(rng: Rng) -> Picture:
    """Make concrete, stone or asphalt: gray noise of many sizes."""
    base = hsv(rng.choice([0.08, 0.1, 0.6]) + rng.normal(0, 0.02), rng.uniform(0, 0.2), rng.uniform(0.25, 0.75))
    coarse = fractal_noise(rng, SIZE, rng.uniform(0.8, 1.6)) - 0.5
    fine = rng.normal(0, rng.uniform(0.02, 0.12), (SIZE, SIZE)).astype(np.float32)
    return _finish(base * (1 + rng.uniform(0.2, 0.9) * coarse + fine)[..., None])


def marble(rng: Rng) -> Picture:
    """Make a picture of marble: veins."""
    warp = fractal_noise(rng, SIZE, 1.6) - 0.5
    y, x = np.mgrid[0 : 1 : SIZE * 1j, 0 : 1 : SIZE * 1j].astype(np.float32)
    turns = rng.integers(1, 4, 2)
    veins = np.abs(np.sin(2 * np.pi * (x * turns[0] + y * turns[1]) + warp * rng.uniform(6, 25))) ** rng.uniform(0.2, 1)
    light = hsv(rng.random(), rng.uniform(0, 0.15), rng.uniform(0.7, 0.95))
    dark = hsv(rng.random(), rng.uniform(0, 0.4), rng.uniform(0.2, 0.7))
    return _finish(_blend(dark, light, veins.astype(np.float32)))


def _grain(rng: Rng, height: int, width: int) -> Array:
    """Make wood grain along x in 0…1."""
    streaks = cv2.GaussianBlur(rng.random((height, 4)).astype(np.float32), (0, 0), 0.7, borderType=cv2.BORDER_REPLICATE)
    streaks = cv2.resize(streaks, (width, height), interpolation=cv2.INTER_CUBIC)
    fine = cv2.resize(rng.random((height, max(2, width // 24))).astype(np.float32), (width, height))
    return np.asarray(0.65 * streaks + 0.35 * fine, dtype=np.float32)


def wood_color(rng: Rng) -> tuple[Array, Array]:
    """Draw a darker and a lighter tone of one wood."""
    hue, saturation, value = rng.uniform(0.04, 0.11), rng.uniform(0.2, 0.65), rng.uniform(0.25, 0.85)
    return hsv(hue, min(1, saturation * 1.15), value * 0.7), hsv(hue, saturation, value)


def planks(rng: Rng) -> Picture:
    """Make a wooden floor or board."""
    rows = int(rng.choice([1, 3, 4, 6]))
    dark, light = wood_color(rng)
    height, width = SIZE // rows, 2 * SIZE
    picture = np.zeros((rows * height, width, 3), dtype=np.float32)
    for row in range(rows):
        board = _blend(dark, light, _grain(rng, height, width)) * rng.uniform(0.8, 1.15)
        if rows > 1:
            board[:1] *= 0.4
            cut = int(rng.integers(0, width))
            board = np.roll(board, cut, axis=1)
            board[:, cut : cut + 2] *= 0.4
        picture[row * height : (row + 1) * height] = board
    return _finish(picture)


def bricks(rng: Rng) -> Picture:
    """Make bricks or tiles: cells of jittered color between joints."""
    rows, columns = [(4, 4), (8, 4), (8, 3), (2, 2), (6, 6)][int(rng.integers(5))]
    shift = rows > columns
    hue, saturation, value = rng.choice([0.03, 0.08, rng.random()]), rng.uniform(0, 0.6), rng.uniform(0.35, 0.95)
    jitter = rng.uniform(0, 0.25)
    cell = np.stack([hsv(hue, saturation, value * (1 + jitter * rng.normal())) for _ in range(rows * columns)])
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) / SIZE
    row = np.minimum((y * rows).astype(int), rows - 1)
    along = x * columns + 0.5 * (row % 2) * shift
    column = along.astype(int) % columns
    joint = rng.uniform(0.01, 0.05)
    edge = np.minimum(np.minimum(along % 1, 1 - along % 1), np.minimum(y * rows % 1, 1 - y * rows % 1)) < joint
    picture = cell[row * columns + column] * (1 + rng.uniform(0, 0.4) * (fractal_noise(rng, SIZE, 1) - 0.5)[..., None])
    mortar = hsv(0.1, rng.uniform(0, 0.15), rng.uniform(0.3, 0.9))
    return _finish(np.where(edge[..., None], mortar, picture))


def fabric(rng: Rng) -> Picture:
    """Make cloth: plain, striped or checked, with a weave."""
    first = hsv(rng.random(), rng.uniform(0, 0.8), rng.uniform(0.15, 0.9))
    second = hsv(rng.random(), rng.uniform(0, 0.8), rng.uniform(0.15, 0.9))
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    pattern = rng.choice(["plain", "plain", "stripes", "checks", "dots"])
    period = SIZE // int(rng.choice([4, 8, 16]))
    if pattern == "plain":
        weight = np.zeros((SIZE, SIZE))
    elif pattern == "stripes":
        weight = (x % period < period * rng.uniform(0.1, 0.6)).astype(float)
    elif pattern == "checks":
        weight = 0.5 * (x % period < period / 2) + 0.5 * (y % period < period / 2)
    else:
        weight = (np.hypot(x % period - period / 2, y % period - period / 2) < period * 0.28).astype(float)
    weave = 1 + rng.uniform(0.03, 0.15) * (np.sin(x * 2.1) * np.sin(y * 2.1)) + rng.normal(0, 0.03, (SIZE, SIZE))
    return _finish(_blend(first, second, weight.astype(np.float32)) * weave[..., None])


def carpet(rng: Rng) -> Picture:
    """Make a carpet: short pile of one color with strong fine grain."""
    base = hsv(rng.random(), rng.uniform(0, 0.5), rng.uniform(0.2, 0.8))
    grain = cv2.GaussianBlur(rng.normal(0, 1, (SIZE, SIZE)).astype(np.float32), (0, 0), 0.6)
    return _finish(base * (1 + rng.uniform(0.1, 0.35) * grain)[..., None])


def ground(rng: Rng) -> Picture:
    """Make grass, soil or gravel seen from above: short strokes of several tones."""
    hue = rng.choice([rng.uniform(0.18, 0.33), rng.uniform(0.05, 0.12)])
    base = hsv(hue, rng.uniform(0.2, 0.6), rng.uniform(0.2, 0.6))
    other = hsv(hue + rng.normal(0, 0.04), rng.uniform(0.2, 0.6), rng.uniform(0.2, 0.7))
    patches = fractal_noise(rng, SIZE, 1.2)
    stroke = cv2.GaussianBlur(
        rng.normal(0, 1, (SIZE, SIZE)).astype(np.float32), (0, 0), 0.5, sigmaY=rng.uniform(0.5, 2)
    )
    return _finish(_blend(base, other, patches) * (1 + 0.5 * stroke)[..., None])


def dead_leaves(rng: Rng) -> Picture:
    """Make dead leaves: overlapping shapes whose sizes follow r^−3, with the statistics of photographs."""
    picture = np.full((SIZE, SIZE, 3), rng.uniform(0, 255, 3), dtype=np.float32)
    grain = 255 * (fractal_noise(rng, SIZE, 1.0) - 0.5)
    colors = rng.uniform(0, 1, (6, 3)) ** rng.uniform(0.6, 2)
    for _ in range(220):
        radius = min(SIZE / 3, 4 / np.sqrt(max(rng.random(), 1e-4)))
        center = tuple(int(c) for c in rng.integers(0, SIZE, 2))
        color = np.clip(colors[rng.integers(6)] + rng.normal(0, 0.08, 3), 0, 1) * 255
        shape = rng.integers(3)
        if shape == 0:
            cv2.circle(picture, center, int(radius) + 1, color.tolist(), -1)
        elif shape == 1:
            axes = (int(radius) + 1, int(radius * rng.uniform(0.2, 1)) + 1)
            cv2.ellipse(picture, center, axes, rng.uniform(0, 360), 0, 360, color.tolist(), -1)
        else:
            corners = np.array(center) + rng.normal(0, radius, (int(rng.integers(3, 6)), 2))
            cv2.fillConvexPoly(picture, cv2.convexHull(corners.astype(np.int32)), color.tolist())
    picture += grain[..., None] * rng.uniform(0, 0.5)
    return _finish(cv2.GaussianBlur(picture, (0, 0), 0.6) / 255)


def printed(rng: Rng) -> Picture:
    """Make a page, label or screen: blocks of color and lines like text."""
    paper = hsv(rng.random(), rng.uniform(0, 0.4), rng.choice([0.95, 0.9, rng.uniform(0.05, 0.9)]))
    picture = np.full((SIZE, SIZE, 3), paper * 255, dtype=np.float32)
    for _ in range(int(rng.integers(1, 5))):
        x, y = rng.integers(0, SIZE - 40, 2)
        w, h = rng.integers(30, SIZE // 2, 2)
        block = rng.random()
        if block < 0.4:
            picture[y : y + h, x : x + w] = hsv(rng.random(), rng.uniform(0.2, 0.9), rng.uniform(0.2, 1)) * 255
        elif block < 0.55:
            leaves = dead_leaves(rng)
            target = picture[y : y + h, x : x + w]
            target[:] = cv2.resize(leaves, (target.shape[1], target.shape[0]))
        else:
            ink, line = rng.uniform(0, 120), int(rng.integers(3, 14))
            for top in range(y, min(y + h, SIZE - line), 2 * line):
                left = x
                while left < min(x + w, SIZE - 2):
                    word = int(rng.integers(line, 5 * line))
                    picture[top : top + line, left : min(left + word, x + w)] = ink
                    left += word + line
    return _finish(picture / 255)


MAKERS: dict[str, tuple[Callable[[Rng], Picture], ...]] = {
    "wall": (plaster, plaster, plaster, bricks, fabric, stone),
    "ceiling": (plaster,),
    "floor": (planks, planks, bricks, carpet, marble, stone),
    "facade": (bricks, bricks, stone, plaster),
    "roof": (bricks, stone),
    "road": (stone,),
    "pavement": (bricks, stone),
    "grass": (ground,),
    "soil": (ground, stone),
    "rock": (stone, marble),
    "bark": (stone,),
    "wood": (planks,),
    "metal": (stone, plaster),
    "fabric": (fabric, carpet),
    "print": (printed, printed, dead_leaves),
    "photo": (dead_leaves, dead_leaves, printed, fabric, marble),
}


def synthesize(role: str, rng: Rng) -> Picture:
    """Make a picture for a role of `MAKERS`."""
    makers = MAKERS[role]
    return makers[int(rng.integers(len(makers)))](rng)
