"""How far each measurement lies from those around it: what outliers are told by."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WINDOWS = (4, 8, 16)  # cells; a measurement is compared with its own block of that size and the eight around it
FEATURES = 3 * len(WINDOWS)
_LEAST_SPREAD = 0.02  # of relative log depth: what sensors differ by on one surface
_CLIP = 6.0


@torch.no_grad()
def surroundings(
    log_depth: Tensor,  # [B, 1, h, w], in units of the scene's relief
    mask: Tensor,  # [B, 1, h, w], 0 or 1
) -> Tensor:
    """[B, 3 × windows, h, w], 0 where nothing was measured: with mean m, deviation s and number n of the *other*
    measurements of a window, l − m, (l − m) / s, and ln(1 + n)."""
    height, width = mask.shape[-2:]
    own = torch.cat([mask, log_depth * mask, log_depth.square() * mask], dim=1)
    maps = []
    for window in WINDOWS:
        blocks = F.avg_pool2d(own, window, ceil_mode=True, divisor_override=1)
        around = F.avg_pool2d(blocks, 3, stride=1, padding=1, divisor_override=1)
        around = F.interpolate(around, scale_factor=window)[..., :height, :width] - own
        count = around[:, :1].round()
        mean = around[:, 1:2] / count.clamp_min(1)
        spread = (around[:, 2:] / count.clamp_min(1) - mean.square()).clamp_min(0).sqrt() + _LEAST_SPREAD
        apart = (log_depth - mean) * (count > 0)
        maps += [apart.clamp(-_CLIP, _CLIP), (apart / spread).clamp(-_CLIP, _CLIP), count.log1p()]
    return torch.cat(maps, dim=1) * mask


class Trust(nn.Module):
    """A logit to add to the confidence of each cell, from its surroundings and the network's features; 0 at first."""

    def __init__(self, channels: int, hidden: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(FEATURES + channels, hidden, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, 1, 1),
        )
        last = self.layers[-1]
        assert isinstance(last, nn.Conv2d)
        assert last.bias is not None
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def forward(self, around: Tensor, features: Tensor) -> Tensor:  # [B, FEATURES, h, w], [B, C, h, w] → [B, 1, h, w]
        logit: Tensor = self.layers(torch.cat([around, features], dim=1))
        return logit
