"""Posed views of a wall for the tests of exports."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from omnidc.frame import Unit
from omnidc.interop.views import PosedView

K = np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]])
SIZE = (48, 64)


def turned(x: float, angle: float) -> npt.NDArray[np.float64]:
    """Camera-to-world: at (x, 0, 0), turned by `angle` radians about the vertical."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0.0, s, x], [0.0, 1.0, 0.0, 0.0], [-s, 0.0, c, 0.0], [0.0, 0.0, 0.0, 1.0]])


def plane_depth(pose: npt.NDArray[np.float64], z: float) -> npt.NDArray[np.float32]:
    """Depth of the world plane z = const in a camera."""
    v, u = np.mgrid[: SIZE[0], : SIZE[1]].astype(np.float64)
    rays = np.stack([u, v, np.ones_like(u)], -1) @ np.linalg.inv(K).T
    return np.asarray((z - pose[2, 3]) / (rays @ pose[2, :3]), dtype=np.float32)


def wall_views(folder: Path, count: int = 4, z: float = 3.0, unit: Unit = Unit.SCENE) -> list[PosedView]:
    views = []
    for i in range(count):
        pose = turned(0.1 * i, 0.05 * i)
        depth = plane_depth(pose, z)
        image = folder / "source" / f"view{i}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((*SIZE, 3), 40 * i, np.uint8)).save(image)
        np.save(folder / "source" / f"view{i}.npy", depth)
        load = partial(np.load, folder / "source" / f"view{i}.npy")
        views.append(PosedView(f"view{i}", f"view{i}.png", image, load, K, pose, SIZE, unit))
    return views
