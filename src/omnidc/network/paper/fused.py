"""The paper-size network's layers for inference on CPUs: the same numbers for less time and memory.

Batch norms are folded into the convolutions before them, maps are channels-last, and whatever happens at full or half
resolution happens in strips of rows that stay in the cache, so that no intermediate map of the whole image is made
except the three that are needed as a whole; the cheap stem is computed twice rather than kept. The plain modules are
the twins these are tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.network.paper.backbone import Backbone, HeadMaps
from omnidc.network.paper.completionformer import (
    BasicBlock,
    CBAMBlock,
    DecoderLevel,
    JointBlock,
    joined,
    to_map,
    to_tokens,
)
from omnidc.network.paper.propagation import DySPN, K

STRIP_BYTES = 8 << 20  # of one map; larger falls out of the cache, smaller computes too many rows twice
TOKENS = 8192  # of an MLP at a time

# A layer computes from rows [first, last) of its input all rows whose neighbors are there.
Layer = Callable[[Tensor, int, int], Tensor]


def strips(height: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    rows = max(16, STRIP_BYTES // row_bytes)
    for first in range(0, height, rows):
        yield first, min(height, first + rows)


def row_bytes(x: Tensor) -> int:
    return x.shape[1] * x.shape[3] * x.element_size()


def conv_rows(x: Tensor, conv: nn.Conv2d, top: bool, bottom: bool) -> Tensor:
    """Apply a 3 × 3 convolution to some rows; only the image's own top and bottom are padded."""
    if not (top or bottom):
        return F.conv2d(x, conv.weight, conv.bias, padding=(0, 1))
    y = F.conv2d(x, conv.weight, conv.bias, padding=1)
    return y[:, :, 0 if top else 1 : None if bottom else -1]


def chain(source: Callable[[int, int], Tensor], layers: list[Layer], height: int, first: int, last: int) -> Tensor:
    """Return rows [first, last) after a chain of 3 × 3 layers, computed from as many more rows as they need."""
    margin = len(layers)
    low, high = max(0, first - margin), min(height, last + margin)
    x = source(low, high)
    for layer in layers:
        x = layer(x, low, high)
        margin -= 1
        low, high = max(0, first - margin), min(height, last + margin)
    return x


def conv_layer(conv: nn.Conv2d, height: int, relu: bool) -> Layer:
    def layer(x: Tensor, low: int, high: int) -> Tensor:
        y = conv_rows(x, conv, low == 0, high == height)
        return y.relu_() if relu else y

    return layer


def empty_map(like: Tensor, channels: int, height: int, width: int) -> Tensor:
    return torch.empty(
        (len(like), channels, height, width), dtype=like.dtype, device=like.device, memory_format=torch.channels_last
    )


def basic_block(block: BasicBlock, x: Tensor) -> Tensor:
    """Apply a folded ResNet block."""
    if block.downsample is not None:
        u = block.conv2(block.conv1(x).relu_())
        return torch.relu_(u.add_(block.shortcut(x)))
    height = x.shape[2]
    layers = [conv_layer(block.conv1, height, relu=True), conv_layer(block.conv2, height, relu=False)]
    out = torch.empty_like(x)
    for first, last in strips(height, row_bytes(x)):
        u = chain(lambda low, high: x[:, :, low:high], layers, height, first, last)
        torch.add(u, x[:, :, first:last], out=out[:, :, first:last])
        out[:, :, first:last].relu_()
    return out


