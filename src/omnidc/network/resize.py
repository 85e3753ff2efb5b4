"""From the output size to the working size of a network."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def shrink(
    image: Tensor,  # [B, 3, H, W]
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
    size: tuple[int, int] | None,  # height, width, at most H, W; None = no change
) -> tuple[Tensor, Tensor]:
    """Image and measurements at a smaller size: means of colors; of several measurements in a pixel the nearest."""
    if size is None or tuple(size) == tuple(image.shape[-2:]):
        return image, sparse
    return F.interpolate(image, size=size, mode="area"), resize_sparse(sparse, size)


def resize_sparse(
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
    size: tuple[int, int],
) -> Tensor:
    """Move each measurement to its pixel of another grid; of several in one pixel the nearest stays.

    Nothing is interpolated: a mean over an edge would be a depth that exists nowhere.
    """
    (H, W), (h, w) = sparse.shape[-2:], size
    row = ((torch.arange(H, device=sparse.device) + 0.5) * (h / H)).long().clamp(max=h - 1)
    column = ((torch.arange(W, device=sparse.device) + 0.5) * (w / W)).long().clamp(max=w - 1)
    index = (row[:, None] * w + column[None, :]).reshape(1, -1).expand(sparse.shape[0], -1)
    values = torch.where(sparse > 0, sparse, torch.inf).reshape(sparse.shape[0], -1)
    empty = torch.full((sparse.shape[0], h * w), torch.inf, dtype=sparse.dtype, device=sparse.device)
    nearest = empty.scatter_reduce(1, index, values, "amin")
    return torch.where(torch.isinf(nearest), 0.0, nearest).view(-1, 1, h, w)
