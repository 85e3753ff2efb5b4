"""Networks in stages: all of them run at the working size, and their maps are interpolated to the output size."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.network.interface import Prediction, StagedNetwork
from omnidc.network.normalize import masked_log, normalization
from omnidc.network.refine import spread_residual
from omnidc.network.resize import nearest_rows, shrink
from omnidc.pipeline.options import TileOption
from omnidc.pipeline.tiles import run_in_tiles

AUTO_PIXELS = 2_100_000  # above this, tile="auto" tiles; Full HD just stays whole
TILE = 1024


def tile_side(tile: TileOption, size: tuple[int, int]) -> int | None:
    """Return the side of the tiles in pixels at a working size (height, width); None = the whole image runs at once."""
    if tile == "auto":
        return TILE if size[0] * size[1] > AUTO_PIXELS else None
    return tile


def run_staged(
    network: StagedNetwork,
    image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
    size: tuple[int, int],  # working height and width
    keep_input: bool,
    tile: int | None,
) -> Prediction:
    """Complete a batch as `DepthNetwork.forward` does; depth, scale and confidence are [B, 1, H, W], on the CPU."""
    out = run_in_tiles(network, *shrink(image, sparse, size), tile)
    height, width = image.shape[-2:]
    depth = _enlarge(out.depth, (height, width))
    return replace(
        out,
        depth=pass_through(depth, sparse) if keep_input else depth,
        depth_init=_enlarge(out.depth_init, (height, width)),
        laplace_scale=None if out.laplace_scale is None else _enlarge(out.laplace_scale, (height, width)),
        fields=replace(out.fields, confidence=nearest_rows(out.fields.confidence, (height, width), (0, height))),
    )


def pass_through(
    depth: Tensor,  # [B, 1, H, W] > 0
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
) -> Tensor:  # [B, 1, H, W] > 0
    """Replace depth by the measurements, and spread their residuals over the surfaces that they lie on."""
    median = normalization(sparse).median  # so that the result does not depend on the unit
    measured, given = masked_log(sparse / median)
    corrected = spread_residual((depth / median).log(), measured, given, given)
    return torch.where(given > 0, sparse, corrected.exp() * median)


def _enlarge(values: Tensor, size: tuple[int, int]) -> Tensor:  # [B, 1, h, w] > 0 → [B, 1, H, W] > 0
    """Interpolate the logarithm."""
    values = values.clamp_min(torch.finfo(values.dtype).tiny)
    if values.shape[-2:] == size:
        return values
    return F.interpolate(values.log(), size, mode="bilinear").exp()
