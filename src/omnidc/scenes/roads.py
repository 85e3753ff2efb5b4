"""A road: its course over the ground, and bands that follow it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Mesh, Rng
from omnidc.scenes.primitives import transformed, turned


@dataclass(frozen=True)
class Road:
    """A center line x = bend(y), z = climb(y), and the width of carriageway and pavements."""

    width: float
    pavement: float
    length: float  # from −length to +length
    bends: tuple[float, float, float]  # amplitude, wave number, phase
    climbs: tuple[float, float, float]

    def height(self, y: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the height of the ground at y."""
        a, k, phase = self.climbs
        return np.asarray(a * (np.sin(k * np.asarray(y) + phase) - np.sin(phase)))

    def center(self, y: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return x of the center line at y."""
        a, k, phase = self.bends
        return np.asarray(a * (np.sin(k * np.asarray(y) + phase) - np.sin(phase)))

    def slope(self, y: float) -> float:
        """Return the angle by which the ground climbs along +y at y."""
        a, k, phase = self.climbs
        return float(np.arctan(a * k * np.cos(k * y + phase)))

    def heading(self, y: float) -> float:
        """Return the yaw of the road at y; 0 = along +y."""
        a, k, phase = self.bends
        return float(-np.arctan(a * k * np.cos(k * y + phase)))

    def at(self, aside: float, y: float, lift: float = 0.0) -> tuple[float, float, float]:
        """Return a point `aside` meters right of the center line."""
        turn = self.heading(y)
        px, py = float(self.center(y)) + aside * np.cos(turn), y + aside * np.sin(turn)
        return float(px), float(py), float(self.height(py)) + lift

    def laid(self, shape: Mesh, aside: float, y: float, lift: float = 0.0) -> Mesh:
        """Put `shape` down beside the road, its y axis along it."""
        return transformed(shape, self.at(aside, y, lift), turned(self.heading(y)))

    def strip(
        self, left: float, right: float, lift: float, start: float, end: float, step: float = 2.0, rise: float = 0.0
    ) -> list[npt.NDArray[np.float64]]:
        """Return the cross-sections [2, 3] of a band that follows the road; its right side lies `rise` higher."""
        ys = np.linspace(start, end, max(2, int((end - start) / step) + 1))
        return [np.array([self.at(left, y, lift), self.at(right, y, lift + rise)]) for y in ys]


def band(sections: list[npt.NDArray[np.float64]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Return the vertices and quads of a strip of cross-sections, facing up."""
    points = np.concatenate(sections)
    k = np.arange(len(sections) - 1, dtype=np.int32)[:, None] * 2
    return points, (k + np.array([0, 1, 3, 2], dtype=np.int32)).astype(np.int32)


def draw_road(rng: Rng) -> Road:
    """Draw a road of two to four lanes."""
    return Road(
        float(rng.uniform(5, 12)),
        float(rng.uniform(1.5, 4)),
        float(rng.uniform(70, 140)),
        (float(rng.choice([0, rng.uniform(1, 14)])), float(rng.uniform(0.01, 0.03)), float(rng.uniform(0, 6.3))),
        (float(rng.choice([0, rng.uniform(0.3, 5)])), float(rng.uniform(0.01, 0.035)), float(rng.uniform(0, 6.3))),
    )
