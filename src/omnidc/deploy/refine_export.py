"""Stage 4 of the compact network as two small ONNX graphs, which `omnidc.deploy.bands` runs over bands of rows.

The exported model itself holds all four stages. It has no loop over bands, so that its memory grows with the image, and
its result has the working size. These graphs start from what stages 1 to 3 hand on.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from omnidc.deploy.bands import Band, Resampled
from omnidc.deploy.graph import name_sizes, simplify
from omnidc.deploy.loop import trace
from omnidc.deploy.short_forms import ShortForms
from omnidc.network.compact import CompactNetwork

OUTPUTS = ("depth", "uncertainty", "confidence", "sky")
# Batch; cells, rows and columns of a band, of which some are cropped
TRACED = (2, (9, 17), (15, 31))
OBSERVED = ((1, (6, 9), (11, 18)), (2, (4, 30), (8, 57)), (3, (12, 5), (21, 9)))


class RefineExport(nn.Module):
    """forward(the fields of `Band`[, those of `Resampled`]) → `OUTPUTS`, cropped or resampled to the band."""

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        features: Tensor,  # [B, C, m, n]
        maps: Tensor,  # [B, 3, 2 m, 2 n]
        judged: Tensor,  # [B, 2, R, W]
        image: Tensor,  # [B, 3, R, W]
        sparse: Tensor,  # [B, 1, R, W]
        median: Tensor,  # [B, 1, 1, 1]
        keep_input: Tensor,  # bool [1, 1, 1, 1]
        *resampled: Tensor,  # above, below, down [R]; left, right, across [W]
    ) -> tuple[Tensor, ...]:
        groups = self.network.pixel_maps(features, maps)
        if resampled:
            above, below, down, left, right, across = resampled
            joined = torch.cat(groups, dim=1)
            joined = torch.lerp(joined[:, :, above], joined[:, :, below], down[:, None])
            joined = torch.lerp(joined[:, :, :, left], joined[:, :, :, right], across)
            pixels = torch.split(joined, 1, dim=1)
        else:  # each map cut out at once: a crop of all and a split would copy them twice
            rows, columns = image.shape[-2:]
            pixels = tuple(one[:, k : k + 1, :rows, :columns] for one in groups for k in range(int(one.shape[1])))
        depth, _, scale, sky, confidence = self.network.refine_pixels(pixels, judged, image, sparse, median, keep_input)
        return depth * median, scale * median, confidence, sky.sigmoid()


def refine_graphs(network: CompactNetwork) -> tuple[bytes, bytes]:
    """Return stage 4 as serialized ONNX models: at the working size, and at any other."""
    at_working_size, resampled = (_export(RefineExport(network), is_resampled) for is_resampled in (False, True))
    return at_working_size, resampled


def _export(module: RefineExport, is_resampled: bool) -> bytes:
    channels = int(module.network.full_head.in_channels)
    example = _example(channels, *TRACED, is_resampled)
    names = (*Band.names(), *(Resampled.names() if is_resampled else ()))
    axes: dict[str, dict[int, str]] = {
        "features": {0: "batch", 2: "cell_rows", 3: "cell_columns"},
        "maps": {0: "batch", 2: "map_rows", 3: "map_columns"},
        "median": {0: "batch"},
        **{name: {0: "batch", 2: "rows", 3: "columns"} for name in ("judged", "image", "sparse", *OUTPUTS)},
        **{name: {0: "rows"} for name in ("above", "below", "down")},
        **{name: {0: "columns"} for name in ("left", "right", "across")},
    }
    used = {name: axes[name] for name in (*names, *OUTPUTS) if name in axes}
    with torch.no_grad(), warnings.catch_warnings(), ShortForms():
        warnings.simplefilter("ignore")  # the exporter's, of its own internals
        model: Any = simplify(trace(module, example, names, OUTPUTS, used))
    observed = [_example(channels, *sizes, is_resampled) for sizes in OBSERVED]
    name_sizes(model, [{name: tensor.numpy() for name, tensor in zip(names, one)} for one in observed])
    data: bytes = model.SerializeToString()
    return data


def _example(
    channels: int, batch: int, cells: Sequence[int], band: Sequence[int], is_resampled: bool
) -> tuple[Tensor, ...]:
    """Make inputs of a band, from a fixed seed."""
    random = torch.Generator().manual_seed(0)

    def rand(count: int, height: int, width: int) -> Tensor:
        return torch.rand(batch, count, height, width, generator=random)

    def indices(length: int, count: int) -> Tensor:
        return torch.randint(length, (count,), generator=random)

    (m, n), (rows, columns) = cells, band
    tensors = [
        rand(channels, m, n),
        rand(3, 2 * m, 2 * n),
        rand(2, rows, columns),
        rand(3, rows, columns),
        rand(1, rows, columns).round() * 2,
        torch.ones(batch, 1, 1, 1),
        torch.zeros(1, 1, 1, 1, dtype=torch.bool),
    ]
    if is_resampled:
        for length, count in ((2 * m, rows), (2 * n, columns)):
            tensors += [indices(length, count), indices(length, count), torch.rand(count, generator=random)]
    return tuple(tensors)
