"""Running a network over an image: whole, or in overlapping tiles around one global integration.

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
from torch import Tensor

from omnidc.integrate import ConvergenceWarning, SolveInfo
from omnidc.network.interface import Fields, StagedNetwork
from omnidc.network.normalize import masked_median, pad_to_multiple

AUTO_PIXELS = 2_100_000  # above this, tile="auto" tiles; Full HD just stays whole
TILE = 1024
OVERLAP = 192  # a quarter of it is cut off at either side, half of it blends
COARSEST = 32  # tiles start at multiples of this, so that cells of every level (4·2^r ≤ 32 pixels) coincide
KEEP_BYTES = 2 << 30  # refinement parameters kept between the two passes; beyond, the network runs twice


@dataclass
class Output:
    """What the network made of a batch, cropped to the image."""

    depth: Tensor  # [B, 1, H, W]
    scale: Tensor | None  # [B, 1, H, W], Laplace scale
    confidence: Tensor  # [B, 1, h, w], of cells of `stride` pixels; covers the padding too
    stride: int
    log_depth: Tensor  # [B, 1, h, w], absolute: the warm start for a next frame
    info: SolveInfo


def run(
    network: StagedNetwork,
    image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
    sparse: Tensor,  # [B, 1, H, W]
    start: Tensor | None = None,  # [B, 1, h, w], `log_depth` of an earlier frame of the same size
    tile: int | None = None,  # side of the tiles in pixels; None = the whole image at once
    overlap: int = OVERLAP,
    keep_bytes: int = KEEP_BYTES,
) -> Output:
    """Pad, run, crop."""
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the info tells it, and the user meets it as a sentence
        if tile is None or (image.shape[-2] <= tile and image.shape[-1] <= tile):
            return _run_whole(network, image, sparse, start)
        return _run_tiled(network, image, sparse, start, tile, overlap, keep_bytes)


def _run_whole(network: StagedNetwork, image: Tensor, sparse: Tensor, start: Tensor | None) -> Output:
    padded, padded_sparse, (height, width) = pad_to_multiple(image, sparse, network.size_divisor, network.padding)
    device = next(network.parameters(), torch.empty(0)).device
    result = network(padded.to(device), padded_sparse.to(device), None if start is None else start.to(device))
    return Output(
        result.depth[..., :height, :width].cpu(),
        None if result.laplace_scale is None else result.laplace_scale[..., :height, :width].cpu(),
        result.fields.trust.cpu(),
        padded.shape[-2] // result.fields.confidence.shape[-2],
        (result.log_depth + result.median.log()).cpu(),
        result.info,
    )


def _run_tiled(
    network: StagedNetwork,
    image: Tensor,
    sparse: Tensor,
    start: Tensor | None,
    tile: int,
    overlap: int,
    keep_bytes: int,
) -> Output:
    device = next(network.parameters(), torch.empty(0)).device
    grid = math.lcm(network.size_divisor, COARSEST)
    image, sparse, (height, width) = pad_to_multiple(image, sparse, grid, network.padding)
    median = masked_median(sparse)
    relative = sparse / median
    windows = list(tiles(relative.shape[-2], relative.shape[-1], tile, overlap, grid))

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
        if part.kept is not None:
            maps["kept"] = part.kept
        for name, values in {**maps, "confidence": part.confidence}.items():
            stitch.setdefault(name, Stitch(relative.shape[-2], relative.shape[-1])).add(window, values)
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
        kept=whole.get("kept"),
    )
    shift = None if start is None else start.to(device) - median.log().to(device)
    log_depth, info = network.integrate(fields, relative.to(device), shift)

    depth, scale = Stitch(*relative.shape[-2:]), Stitch(*relative.shape[-2:])
    for k, window in enumerate(windows):
        refinement = fields_of(window).refinement if kept is None else kept[k]
        if kept is not None:
            kept[k] = {}  # freed as we go
        part = replace(window.crop_fields(fields), refinement={n: t.to(device) for n, t in refinement.items()})
        cells = window.crop(log_depth, relative.shape[-2] // log_depth.shape[-2])
        fine, _, b = network.refine(part, cells, window.crop(relative).to(device))
        depth.add(window, fine.cpu())
        if b is not None:
            scale.add(window, b.cpu())
    factor = median.cpu()
    return Output(
        depth.result()[..., :height, :width] * factor,
        scale.result()[..., :height, :width] * factor if scale.total is not None else None,
        fields.trust.cpu(),
        image.shape[-2] // fields.confidence.shape[-2],
        log_depth.cpu() + factor.log(),
        info,
    )


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
            kept=None if fields.kept is None else part(fields.kept),
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
