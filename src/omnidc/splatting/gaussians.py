"""`Gaussians`: the raw parameters of a splat, and how they become what a rasterizer takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from omnidc.errors import InputError
from omnidc.splatting.camera import Camera
from omnidc.splatting.rasterizer import Rasterizer, Render
from omnidc.splatting.sh import C0, basis_count, view_colors

START_OPACITY = 0.5
START_SIZE = 0.6  # standard deviation of a new Gaussian, of its distance to the nearest three
SIZE_RANGE = (1e-3, 0.5)  # bounds of that distance, of the scene's extent


@dataclass
class Gaussians:
    """Raw parameters; activations are exp for scales and sigmoid for opacities. Degree 0 and above are apart."""

    means: Tensor  # [N, 3], world
    log_scales: Tensor  # [N, 3]
    quats: Tensor  # [N, 4], w x y z, any length
    logits: Tensor  # [N], of opacity
    sh_dc: Tensor  # [N, 3]
    sh_rest: Tensor  # [N, K, 3], K = 0, 3, 8 or 15

    def __len__(self) -> int:
        return len(self.means)

    @property
    def degree(self) -> int:
        """Degree of the spherical harmonics that are stored."""
        return math.isqrt(self.sh_rest.shape[1] + 1) - 1

    @property
    def scales(self) -> Tensor:
        """[N, 3], standard deviations."""
        return self.log_scales.exp()

    @property
    def opacities(self) -> Tensor:
        """[N], in (0, 1)."""
        return self.logits.sigmoid()

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def render(self, rasterizer: Rasterizer, camera: Camera, near: float, degree: int | None = None) -> Render:
        """Render a view with harmonics up to `degree` (None: all)."""
        center = torch.as_tensor(camera.center, dtype=self.means.dtype, device=self.means.device)
        used = self.degree if degree is None else min(degree, self.degree)
        colors = view_colors(self.sh_dc, self.sh_rest, self.means, center, used)
        return rasterizer(self.means, self.scales, self.quats, self.opacities, colors, camera, near)


def from_points(
    points: npt.NDArray[np.floating],  # [P, 3], world
    colors: npt.NDArray[np.uint8],  # [P, 3]
    extent: float,  # size of the scene, unit of the points
    degree: int,
    rng: np.random.Generator,
    device: torch.device | str = "cpu",
) -> Gaussians:
    """Place a round Gaussian at every point, as large as the distance to its neighbors."""
    if len(points) < 4:
        raise InputError(f"A splat starts from at least four points, but there are {len(points)}.")
    distances = np.asarray(cKDTree(points).query(points, 4)[0])  # [P, 4], the first is the point itself
    spacing = distances[:, 1:].mean(axis=1)
    spacing = np.clip(spacing, SIZE_RANGE[0] * extent, SIZE_RANGE[1] * extent)
    n = len(points)

    def tensor(array: npt.NDArray[np.floating]) -> Tensor:
        return torch.tensor(array, dtype=torch.float32, device=device)

    return Gaussians(
        means=tensor(np.asarray(points)),
        log_scales=tensor(np.log(START_SIZE * spacing)[:, None].repeat(3, axis=1)),
        quats=tensor(rng.normal(size=(n, 4))),
        logits=tensor(np.full(n, np.log(START_OPACITY / (1 - START_OPACITY)))),
        sh_dc=tensor((colors / 255.0 - 0.5) / C0),
        sh_rest=torch.zeros(n, basis_count(degree) - 1, 3, device=device),
    )
