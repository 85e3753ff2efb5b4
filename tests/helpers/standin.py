"""A small network that exports: median normalization, pull-push fill, a convolution, outputs by the contract."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DIVISOR = 8


class StandIn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Conv2d(5, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, image: Tensor, sparse: Tensor) -> tuple[Tensor, ...]:  # [B, 3, H, W], [B, 1, H, W]
        flat = sparse.flatten(1)
        count = (flat > 0).sum(1, keepdim=True)
        ordered = torch.where(flat > 0, flat, torch.inf).sort(1).values
        middle = ordered.gather(1, ((count - 1) // 2).clamp_min(0))
        median = torch.where(count > 0, middle, 1.0).reshape(-1, 1, 1, 1)
        valid = (sparse > 0).to(image)
        log_depth = torch.where(sparse > 0, sparse / median, 1.0).log()
        values, weights = [log_depth], [valid]
        for _ in range(3):
            share = F.avg_pool2d(weights[-1], 2)
            values.append(F.avg_pool2d(values[-1] * weights[-1], 2) / share.clamp_min(1e-6))
            weights.append((share > 0).to(image))
        filled = values[-1] * weights[-1]
        for value, weight in zip(values[-2::-1], weights[-2::-1]):
            up = F.interpolate(filled, scale_factor=2.0, mode="bilinear", align_corners=False)
            filled = weight * value + (1 - weight) * up
        correction, scale, sky = self.head(F.relu(self.mix(torch.cat([image, filled, valid], 1)))).split(1, 1)
        depth = (filled + 0.05 * torch.tanh(correction)).exp() * median
        residual = (valid * (depth / median).log().sub(log_depth).abs()).amax((1, 2, 3))
        return depth, 0.05 * depth * (1 + scale.sigmoid()), valid * 0.9, sky.sigmoid(), residual
