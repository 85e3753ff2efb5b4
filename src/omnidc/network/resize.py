"""From the output size to the working size of a network."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def shrink(
    image: Tensor,  # [B, 3, H, W]
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
    size: tuple[int, int] | None,  # height, width, at most H, W; None = no change
) -> tuple[Tensor, Tensor]:
    """Shrink image and measurements: means of colors; of several measurements in a pixel the nearest."""
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


def source_rows(first: int, last: int, h: int, H: int) -> tuple[int, int]:
    """Return which of h rows are needed to interpolate rows first … last − 1 of H: from, to (exclusive)."""
    if h == H:
        return first, last
    return max(0, math.floor((first + 0.5) * h / H - 0.5)), min(h, math.floor((last - 0.5) * h / H - 0.5) + 2)


def bilinear_rows(
    maps: Tensor,  # [B, C, n, w], the `source_rows` of a map
    low: int,  # the first of them
    h: int,  # rows of the whole map
    size: tuple[int, int],  # H, W
    rows: tuple[int, int],  # from, to (exclusive)
) -> Tensor:  # [B, C, to − from, W]
    """Return some rows of a map at another size, as `F.interpolate` with mode "bilinear" would give them."""
    H, W = size
    if (h, maps.shape[-1]) == size:
        return maps
    y = ((torch.arange(*rows, device=maps.device, dtype=torch.float64) + 0.5) * (h / H) - 0.5).clamp(0, h - 1) - low
    above = y.floor().long()
    below = (above + 1).clamp_max(maps.shape[-2] - 1)
    part = torch.lerp(maps[..., above, :], maps[..., below, :], (y - above)[:, None].to(maps.dtype))
    return F.interpolate(part, size=(rows[1] - rows[0], W), mode="bilinear", align_corners=False)


def nearest_rows(
    maps: Tensor,  # [B, C, h, w]
    size: tuple[int, int],  # H, W
    rows: tuple[int, int],  # from, to (exclusive)
) -> Tensor:  # [B, C, to − from, W]
    """Return some rows of a map at another size: the value of the pixel into which each pixel's center falls."""
    (h, w), (H, W) = maps.shape[-2:], size
    if (h, w) == (H, W):
        return maps[..., rows[0] : rows[1], :]
    row = ((torch.arange(*rows, device=maps.device) + 0.5) * (h / H)).long().clamp(max=h - 1)
    column = ((torch.arange(W, device=maps.device) + 0.5) * (w / W)).long().clamp(max=w - 1)
    return maps[..., row, :][..., column]


def enlarge(
    x: Tensor,  # [B, C, h, w]
    factor: int,
) -> Tensor:  # [B, C, factor h, factor w]
    """Interpolate bilinearly between the middles of cells of `factor` × `factor` pixels."""
    if torch.is_grad_enabled():
        return _Enlarge.apply(x, factor)  # type: ignore[no-any-return, no-untyped-call]
    return F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


class _Enlarge(torch.autograd.Function):
    """`enlarge` with a backward pass of two matrix products, some times faster on CPUs than torch's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:
        ctx.shape, ctx.factor = x.shape, factor
        return F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        rows, columns = (
            _bilinear_weights(cells, ctx.factor).to(device=upstream.device, dtype=upstream.dtype)
            for cells in ctx.shape[-2:]
        )
        return rows @ upstream @ columns.T, None


@lru_cache(maxsize=64)
def _bilinear_weights(cells: int, factor: int) -> Tensor:  # [cells, factor · cells]
    """Return the weight of each cell at each pixel along one axis."""
    return F.interpolate(torch.eye(cells)[None], scale_factor=factor, mode="linear", align_corners=False)[0]
