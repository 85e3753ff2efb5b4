"""Stage 2, fields: the U-shaped trunk of the compact network.

Color enters through EfficientNet-Lite0's pyramid. Measurements enter at 1/2 without losing their place within a cell
(space to depth), with a validity channel and the dense first guess, and at every coarser level as mean log depth and
the share of pixels measured. Each measurement counts by its confidence. Log depths are in standard deviations of the
scene.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.network.cells import Cells
from omnidc.network.efficientnet import CHANNELS, EfficientNetLite0
from omnidc.network.normalize import PRIOR_LOG_STD, normalize_imagenet
from omnidc.network.prefill import Prefill, presence, upsample2x
from omnidc.network.tracing import is_traced

ENCODER_STD = (8.0, 9.0, 8.0, 6.0, 5.0)  # of the ImageNet features of each level: depth must count beside them
SPARSE_CHANNELS = 2 * 4 + 5  # at 1/2
LEAST_SHARE = 1e-8  # of measured pixels: the square root has a finite slope there


def convolve_both(
    conv: nn.Conv2d,
    first: Tensor,  # [B, C, h, w]
    second: Tensor,  # [B, D, h, w]
    divisor: float = 1.0,  # of `first`
) -> Tensor:
    """Convolve both maps, joined. An exported graph convolves each and adds: joining the channels would copy them."""
    if not is_traced():
        return conv(torch.cat([first / divisor, second], dim=1))  # type: ignore[no-any-return]
    inputs = int(first.shape[1])
    kernels = conv.weight[:, :inputs] / divisor, conv.weight[:, inputs:]
    padding = int(conv.padding[0])
    return F.conv2d(first, kernels[0], padding=padding) + F.conv2d(second, kernels[1], conv.bias, padding=padding)


def convolve_pixels(
    conv: nn.Conv2d,  # of kernel 1 × 1
    x: Tensor,  # [B, C, h, w]
) -> Tensor:
    """Convolve with a kernel of one pixel, as a matrix product: channels come out as separate maps without a copy.

    torch would keep them interleaved, and what splits them would read every map with a stride; onnxruntime would pad
    the output channels of a convolution to 16.
    """
    assert conv.bias is not None
    weight, bias, pixels = conv.weight.flatten(1), conv.bias[:, None], x.flatten(2)
    if is_traced():
        y = weight @ pixels + bias
    else:
        y = torch.baddbmm(bias, weight.expand(x.shape[0], -1, -1), pixels)
    return y.reshape(x.shape[0], conv.out_channels, *x.shape[-2:])


def activate(x: Tensor, slope: float, inplace: bool = False) -> Tensor:
    """Compute max(x, slope · x), slope < 1: a leaky ReLU."""
    return F.relu(x, inplace) if slope == 0 else F.leaky_relu(x, slope, inplace)


class ResidualBlock(nn.Module):
    """x + γ · conv(a(conv(a(x)))), a leaky ReLU: no normalization, a small γ at the start keeps deep stacks stable."""

    def __init__(
        self,
        channels: int,
        hidden: int,
        slope: float,  # of a below 0
    ) -> None:
        super().__init__()
        self.slope = slope
        self.conv1 = nn.Conv2d(channels, hidden, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden, channels, 3, padding=1)
        self.gain = nn.Parameter(torch.full((channels, 1, 1), 0.2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.conv1(activate(x, self.slope))
        y = self.conv2(activate(hidden, self.slope, inplace=True))
        return torch.addcmul(x, self.gain, y)


class AttentionBlock(nn.Module):
    """Global self-attention among the cells at 1/32; a depth-wise convolution encodes their positions."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.position = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.project = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        x = x + self.position(x)
        t = x.flatten(2).transpose(1, 2)
        qkv = self.qkv(self.norm1(t)).reshape(batch, -1, 3, self.heads, channels // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        t = t + self.project(attended.transpose(1, 2).reshape(batch, -1, channels))
        t = t + self.mlp(self.norm2(t))
        mapped: Tensor = t.transpose(1, 2).reshape(batch, channels, height, width)
        return mapped


class Trunk(nn.Module):
    """Image and measurements → features at 1/2, 1/4, 1/8, 1/16 and 1/32."""

    def __init__(
        self,
        channels: tuple[int, int, int, int, int],  # at 1/2 … 1/32
        down_hidden: tuple[int, int, int],  # of the residual blocks on the way down, at 1/4 … 1/16
        up_hidden: tuple[int, int, int, int],  # on the way up, at 1/2 … 1/16
        attention_blocks: int,
        heads: int,
        slope: float,  # of the activations below 0
    ) -> None:
        super().__init__()
        c2, c4, c8, c16, c32 = channels
        d4, d8, d16 = down_hidden
        u2, u4, u8, u16 = up_hidden
        e2, e4, e8, e16, e32 = CHANNELS
        self.encoder = EfficientNetLite0()
        self.fuse2 = nn.Conv2d(e2 + SPARSE_CHANNELS, c2, 3, padding=1)
        self.down4 = nn.Conv2d(c2, c4, 3, stride=2, padding=1)
        self.fuse4 = nn.Conv2d(e4 + 2, c4, 1)
        self.block4 = ResidualBlock(c4, d4, slope)
        self.down8 = nn.Conv2d(c4, c8, 3, stride=2, padding=1)
        self.fuse8 = nn.Conv2d(e8 + 2, c8, 1)
        self.block8 = ResidualBlock(c8, d8, slope)
        self.down16 = nn.Conv2d(c8, c16, 3, stride=2, padding=1)
        self.fuse16 = nn.Conv2d(e16 + 2, c16, 1)
        self.block16 = nn.Sequential(ResidualBlock(c16, d16, slope), ResidualBlock(c16, d16, slope))
        self.down32 = nn.Conv2d(c16, c32, 3, stride=2, padding=1)
        self.fuse32 = nn.Conv2d(e32 + 2, c32, 1)
        self.bottleneck = nn.Sequential(*(AttentionBlock(c32, heads) for _ in range(attention_blocks)))
        self.lateral16 = nn.Conv2d(c32, c16, 1)
        self.up16 = ResidualBlock(c16, u16, slope)
        self.lateral8 = nn.Conv2d(c16, c8, 1)
        self.up8 = ResidualBlock(c8, u8, slope)
        self.lateral4 = nn.Conv2d(c8, c4, 1)
        self.up4 = ResidualBlock(c4, u4, slope)
        self.lateral2 = nn.Conv2d(c4, c2, 1)
        self.up2 = ResidualBlock(c2, u2, slope)

    def forward(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]; H and W multiples of 32
        z: Tensor,  # [B, 1, H, W], log depth of the measurements, 0 where there is none
        confidence: Tensor,  # [B, 1, H, W] in [0, 1], 0 where there is none
        guess: Prefill,  # at 1/2, same unit as z
        log_std: Tensor,  # [B, 1, 1, 1], what z is divided by
    ) -> list[Tensor]:
        color = list(zip(self.encoder(normalize_imagenet(image)), ENCODER_STD, strict=True))

        def fuse(conv: nn.Conv2d, level: int, sparse: Tensor) -> Tensor:
            features, std = color[level]
            return convolve_both(conv, features, sparse, std)

        measured = F.pixel_unshuffle(torch.cat([confidence * z, confidence], dim=1), 2)
        contrast = (log_std / PRIOR_LOG_STD).log().expand_as(guess.density)
        half = guess.levels[0]
        mean = half.log_depth / (half.weight + 1e-3)
        stats = [sparse_stats(cells, 4 ** (level + 2)) for level, cells in enumerate(guess.levels[1:])]

        maps = [measured, mean, presence(half.weight), guess.log_depth, guess.density, contrast]
        x2 = fuse(self.fuse2, 0, torch.cat(maps, dim=1))
        x4 = self.block4(self.down4(x2) + fuse(self.fuse4, 1, stats[0]))
        x8 = self.block8(self.down8(x4) + fuse(self.fuse8, 2, stats[1]))
        x16 = self.block16(self.down16(x8) + fuse(self.fuse16, 3, stats[2]))
        x32 = self.bottleneck(self.down32(x16) + fuse(self.fuse32, 4, stats[3]))
        x16 = self.up16(x16 + upsample2x(self.lateral16(x32)))
        x8 = self.up8(x8 + upsample2x(self.lateral8(x16)))
        x4 = self.up4(x4 + upsample2x(self.lateral4(x8)))
        x2 = self.up2(x2 + upsample2x(self.lateral2(x4)))
        return [x2, x4, x8, x16, x32]


def sparse_stats(
    cells: Cells,
    pixels: int,  # of a cell
) -> Tensor:  # [B, 2, h, w]
    """Return the mean log depth of each cell, and the root of the share of its pixels that was measured."""
    share = (cells.weight / pixels + LEAST_SHARE).sqrt() - LEAST_SHARE**0.5
    return torch.cat([cells.log_depth / (cells.weight + 1e-3), share], dim=1)
