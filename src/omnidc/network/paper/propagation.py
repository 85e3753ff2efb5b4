"""DySPN: propagation of depth along learned, per-step offsets and affinities at full resolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omnidc.network.paper.completionformer import conv3x3

# (x, y) of the neighbors an offset is added to
NEIGHBORS = ((0, -1), (-1, 0), (0, 0), (1, 0), (0, 1))
K = len(NEIGHBORS)


class DySPN(nn.Module):
    """d ← (1 − c) Σ_k a_k d(p + n_k + o_k) + c · measurement, with offsets o and affinities a of its own in every step.

    borders: "zero" counts what lies outside the image as depth 0, as the released code does; "renormalized" divides
    by the weight that lies inside.
    """

    offset_3x3: Tensor

    def __init__(self, steps: int, borders: str) -> None:
        super().__init__()
        self.steps, self.borders = steps, borders
        self.register_buffer("offset_3x3", torch.tensor(NEIGHBORS, dtype=torch.float32).view(K, 1, 1, 2))
        # Per step first the offsets (y, x) of its neighbors, then, after all offsets, the affinity logits.
        self.conv_offset_aff = conv3x3(K * steps, 3 * K * steps, bias=True)
        for parameter in self.conv_offset_aff.parameters():
            nn.init.zeros_(parameter)

    def forward(
        self,
        depth: Tensor,  # [B, 1, H, W], the start
        guide: Tensor,  # [B, 5 T, H, W]
        confidence: Tensor,  # [B, 1, H, W], logit of the confidence in measurements
        sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
    ) -> Tensor:
        return self.iterate(depth, guide, confidence, sparse)[-1]

    def iterate(self, depth: Tensor, guide: Tensor, confidence: Tensor, sparse: Tensor) -> list[Tensor]:
        """Return the depth after each step."""
        confidence = confidence.sigmoid() * (sparse > 0)
        parameters = self.conv_offset_aff(guide)
        offsets, logits = torch.split(parameters, [2 * K * self.steps, K * self.steps], dim=1)
        steps = []
        for offset, logit in zip(offsets.chunk(self.steps, dim=1), logits.chunk(self.steps, dim=1)):
            depth = self.step(depth, offset, logit, confidence, sparse)
            steps.append(depth)
        return steps

    def step(
        self,
        depth: Tensor,  # [B, 1, H, W]
        offset: Tensor,  # [B, 2 K, H, W], pixels; y, x per neighbor
        logit: Tensor,  # [B, K, H, W]
        confidence: Tensor,  # [B, 1, H, W] in [0, 1), 0 where nothing was measured
        sparse: Tensor,  # [B, 1, H, W]
        first: int = 0,  # all maps but `depth` may be some rows of the image only, from this one on
    ) -> Tensor:
        affinity = logit.softmax(dim=1)
        values, inside = self.sample(depth, offset, first)
        propagated = (affinity * values).sum(1, keepdim=True)
        if self.borders == "renormalized":
            share = (affinity * inside).sum(1, keepdim=True)
            # where all neighbors lie outside, the pixel keeps its depth
            kept = depth[:, :, first : first + offset.shape[2]]
            propagated = torch.where(share > 1e-3, propagated / share.clamp_min(1e-3), kept)
        return (1 - confidence) * propagated + confidence * sparse

    def sample(self, depth: Tensor, offset: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Read each neighbor's depth by bilinear interpolation, 0 outside the image: [B, K, H, W].

        The second result is the share of the interpolation's weights that falls on pixels of the image, in [0, 1].
        Whole and fractional pixels are kept apart: sums of column and offset would round to 6e-5 pixels in float32,
        as grid_sample's coordinates do.
        """
        height, width = depth.shape[-2:]
        neighbor = self.offset_3x3.to(offset).view(1, K, 1, 1, 2)
        row = torch.arange(first, first + offset.shape[2], device=offset.device).view(-1, 1)
        column = torch.arange(width, device=offset.device)
        offset_y, offset_x = torch.unflatten(offset, 1, (K, 2)).unbind(dim=2)
        whole_y, whole_x = offset_y.detach().floor(), offset_x.detach().floor()
        below, right = offset_y - whole_y, offset_x - whole_x
        top, left = row + neighbor[..., 1] + whole_y, column + neighbor[..., 0] + whole_x
        values, inside = torch.zeros_like(below), torch.zeros_like(below)
        flat = depth.flatten(1)
        for y, weight_y in ((top, 1 - below), (top + 1, below)):
            for x, weight_x in ((left, 1 - right), (left + 1, right)):
                exists = (y >= 0) & (y < height) & (x >= 0) & (x < width)
                index = y.clamp(0, height - 1).long() * width + x.clamp(0, width - 1).long()
                index = index.clamp(0, height * width - 1)  # offsets that are not numbers
                weight = weight_y * weight_x * exists
                values = values + weight * flat.gather(1, index.flatten(1)).view_as(weight)
                inside = inside + weight
        return values, inside
