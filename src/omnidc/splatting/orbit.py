"""Cameras for pictures that move: a swing of one camera around what it looks at."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import torch

from omnidc.splatting.camera import Camera
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.rasterizer import Rasterizer

SWING = 15.0  # degrees to either side
STEPS = 24


def swing(
    camera: Camera,
    distance: float,  # along the optical axis to the pivot, unit of the pose
    degrees: float = SWING,
    steps: int = STEPS,
) -> list[Camera]:
    """Return cameras that swing once to either side about the camera's vertical axis through the pivot."""
    pivot = np.array([0.0, 0.0, distance])
    cameras = []
    for angle in np.radians(degrees) * np.sin(np.arange(steps) * 2 * np.pi / steps):
        c, s = np.cos(angle), np.sin(angle)
        turn = np.eye(4)
        turn[:3, :3] = [[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]
        turn[:3, 3] = pivot - turn[:3, :3] @ pivot
        cameras.append(dataclasses.replace(camera, view=turn @ camera.view))
    return cameras


@torch.no_grad()
def render_swing(
    gaussians: Gaussians, rasterizer: Rasterizer, camera: Camera, near: float
) -> list[npt.NDArray[np.uint8]]:
    """Return pictures of a swing about the middle of what the camera sees."""
    depth = gaussians.render(rasterizer, camera, near).expected_depth()
    seen = depth[depth > near]
    distance = float(seen.median()) if len(seen) else 1.0
    pictures = []
    for place in swing(camera, distance):
        image = gaussians.render(rasterizer, place, near).image.clamp(0, 1).cpu().numpy()
        pictures.append(np.rint(image * 255).astype(np.uint8))
    return pictures
