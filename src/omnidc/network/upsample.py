"""Convex upsampling: every fine pixel is a learned convex combination of its 3 × 3 coarse neighbours (RAFT)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError

BORDERS = ("renormalised", "zero")


def convex_upsample(
    x: Tensor,  # [B, 1, h, w]
    logits: Tensor,  # [B, 9 f², h, w]; channel k f² + a f + b: neighbour k (row-major), sub-row a, sub-column b
    factor: int = 4,
    borders: str = "renormalised",
) -> Tensor:
    """out[f y + a, f x + b] = Σ_k softmax_k(logits)[a, b, y, x] · x[y + dy_k, x + dx_k], as [B, 1, f h, f w].

    borders: "renormalised" spreads the weights over the neighbours that exist; "zero" counts those outside as
    value 0, as the released code does.
    """
    if borders not in BORDERS:
        raise ConfigError(f"Border mode {borders!r} does not exist; use one of {', '.join(BORDERS)}.")
    batch, _, height, width = x.shape
    logits = logits.view(batch, 9, factor * factor, height, width)
    if borders == "renormalised":
        inside = F.unfold(x.new_ones(1, 1, height, width), 3, padding=1).view(1, 9, 1, height, width)
        logits = logits.masked_fill(inside == 0, -torch.inf)  # the centre always exists: no softmax over nothing
    neighbours = F.unfold(x, 3, padding=1).view(batch, 9, 1, height, width)
    fine = (logits.softmax(dim=1) * neighbours).sum(dim=1)
    return F.pixel_shuffle(fine, factor)
