"""Running a network in stages over an image: whole, or in overlapping tiles around one global integration.

Tiles. `fields` of each tile are stitched, the integrator solves the whole image at once, and `refine` runs tile by tile
on the common solution; so tiles share one geometry and no seam can show. The outer margin of a tile, where the
network lacks context, does not count; inside it the weight rises linearly to 1. For a network whose context is smaller
than the margin the result is that of the whole image.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate import ConvergenceWarning
from omnidc.network.interface import Fields, Prediction, StagedNetwork
from omnidc.network.normalize import masked_median, pad_to_multiple

OVERLAP = 192  # a quarter of it is cut off at either side, half of it blends
COARSEST = 32  # tiles start at multiples of this, so that cells of every level (4·2^r ≤ 32 pixels) coincide
KEEP_BYTES = 2 << 30  # refinement parameters kept between the two passes; beyond, the network runs twice


def run_in_tiles(
    network: StagedNetwork,
    image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
    sparse: Tensor,  # [B, 1, H, W]
    tile: int | None = None,  # side of the tiles in pixels; None = the whole image at once
    overlap: int = OVERLAP,
    keep_bytes: int = KEEP_BYTES,
) -> Prediction:
    """Pad, run, crop; depth, scale and confidence are [B, 1, H, W], on the CPU."""
    height, width = image.shape[-2:]
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `info` reports it; a warning of the result shows it
        if tile is None or (height <= tile and width <= tile):
            out = _run_whole(network, image, sparse)
        else:
            out = _run_tiles(network, image, sparse, tile, overlap, keep_bytes)

        def crop(values: Tensor) -> Tensor:
            return values[..., :height, :width].cpu()

        return replace(
            out,
            depth=crop(out.depth),
            depth_init=crop(out.depth_init),
            laplace_scale=None if out.laplace_scale is None else crop(out.laplace_scale),
            fields=replace(out.fields, confidence=crop(F.interpolate(out.fields.confidence, out.depth.shape[-2:]))),
        )


def _run_whole(network: StagedNetwork, image: Tensor, sparse: Tensor) -> Prediction:
    image, sparse, _ = pad_to_multiple(image, sparse, network.size_divisor, network.padding)
    device = _device(network)
    result: Prediction = network(image.to(device), sparse.to(device))
    return result


def _run_tiles(
    network: StagedNetwork, image: Tensor, sparse: Tensor, tile: int, overlap: int, keep_bytes: int
) -> Prediction:
    device = _device(network)
    grid = math.lcm(network.size_divisor, COARSEST)
    image, sparse, _ = pad_to_multiple(image, sparse, grid, network.padding)
    height, width = image.shape[-2:]
    median = masked_median(sparse)
    relative = sparse / median
    windows = list(tiles(height, width, tile, overlap, grid))

    def fields_of(window: Window) -> Fields:
        return network.fields(window.crop(image).to(device), window.crop(relative).to(device))

    kept: list[dict[str, Tensor]] | None = []
    stitch: dict[str, Stitch] = {}
    levels, weighted = 0, False
    for window in windows:
        part = fields_of(window)
        levels, weighted = len(part.gradients), part.weights is not None
        maps = {f"gradient {r}": g for r, g in enumerate(part.gradients)}
        maps |= {f"weight {r}": w for r, w in enumerate(part.weights or ())}
        for name, values in {**maps, "confidence": part.confidence}.items():
            stitch.setdefault(name, Stitch(height, width)).add(window, values)
        if kept is not None:
            kept.append({name: values.cpu() for name, values in part.refinement.items()})
            size = sum(t.numel() * t.element_size() for t in kept[-1].values())
            if size * len(windows) > keep_bytes:
                kept = None
    whole = {name: parts.result() for name, parts in stitch.items()}
    fields = Fields(
        tuple(whole[f"gradient {r}"] for r in range(levels)),
        tuple(whole[f"weight {r}"] for r in range(levels)) if weighted else None,
        whole["confidence"],
    )
    log_depth, info = network.integrate(fields, relative.to(device))

    depth, start, scale = (Stitch(height, width) for _ in range(3))
    for k, window in enumerate(windows):
        refinement = fields_of(window).refinement if kept is None else kept[k]
        if kept is not None:
            kept[k] = {}  # freed as we go
        part = replace(window.crop_fields(fields), refinement={n: t.to(device) for n, t in refinement.items()})
        cells = window.crop(log_depth, height // log_depth.shape[-2])
        fine, fine_start, b = network.refine(part, cells, window.crop(relative).to(device))
        depth.add(window, fine.cpu())
        start.add(window, fine_start.cpu())
        if b is not None:
            scale.add(window, b.cpu())
    return Prediction(
        depth=depth.result() * median,
        depth_init=start.result() * median,
        laplace_scale=scale.result() * median if scale.total is not None else None,
        fields=fields,
        log_depth=log_depth,
        median=median,
        info=info,
    )


def _device(network: StagedNetwork) -> torch.device:
    return next(network.parameters(), torch.empty(0)).device


@dataclass(frozen=True)
class Window:
    """One tile: where it lies, and how much each of its pixels counts."""

    top: int
    left: int
    height: int
    width: int
    whole: tuple[int, int]  # height, width of the padded image
    overlap: int

    def crop(self, values: Tensor, stride: int = 1) -> Tensor:
        """The tile's part of a map of the whole image whose cells are `stride` pixels wide."""
        top, left = self.top // stride, self.left // stride
        return values[..., top : top + self.height // stride, left : left + self.width // stride]

    def crop_fields(self, fields: Fields) -> Fields:
        def part(values: Tensor) -> Tensor:
            return self.crop(values, self.whole[0] // values.shape[-2])

        return Fields(
            tuple(map(part, fields.gradients)),
            None if fields.weights is None else tuple(map(part, fields.weights)),
            part(fields.confidence),
        )

    def weight(self, stride: int) -> Tensor:
        """[height / stride, width / stride]: 1 inside, 0 in the margin, linear between; 1 at the image's own border."""
        rows = self._ramp(self.top, self.height, self.whole[0], stride)
        columns = self._ramp(self.left, self.width, self.whole[1], stride)
        return rows[:, None] * columns[None, :]

    def _ramp(self, first: int, length: int, whole: int, stride: int) -> Tensor:
        position = (torch.arange(length // stride, dtype=torch.float32) + 0.5) * stride
        margin, blend = self.overlap / 4, self.overlap / 2
        before = (position - margin) / blend if first > 0 else torch.ones_like(position)
        after = (length - position - margin) / blend if first + length < whole else torch.ones_like(position)
        return torch.minimum(before, after).clamp(0, 1)


def tiles(height: int, width: int, tile: int, overlap: int, grid: int) -> Iterator[Window]:
    """Windows of equal size at multiples of `grid` that overlap by at least `overlap`; height, width: multiples too."""
    side = max(2 * grid, tile // grid * grid)
    overlap = min(overlap, side // 2) // 4 * 4
    h, w = min(height, side), min(width, side)
    for top in _starts(height, h, overlap, grid):
        for left in _starts(width, w, overlap, grid):
            yield Window(top, left, h, w, (height, width), overlap)


def _starts(length: int, side: int, overlap: int, grid: int) -> list[int]:
    if length == side:
        return [0]
    step = (side - overlap) // grid * grid
    return [*range(0, length - side, step), length - side]


class Stitch:
    """A weighted mean of overlapping tiles; made for one kind of map, whatever the size of its cells."""

    def __init__(self, height: int, width: int) -> None:
        self.size = (height, width)
        self.total: Tensor | None = None
        self.weight: Tensor | None = None

    def add(self, window: Window, values: Tensor) -> None:  # [B, C, height / stride, width / stride]
        stride = window.height // values.shape[-2]
        if self.total is None or self.weight is None:
            cells = (self.size[0] // stride, self.size[1] // stride)
            self.total = values.new_zeros(*values.shape[:2], *cells)
            self.weight = values.new_zeros(cells)
        weight = window.weight(stride).to(values)
        window.crop(self.total, stride).add_(values * weight)
        window.crop(self.weight, stride).add_(weight)

    def result(self) -> Tensor:
        assert self.total is not None
        assert self.weight is not None
        return self.total / self.weight
