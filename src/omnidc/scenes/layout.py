"""Footprints on the floor that do not overlap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Rng

# yaw that turns a thing's back to a wall, and the outward direction of that wall: +y, +x, −y, −x
WALL_YAWS = (0.0, -np.pi / 2, np.pi, np.pi / 2)
WALL_NORMALS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)], dtype=np.float64)


@dataclass(frozen=True)
class Footprint:
    """A rectangle on the floor: center, full sides (before the turn), yaw."""

    x: float
    y: float
    width: float
    depth: float
    yaw: float = 0.0

    def corners(self) -> npt.NDArray[np.float64]:
        """Return the corners [4, 2], counter-clockwise."""
        half = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (self.width / 2, self.depth / 2)
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        return np.asarray(half @ np.array([[c, s], [-s, c]]) + (self.x, self.y))

    def shrunk(self, margin: float) -> Footprint:
        """Return the rectangle without a border."""
        return Footprint(self.x, self.y, max(0, self.width - 2 * margin), max(0, self.depth - 2 * margin), self.yaw)

    def sample(self, rng: Rng) -> tuple[float, float]:
        """Draw a uniform point of the rectangle."""
        u, v = rng.uniform(-0.5, 0.5, 2) * (self.width, self.depth)
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        return float(self.x + c * u - s * v), float(self.y + s * u + c * v)


def overlap(a: Footprint, b: Footprint) -> bool:
    """Return whether two rectangles share an area: no axis separates them (separating axis theorem)."""
    first, second = a.corners(), b.corners()
    for yaw in (a.yaw, a.yaw + np.pi / 2, b.yaw, b.yaw + np.pi / 2):
        axis = np.array([np.cos(yaw), np.sin(yaw)])
        p, q = first @ axis, second @ axis
        if p.max() <= q.min() + 1e-9 or q.max() <= p.min() + 1e-9:
            return False
    return True


@dataclass
class Floor:
    """A rectangular floor centered on the origin, and what stands on it."""

    width: float
    depth: float
    taken: list[Footprint] = field(default_factory=list)

    def inside(self, spot: Footprint) -> bool:
        """Return whether the whole rectangle is on the floor."""
        reach = np.abs(spot.corners()).max(axis=0)
        return bool(reach[0] <= self.width / 2 + 1e-6 and reach[1] <= self.depth / 2 + 1e-6)

    def free(self, spot: Footprint) -> bool:
        """Return whether the rectangle is on the floor and overlaps nothing."""
        return self.inside(spot) and not any(overlap(spot, other) for other in self.taken)

    def claim(self, spot: Footprint) -> Footprint:
        """Take the rectangle."""
        self.taken.append(spot)
        return spot

    def along_wall(
        self, rng: Rng, width: float, depth: float, side: int | None = None, tries: int = 15
    ) -> Footprint | None:
        """Claim a place with its back to a wall (2 cm away); None when there is none."""
        for _ in range(tries):
            wall = int(rng.integers(4)) if side is None else side
            normal = WALL_NORMALS[wall]
            length = self.width if wall % 2 == 0 else self.depth
            room = length - width
            if room < 0:
                continue
            along = rng.uniform(-room / 2, room / 2)
            reach = (self.depth if wall % 2 == 0 else self.width) / 2 - depth / 2 - 0.02
            x, y = normal * reach + np.array([normal[1], -normal[0]]) * along
            spot = Footprint(float(x), float(y), width, depth, WALL_YAWS[wall])
            if self.free(spot):
                return self.claim(spot)
        return None

    def anywhere(self, rng: Rng, width: float, depth: float, turned: bool = False, tries: int = 15) -> Footprint | None:
        """Claim a place somewhere; `turned`: at any angle rather than along the walls."""
        for _ in range(tries):
            yaw = rng.uniform(0, 2 * np.pi) if turned else rng.integers(4) * np.pi / 2 + rng.normal(0, 0.08)
            x, y = rng.uniform(-0.5, 0.5, 2) * (self.width, self.depth)
            spot = Footprint(float(x), float(y), width, depth, float(yaw))
            if self.free(spot):
                return self.claim(spot)
        return None

    def beside(self, rng: Rng, spot: Footprint, width: float, depth: float, gap: float) -> Footprint | None:
        """Claim a place in front of one of the four sides of `spot`, facing it: chairs at a table."""
        for side in rng.permutation(4):
            yaw = spot.yaw + side * np.pi / 2
            half = spot.depth / 2 if side % 2 == 0 else spot.width / 2
            length = spot.width if side % 2 == 0 else spot.depth
            forward = np.array([np.sin(yaw), -np.cos(yaw)])  # the side's outward direction (−y before the turn)
            shift = rng.uniform(-0.5, 0.5) * max(0.0, length - width)
            center = np.array([spot.x, spot.y]) + forward * (half + gap + depth / 2)
            center += np.array([np.cos(yaw), np.sin(yaw)]) * shift
            # a chair's front is −y, so half a turn makes it face the table
            place = Footprint(float(center[0]), float(center[1]), width, depth, float(yaw + np.pi + rng.normal(0, 0.1)))
            if self.free(place):
                return self.claim(place)
        return None
