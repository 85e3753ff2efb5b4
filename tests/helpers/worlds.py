"""A small world for the tests: Gaussians on two planes, and cameras in front of them."""

from __future__ import annotations

import numpy as np
import torch

from omnidc.splatting.camera import Camera
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.numba_backend import rasterize
from omnidc.splatting.sh import C0
from omnidc.splatting.view import SplatView

SIZE = (30, 40)  # height, width
NEAR = 0.02


def cameras(count: int = 6) -> list[Camera]:
    """Cameras side by side that look along +z."""
    K = np.array([[40.0, 0.0, 19.5], [0.0, 40.0, 14.5], [0.0, 0.0, 1.0]])
    out = []
    for k in range(count):
        pose = np.eye(4)
        pose[:3, 3] = -0.4 + 0.8 * k / max(count - 1, 1), 0.1 * (-1) ** k, 0.0
        out.append(Camera.from_pose(K, pose, SIZE))
    return out


def world(seed: int = 0, degree: int = 0) -> Gaussians:
    """Opaque colored Gaussians on a wall at z = 3 and on a board at z = 2."""
    rng = np.random.default_rng(seed)
    wall = np.stack(np.meshgrid(np.linspace(-2.4, 2.4, 17), np.linspace(-1.8, 1.8, 13)), -1).reshape(-1, 2)
    board = np.stack(np.meshgrid(np.linspace(-0.6, 0.2, 6), np.linspace(-0.5, 0.3, 6)), -1).reshape(-1, 2)
    places = [np.c_[wall, np.full(len(wall), 3.0)], np.c_[board, np.full(len(board), 2.0)]]
    means = torch.tensor(np.concatenate(places), dtype=torch.float32)
    n = len(means)
    scales = torch.cat([torch.full((len(wall), 3), 0.2), torch.full((len(board), 3), 0.11)])
    scales[:, 2] = 0.02
    return Gaussians(
        means,
        scales.log(),
        torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(n, 1),
        torch.full((n,), 3.0),
        torch.tensor(rng.uniform(-0.4, 0.4, (n, 3)) / C0, dtype=torch.float32),
        torch.zeros(n, (degree + 1) ** 2 - 1, 3),
    )


@torch.no_grad()
def views(count: int = 6, with_depth: bool = True) -> list[SplatView]:
    """Renders of the world as photographs, with exact depth."""
    scene, out = world(), []
    for k, camera in enumerate(cameras(count)):
        render = scene.render(rasterize, camera, NEAR)
        image = (render.image.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        depth = torch.where(render.alpha > 0.9, render.expected_depth(), 0.0).numpy()
        out.append(SplatView(f"view{k}", camera, image, depth if with_depth else None, gt_depth=depth))
    return out


def points(seed: int = 0, noise: float = 0.05, share: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Noisy points of the world and their colors, as SfM gives them."""
    rng = np.random.default_rng(seed)
    scene = world()
    kept = rng.random(len(scene)) < share
    means = scene.means.numpy()[kept]
    colors = np.clip((scene.sh_dc.numpy()[kept] * C0 + 0.5) * 255, 0, 255).astype(np.uint8)
    return means + rng.normal(0, noise, means.shape), colors