def cbam_block(block: CBAMBlock, x: Tensor) -> Tensor:
    """Apply a folded CBAM block. Both gates depend on the whole image, so there are three passes over the residual."""
    batch, channels, height, width = x.shape
    layers = [conv_layer(block.conv1, height, relu=True), conv_layer(block.conv2, height, relu=False)]
    parts = list(strips(height, row_bytes(x)))
    u = torch.empty_like(x)
    total = x.new_zeros(batch, channels, 1, 1)
    largest = x.new_full((batch, channels, 1, 1), -torch.inf)
    for first, last in parts:
        strip = chain(lambda low, high: x[:, :, low:high], layers, height, first, last)
        total += strip.sum((2, 3), keepdim=True)
        largest = torch.maximum(largest, strip.amax((2, 3), keepdim=True))
        u[:, :, first:last] = strip
    gate = (block.ca.fc(total / (height * width)) + block.ca.fc(largest)).sigmoid()
    summary = x.new_empty(batch, 2, height, width)
    for first, last in parts:
        strip = u[:, :, first:last].mul_(gate)
        summary[:, 0, first:last] = strip.mean(1)
        summary[:, 1, first:last] = strip.amax(1)
    spatial = block.sa.conv1(summary).sigmoid_()
    for first, last in parts:
        u[:, :, first:last].mul_(spatial[:, :, first:last]).add_(x[:, :, first:last]).relu_()
    return u


def decoder_level(level: DecoderLevel, maps: list[Tensor]) -> Tensor:
    """Apply the transposed convolution to maps side by side, strip by strip, then the CBAM block."""
    up: nn.ConvTranspose2d = level[0][0]  # type: ignore[index]
    height, width = maps[0].shape[-2:]
    wide = empty_map(maps[0], up.out_channels, 2 * height, 2 * width)
    for first, last in strips(height, 2 * row_bytes(wide)):
        # output rows 2 i − 1, 2 i, 2 i + 1 come from input row i: one more row below is needed
        rows = torch.cat([x[:, :, first : min(last + 1, height)] for x in maps], dim=1)
        fine = F.conv_transpose2d(rows, up.weight, up.bias, stride=2, padding=1, output_padding=1)
        wide[:, :, 2 * first : 2 * last] = fine[:, :, : 2 * (last - first)].relu_()
    maps.clear()  # the caller's maps end here
    return cbam_block(level[1], wide)  # type: ignore[arg-type]


def joint_block(block: JointBlock, x: Tensor) -> Tensor:
    height, width = x.shape[-2:]
    tokens = to_tokens(x)
    tokens = block.attn(block.norm1(tokens), height, width).add_(tokens)
    for part in tokens.split(TOKENS, dim=1):
        part.add_(block.mlp(block.norm2(part)))
    out: Tensor = block.concat_conv(torch.cat([to_map(tokens, height, width), cbam_block(block.resblock, x)], dim=1))
    return out


