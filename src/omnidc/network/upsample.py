"""Convex upsampling: every fine pixel is a learned convex combination of its 3 × 3 coarse neighbors (RAFT)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError

BORDERS = ("renormalized", "zero")


def convex_upsample(
    x: Tensor,  # [B, C, h, w]
    logits: Tensor,  # [B, 9 f², h, w]; channel k f² + a f + b: neighbor k (row-major), sub-row a, sub-column b
    factor: int = 4,
    borders: str = "renormalized",
) -> Tensor:
    """Return out[f y + a, f x + b] = Σ_k softmax_k(logits)[a, b, y, x] · x[y + dy_k, x + dx_k], as [B, C, f h, f w].

    borders: "renormalized" spreads the weights over the neighbors that exist; "zero" counts those outside as
    value 0, as the released code does.
    """
    if borders not in BORDERS:
        raise ConfigError(f"Border mode {borders!r} does not exist; use one of {', '.join(BORDERS)}.")
    batch, _, height, width = x.shape
    logits = logits.contiguous().view(batch, 9, factor * factor, height, width)
    if borders == "renormalized":
        inside = F.unfold(x.new_ones(1, 1, height, width), 3, padding=1).view(1, 9, 1, height, width)
        logits = logits.masked_fill(inside == 0, -torch.inf)  # the center always exists: no softmax over nothing
    weights = logits.softmax(dim=1)
    padded = F.pad(x, (1, 1, 1, 1))[:, :, None]
    fine = weights[:, None, 0] * padded[..., :height, :width]
    for k in range(1, 9):
        fine = fine + weights[:, None, k] * padded[..., k // 3 : k // 3 + height, k % 3 : k % 3 + width]
    return F.pixel_shuffle(fine.flatten(1, 2), factor)
