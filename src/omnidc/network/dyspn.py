"""DySPN: propagation of depth along learned, per-step offsets and affinities at full resolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.network.completionformer import conv3x3

# (x, y) of the neighbours an offset is added to
NEIGHBOURS = ((0, -1), (-1, 0), (0, 0), (1, 0), (0, 1))
K = len(NEIGHBOURS)


class DySPN(nn.Module):
    """d ← (1 − c) Σ_k a_k d(p + n_k + o_k) + c · measurement, with offsets o and affinities a of its own in every step.

    borders: "zero" counts what lies outside the image as depth 0, as the released code does; "renormalised" divides
    by the weight that lies inside.
    """

    offset_3x3: Tensor

    def __init__(self, steps: int, borders: str) -> None:
        super().__init__()
        self.steps, self.borders = steps, borders
        self.register_buffer("offset_3x3", torch.tensor(NEIGHBOURS, dtype=torch.float32).view(K, 1, 1, 2))
        # Per step first the offsets (y, x) of its neighbours, then, after all offsets, the affinity logits.
        self.conv_offset_aff = conv3x3(K * steps, 3 * K * steps, bias=True)
        for parameter in self.conv_offset_aff.parameters():
            nn.init.zeros_(parameter)

    def forward(
        self,
        depth: Tensor,  # [B, 1, H, W], the start
        guide: Tensor,  # [B, 5 T, H, W]
        confidence: Tensor,  # [B, 1, H, W], logit of the trust in measurements
        sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
    ) -> Tensor:
        return self.iterate(depth, guide, confidence, sparse)[-1]

    def iterate(self, depth: Tensor, guide: Tensor, confidence: Tensor, sparse: Tensor) -> list[Tensor]:
        """The depth after each step."""
        trust = confidence.sigmoid() * (sparse > 0)
        parameters = self.conv_offset_aff(guide)
        offsets, logits = torch.split(parameters, [2 * K * self.steps, K * self.steps], dim=1)
        steps = []
        for offset, logit in zip(offsets.chunk(self.steps, dim=1), logits.chunk(self.steps, dim=1)):
            depth = self.step(depth, offset, logit, trust, sparse)
            steps.append(depth)
        return steps

    def step(
        self,
        depth: Tensor,  # [B, 1, H, W]
        offset: Tensor,  # [B, 2 K, H, W], pixels; y, x per neighbour
        logit: Tensor,  # [B, K, H, W]
        trust: Tensor,  # [B, 1, H, W] in [0, 1), 0 where nothing was measured
        sparse: Tensor,  # [B, 1, H, W]
        first: int = 0,  # all maps but `depth` may be some rows of the image only, from this one on
    ) -> Tensor:
        affinity = logit.softmax(dim=1)
        positions = self.positions(offset, first)
        propagated = (affinity * sample(depth, positions)).sum(1, keepdim=True)
        if self.borders == "renormalised":
            inside = (affinity * share_inside(positions, *depth.shape[-2:])).sum(1, keepdim=True)
            # where all neighbours lie outside, the pixel keeps its depth
            kept = depth[:, :, first : first + offset.shape[2]]
            propagated = torch.where(inside > 1e-3, propagated / inside.clamp_min(1e-3), kept)
        return (1 - trust) * propagated + trust * sparse

    def positions(self, offset: Tensor, first: int = 0) -> Tensor:
        """Where each neighbour is read: [B, K, H, W, 2], (x, y) in pixels."""
        rows, width = offset.shape[-2:]
        y = torch.arange(first, first + rows, device=offset.device)
        y, x = torch.meshgrid(y, torch.arange(width, device=offset.device), indexing="ij")
        base = torch.stack([x, y], dim=-1) + self.offset_3x3.to(offset.dtype)  # [K, H, W, 2]
        return base + torch.unflatten(offset, 1, (K, 2)).flip(2).permute(0, 1, 3, 4, 2)


def sample(
    depth: Tensor,  # [B, 1, H, W]
    positions: Tensor,  # [B, K, H, W, 2], (x, y) in pixels
) -> Tensor:
    """Bilinear interpolation, 0 outside the image: [B, K, H, W]."""
    height, width = depth.shape[-2:]
    size = positions.new_tensor([width, height])
    grid = (2 * positions + 1) / size - 1  # grid_sample's coordinates: −1 and 1 are the image's outer edges
    flat = F.grid_sample(depth, grid.flatten(1, 2), mode="bilinear", padding_mode="zeros", align_corners=False)
    return torch.unflatten(flat.squeeze(1), 1, (K, -1))


def share_inside(
    positions: Tensor,  # [B, K, H, W, 2], (x, y) in pixels
    height: int,
    width: int,
) -> Tensor:
    """How much of the bilinear weights of each position falls on pixels of the image: [B, K, H, W] in [0, 1]."""
    size = positions.new_tensor([width, height])
    x, y = torch.minimum(positions + 1, size - positions).clamp(0, 1).unbind(dim=-1)
    return x * y