@torch.no_grad()
def folded(conv: nn.Conv2d | nn.ConvTranspose2d, norm: nn.Module) -> nn.Conv2d | nn.ConvTranspose2d:
    """Fold the batch norm after a convolution into its weights."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = norm.weight / (norm.running_var + norm.eps).sqrt()
    shape = (1, -1, 1, 1) if isinstance(conv, nn.ConvTranspose2d) else (-1, 1, 1, 1)
    bias = norm.bias - norm.running_mean * gain
    conv.bias = nn.Parameter(bias if conv.bias is None else bias + conv.bias * gain, requires_grad=False)
    conv.weight = nn.Parameter(conv.weight * gain.view(shape), requires_grad=False)
    return conv


def fold_batch_norms(module: nn.Module) -> None:
    """Fold every batch norm below `module`, in place."""
    for child in module.modules():
        if isinstance(child, (BasicBlock, CBAMBlock)):
            child.conv1, child.bn1 = folded(child.conv1, child.bn1), nn.Identity()  # type: ignore[assignment]
            child.conv2, child.bn2 = folded(child.conv2, child.bn2), nn.Identity()  # type: ignore[assignment]
        elif isinstance(child, nn.Sequential) and len(child) > 1 and isinstance(child[1], nn.BatchNorm2d):
            child[0], child[1] = folded(child[0], child[1]), nn.Identity()  # type: ignore[arg-type]


def block_diagonal(convs: list[nn.Conv2d]) -> nn.Conv2d:
    """Make one convolution on the inputs side by side that does the work of several."""
    inputs, outputs = sum(c.in_channels for c in convs), sum(c.out_channels for c in convs)
    joint = nn.Conv2d(inputs, outputs, 3, padding=1).to(convs[0].weight)
    nn.init.zeros_(joint.weight)
    row = column = 0
    for conv in convs:
        joint.weight.data[row : row + conv.out_channels, column : column + conv.in_channels] = conv.weight.data
        row, column = row + conv.out_channels, column + conv.in_channels
    assert all(conv.bias is not None for conv in convs)
    joint.bias.data.copy_(torch.cat([conv.bias.data for conv in convs]))  # type: ignore[union-attr]
    return joint


class FusedBackbone(nn.Module):
    """Takes over the weights of a `Backbone`, which is of no use afterwards."""

    def __init__(self, plain: Backbone) -> None:
        super().__init__()
        plain.eval().requires_grad_(False)
        fold_batch_norms(plain)
        self.plain = plain
        self.stem = block_diagonal([plain.conv1_rgb[0], plain.conv1_dep[0]])  # type: ignore[list-item]
        ends: list[tuple[nn.Conv2d, nn.Conv2d]] = []
        if plain.has_spn:
            ends += [(plain.gd_dec1[0], plain.gd_dec0[0]), (plain.cf_dec1[0], plain.cf_dec0)]  # type: ignore[list-item]
        if plain.has_laplace:
            ends += [(plain.cfo_dec1[0], plain.cfo_dec0)]  # type: ignore[list-item]
        self.end_channels = [last.out_channels for _, last in ends]
        if ends:
            self.head1, self.head0 = merged_heads(ends)
        self.requires_grad_(False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.no_grad()
    def forward(self, image: Tensor, depth: Tensor) -> HeadMaps:
        plain = self.plain
        image = torch.cat([image, depth], dim=1).contiguous(memory_format=torch.channels_last)
        height, width = image.shape[-2:]
        x = empty_map(image, plain.conv1[0].out_channels, height, width)  # type: ignore[arg-type]
        for first, last in strips(height, row_bytes(x)):
            x[:, :, first:last] = self.stem_rows(image, first, last)
        for block in plain.former.embed_layer1:
            x = basic_block(block, x)  # type: ignore[arg-type]
        fe2 = x
        for block in plain.former.embed_layer2:
            x = basic_block(block, x)  # type: ignore[arg-type]
        fe3 = x
        if not self.end_channels:
            del fe2, fe3
        stages = []
        for number in range(1, 5):
            x = getattr(plain.former, f"patch_embed{number}")(x)
            x = x.add_(plain.former.position(number, *x.shape[-2:]))
            for block in getattr(plain.former, f"block{number}"):
                x = joint_block(block, x)
            stages.append(x)
        fe4, fe5, fe6, fe7 = stages
        fd = decoder_level(plain.dec6, [fe7])
        fd = decoder_level(plain.dec5, [joined(fd, fe6)])
        fd = decoder_level(plain.dec4, [joined(fd, fe5)])
        quarter = joined(fd, fe4)
        del x, stages, fe4, fe5, fe6, fe7
        context = plain.ctx_dec0(plain.ctx_dec1(quarter))
        confidence = plain.cfi_dec0(plain.cfi_dec1(quarter))
        if not self.end_channels:
            return HeadMaps(context, confidence, None, None, None)
        halves = [decoder_level(plain.dec3, [quarter]), fe3]
        del fe3, quarter
        ends = self.run_heads(image, fe2, decoder_level(plain.dec2, halves))
        guide, spn_confidence = ends[:2] if plain.has_spn else (None, None)
        return HeadMaps(context, confidence, guide, spn_confidence, ends[-1] if plain.has_laplace else None)

    def stem_rows(self, image: Tensor, first: int, last: int) -> Tensor:
        """Return rows [first, last) of fe1, from colors and depth side by side."""
        height = image.shape[2]
        conv: nn.Conv2d = self.plain.conv1[0]  # type: ignore[assignment]
        layers = [conv_layer(self.stem, height, relu=True), conv_layer(conv, height, relu=True)]
        return chain(lambda low, high: image[:, :, low:high], layers, height, first, last)

    def run_heads(self, image: Tensor, fe2: Tensor, fd2: Tensor) -> list[Tensor]:
        """Run the heads at full resolution: guide and confidence of DySPN, Laplace scale, as far as there are."""
        height, width = image.shape[-2:]

        def both(low: int, high: int) -> Tensor:
            return torch.cat([fd2[:, :, low:high], fe2[:, :, low:high]], dim=1)

        def last_layer(x: Tensor, low: int, high: int) -> Tensor:
            x = torch.cat([x, self.stem_rows(image, low, high)], dim=1)
            return conv_rows(x, self.head0, low == 0, high == height)

        layers = [conv_layer(self.head1, height, relu=True), last_layer]
        ends = [empty_map(image, channels, height, width) for channels in self.end_channels]
        for first, last in strips(height, row_bytes(fe2)):
            strip = chain(both, layers, height, first, last)
            for end, part in zip(ends, torch.split(strip, self.end_channels, dim=1)):
                end[:, :, first:last] = part
        return ends


def merged_heads(ends: list[tuple[nn.Conv2d, nn.Conv2d]]) -> tuple[nn.Conv2d, nn.Conv2d]:
    """Merge heads of the form last([first(full), fe1]) into two convolutions for all of them."""
    firsts, lasts = [first for first, _ in ends], [last for _, last in ends]
    between = sum(first.out_channels for first in firsts)
    stem = lasts[0].in_channels - firsts[0].out_channels  # channels of fe1
    head1 = nn.Conv2d(firsts[0].in_channels, between, 3, padding=1).to(firsts[0].weight)
    head1.weight.data = torch.cat([first.weight.data for first in firsts])
    head1.bias.data = torch.cat([first.bias.data for first in firsts])  # type: ignore[union-attr]
    head0 = nn.Conv2d(between + stem, sum(last.out_channels for last in lasts), 3, padding=1).to(firsts[0].weight)
    nn.init.zeros_(head0.weight)
    row = column = 0
    for first, last in ends:
        rows = slice(row, row + last.out_channels)
        head0.weight.data[rows, column : column + first.out_channels] = last.weight.data[:, : first.out_channels]
        head0.weight.data[rows, between:] = last.weight.data[:, first.out_channels :]
        row, column = rows.stop, column + first.out_channels
    head0.bias.data = torch.cat([last.bias.data for last in lasts])  # type: ignore[union-attr]
    return head1, head0


class FusedDySPN(nn.Module):
    """DySPN whose offsets and affinities exist for one step and one strip at a time."""

    def __init__(self, plain: DySPN) -> None:
        super().__init__()
        self.plain = plain
        self.convs = nn.ModuleList(conv_of_step(plain, t) for t in range(plain.steps))
        self.requires_grad_(False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.no_grad()
    def forward(self, depth: Tensor, guide: Tensor, confidence: Tensor, sparse: Tensor) -> Tensor:
        guide = guide.contiguous(memory_format=torch.channels_last)
        height = guide.shape[2]
        confidence = confidence.sigmoid() * (sparse > 0)
        for conv in self.convs:
            layers = [conv_layer(conv, height, relu=False)]  # type: ignore[arg-type]
            after = torch.empty_like(depth)
            for first, last in strips(height, row_bytes(guide)):
                parameters = chain(lambda low, high: guide[:, :, low:high], layers, height, first, last)
                offset, logit = torch.split(parameters.contiguous(), [2 * K, K], dim=1)
                rows = slice(first, last)
                after[:, :, rows] = self.plain.step(
                    depth, offset, logit, confidence[:, :, rows], sparse[:, :, rows], first
                )
            depth = after
        return depth


def conv_of_step(plain: DySPN, t: int) -> nn.Conv2d:
    """Return the convolution for one step: offsets of its neighbors, then their affinity logits."""
    joint = plain.conv_offset_aff
    offsets = torch.arange(2 * K * t, 2 * K * (t + 1))
    affinities = 2 * K * plain.steps + torch.arange(K * t, K * (t + 1))
    chosen = torch.cat([offsets, affinities]).to(joint.weight.device)
    conv = nn.Conv2d(joint.in_channels, 3 * K, 3, padding=1).to(joint.weight)
    conv.weight.data, conv.bias.data = joint.weight.data[chosen], joint.bias.data[chosen]  # type: ignore[union-attr]
    return conv
