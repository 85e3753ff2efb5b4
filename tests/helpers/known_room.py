"""A room whose depth is known: floor, wall and boxes, each of its own color."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

HEIGHT, WIDTH = 240, 320


@dataclass(frozen=True)
class Room:
    image: npt.NDArray[np.uint8]
    depth: npt.NDArray[np.float32]
    K: npt.NDArray[np.float64]

    def random(self, share: float, seed: int = 0) -> npt.NDArray[np.float32]:
        """Draw this share of the pixels as measurements."""
        chosen = np.random.default_rng(seed).random(self.depth.shape) < share
        return np.where(chosen, self.depth, np.float32(0))


def room(seed: int = 0, boxes: int = 14, camera_height: float = 1.5) -> Room:
    """Look at a wall 6 m away across a floor, with boxes at 2 to 5 m."""
    rng = np.random.default_rng(seed)
    K = np.array([[250.0, 0, 159.5], [0, 250.0, 119.5], [0, 0, 1]])
    v = np.mgrid[:HEIGHT, :WIDTH][0]
    y = (v - K[1, 2]) / K[1, 1]
    floor = np.where(y > 0.01, camera_height / np.maximum(y, 0.01), np.inf)
    depth = np.minimum(floor, 6.0)
    color = np.where((floor < 6)[..., None], [90.0, 70, 60], [165.0, 140, 95])
    for _ in range(boxes):
        z = float(rng.uniform(2, 5))
        w, h = (int(s) for s in rng.integers(25, 70, 2))
        left, top = int(rng.integers(0, WIDTH - w)), int(rng.integers(0, HEIGHT - h))
        box = np.s_[top : top + h, left : left + w]
        nearer = depth[box] > z
        depth[box] = np.where(nearer, z, depth[box])
        color[box] = np.where(nearer[..., None], rng.uniform(20, 235, 3), color[box])
    noise = rng.normal(0, 3, color.shape)
    return Room(np.clip(color + noise, 0, 255).astype(np.uint8), depth.astype(np.float32), K)


def shifted(sparse: npt.NDArray[np.float32], dx: int, dy: int) -> npt.NDArray[np.float32]:
    """Move the measurements right and down; those that leave the image are lost."""
    out = np.zeros_like(sparse)
    height, width = sparse.shape
    out[max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)] = sparse[
        max(-dy, 0) : height + min(-dy, 0), max(-dx, 0) : width + min(-dx, 0)
    ]
    return out
