"""Synthetic problems with a known solution, shared by tests, benchmarks and examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from omnidc.integrate.energy import differences, join_edges, pool


@dataclass
class Problem:
    """Arguments of `integrate`, and the surface that they were made from."""

    gradients: list[Tensor]  # R × [B, 2, h_r, w_r]
    sparse_log_depth: Tensor  # [B, 1, h, w]
    mask: Tensor  # [B, 1, h, w]
    confidence: Tensor  # [B, 1, h, w]
    weights: list[Tensor]  # R × [B, 2, h_r, w_r]
    surface: Tensor  # [B, 1, h, w], log depth

    def arguments(self) -> tuple[list[Tensor], Tensor, Tensor, Tensor, list[Tensor]]:
        return self.gradients, self.sparse_log_depth, self.mask, self.confidence, self.weights


def stepped_surface(
    height: int,
    width: int,
    *,
    batch: int = 1,
    levels: int = 3,
    points: int | float = 0.01,  # a count, or a share of the pixels when below 1
    weights: Literal["uniform", "random", "edges"] = "uniform",
    noise: float = 0.01,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Problem:
    """Make a slanted wavy plane with discs in front of it; noisy gradients, random confidences, points anywhere.

    "random" weights are sigmoid(3 N(0, 1)), at least 1e-3: three orders of magnitude from one edge to the next. "edges"
    are 1e-3 where the surface steps and 1 / levels elsewhere, as a network learns them: regions with strong edges
    inside and weak edges between them.
    """
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=dtype)

    def randn(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=dtype)

    y = torch.linspace(0, 1, height, dtype=dtype)[:, None]
    x = torch.linspace(0, 1, width, dtype=dtype)[None, :]
    surface = (1.5 + y + 0.5 * torch.sin(5 * x)).repeat(batch, 1, 1, 1)
    for disc in rand(12, batch, 4):
        cy, cx, radius, step = disc[:, :, None, None, None].unbind(1)
        surface = torch.where((y - cy) ** 2 + (x - cx) ** 2 < (0.05 + 0.1 * radius) ** 2, surface - 0.4 * step, surface)

    count = max(1, round(points * height * width)) if points < 1 else min(int(points), height * width)
    mask = torch.zeros(batch, height * width, dtype=dtype)
    for image in mask:
        image[torch.randperm(height * width, generator=generator)[:count]] = 1
    gradients, edge_weights = [], []
    for level in range(levels):
        g = join_edges(differences(pool(surface, level)))
        gradients.append(g + noise * randn(g))
        w = torch.full_like(g, 1 / levels)
        if weights == "random":
            w = torch.sigmoid(3 * randn(g)).clamp_min(1e-3)
        elif weights == "edges":
            w = torch.where(g.abs() > 0.05 * 2**level, 1e-3, w)
        edge_weights.append(w)
    return Problem(
        gradients,
        surface,
        mask.reshape(batch, 1, height, width),
        0.1 + 0.9 * rand(batch, 1, height, width),
        edge_weights,
        surface,
    )
