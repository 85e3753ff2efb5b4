"""CompletionFormer, OMNI-DC's variant: a stem at full resolution, a ResNet-34 / transformer encoder, a decoder.

Attribute names are the released checkpoints' names. Notation of the paper and of this file: fe1 … fe7 are encoder
maps at 1, 1, 1/2, 1/4, 1/8, 1/16, 1/32 of the image, fd2 … fd6 the decoder's. Channel counts in comments are those of
width 1; `width` multiplies all of them.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.errors import CheckpointError


def conv3x3(inputs: int, outputs: int, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=bias)


class BasicBlock(nn.Module):
    """ResNet's basic block: ReLU(BN(conv(ReLU(BN(conv(x))))) + shortcut(x))."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv3x3(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv3x3(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        u = F.relu(self.bn1(self.conv1(x)))
        u = self.bn2(self.conv2(u))
        return F.relu(u + self.shortcut(x))

    def shortcut(self, x: Tensor) -> Tensor:
        """Return the input itself, or its 1 × 1 convolution where the block changes the size."""
        if self.downsample is None:
            return x
        # Rows and columns are dropped before the convolution, not by its stride: the weight gradient of a strided
        # 1 × 1 convolution of fewer than 16 channels-last channels writes past its buffer (oneDNN issue 6035).
        return self.downsample(x[:, :, :: self.stride, :: self.stride])  # type: ignore[no-any-return]


class ChannelGate(nn.Module):
    """CBAM's first gate: sigmoid(f(mean over the image) + f(max over the image)) per channel."""

    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__()
        self.fc = nn.Sequential(
            nn.Conv2d(channels, max(1, channels // ratio), 1, bias=False),
            nn.ReLU(),
            nn.Conv2d(max(1, channels // ratio), channels, 1, bias=False),
        )

    def forward(self, u: Tensor) -> Tensor:
        mean, largest = u.mean((2, 3), keepdim=True), u.amax((2, 3), keepdim=True)
        return torch.sigmoid(self.fc(mean) + self.fc(largest))


class SpatialGate(nn.Module):
    """CBAM's second gate: sigmoid of a 7 × 7 convolution on the mean and the max over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        return torch.sigmoid(self.conv1(torch.cat([u.mean(1, keepdim=True), u.amax(1, keepdim=True)], dim=1)))


class CBAMBlock(nn.Module):
    """A basic block whose residual passes CBAM's two gates."""

    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(channels, channels)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv3x3(channels, channels)
        self.bn2 = nn.BatchNorm2d(channels)
        self.ca = ChannelGate(channels, ratio)
        self.sa = SpatialGate()

    def forward(self, x: Tensor) -> Tensor:
        u = F.relu(self.bn1(self.conv1(x)))
        u = self.bn2(self.conv2(u))
        u = self.ca(u) * u
        u = self.sa(u) * u
        return F.relu(u + x)


def to_tokens(x: Tensor) -> Tensor:
    """Reshape [B, C, H, W] → [B, H W, C], row by row."""
    return x.flatten(2).transpose(1, 2)


def to_map(tokens: Tensor, height: int, width: int) -> Tensor:
    """Reshape [B, H W, C] → [B, C, H, W]."""
    return torch.unflatten(tokens.transpose(1, 2), 2, (height, width))


class Attention(nn.Module):
    """Multi-head attention; keys and values come from the map reduced by `reduction` (PVT)."""

    def __init__(self, channels: int, reduction: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.reduction = reduction
        self.q = nn.Linear(channels, channels)
        self.kv = nn.Linear(channels, 2 * channels)
        self.proj = nn.Linear(channels, channels)
        if reduction > 1:
            self.sr = nn.Conv2d(channels, channels, reduction, reduction)
            self.norm = nn.LayerNorm(channels, eps=1e-5)

    def forward(self, tokens: Tensor, height: int, width: int) -> Tensor:
        source = tokens
        if self.reduction > 1:
            source = self.norm(to_tokens(self.sr(to_map(tokens, height, width))))
        q = self.q(tokens).unflatten(2, (self.heads, -1)).transpose(1, 2)  # [B, heads, N, C / heads]
        k, v = self.kv(source).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return out


class MLP(nn.Module):
    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels, ratio * channels)
        self.fc2 = nn.Linear(ratio * channels, channels)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(tokens)))
        return out


class JointBlock(nn.Module):
    """A transformer branch and a CNN branch side by side on the same map, joined by one convolution."""

    def __init__(self, channels: int, mlp_ratio: int, reduction: int, drop_path: float, heads: int = 1) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels, eps=1e-6)
        self.attn = Attention(channels, reduction, heads)
        self.norm2 = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = MLP(channels, mlp_ratio)
        self.resblock = CBAMBlock(channels, ratio=16)
        self.concat_conv = conv3x3(2 * channels, channels)
        self.drop_path = drop_path

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        tokens = to_tokens(x)
        tokens = tokens + self.dropped(self.attn(self.norm1(tokens), height, width))
        tokens = tokens + self.dropped(self.mlp(self.norm2(tokens)))
        out: Tensor = self.concat_conv(torch.cat([to_map(tokens, height, width), self.resblock(x)], dim=1))
        return out

    def dropped(self, residual: Tensor) -> Tensor:
        """Apply stochastic depth: in training, a residual is left out per image with probability `drop_path`."""
        if not self.training or self.drop_path == 0:
            return residual
        keep = torch.rand(len(residual), 1, 1, device=residual.device) >= self.drop_path
        return residual * keep.to(residual.dtype) / (1 - self.drop_path)


class PatchEmbedding(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(inputs, outputs, 2, 2)
        self.norm = nn.LayerNorm(outputs, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.proj(x)
        return to_map(self.norm(to_tokens(x)), *x.shape[-2:])


HEAD_WIDTH = 64  # channels of an attention head
# stage: channels, blocks, MLP ratio, key/value reduction, side of the stored position grid
STAGES = ((64, 3, 8, 8, 112), (128, 4, 8, 4, 28), (320, 6, 4, 2, 14), (512, 3, 4, 1, 7))


class Encoder(nn.Module):
    """ResNet-34's first two stages, then four transformer stages."""

    def __init__(self, released: bool, width: float = 1.0) -> None:
        super().__init__()
        self.released = released
        for number, (channels, *_, side) in enumerate(STAGES, start=1):
            slots = side * side + (number == 4)  # the last one has a class token's slot, unused
            setattr(self, f"pos_embed{number}", nn.Parameter(torch.empty(1, slots, int(width * channels))))
        low, high = int(width * 64), int(width * 128)
        self.embed_layer1 = nn.Sequential(*(BasicBlock(low, low) for _ in range(3)))
        self.embed_layer2 = nn.Sequential(BasicBlock(low, high, 2), *(BasicBlock(high, high) for _ in range(3)))
        depth = sum(stage[1] for stage in STAGES)
        rates = iter([0.1 * i / (depth - 1) for i in range(depth)])
        before = high
        for number, (full, blocks, mlp_ratio, reduction, _) in enumerate(STAGES, start=1):
            channels = int(width * full)
            setattr(self, f"patch_embed{number}", PatchEmbedding(before, channels))
            heads = full // HEAD_WIDTH
            stage = (JointBlock(channels, mlp_ratio, reduction, next(rates), heads) for _ in range(blocks))
            setattr(self, f"block{number}", nn.Sequential(*stage))
            before = channels

    def forward(self, fe1: Tensor) -> tuple[Tensor, ...]:
        """Return fe2 … fe7."""
        fe2 = self.embed_layer1(fe1)
        maps = [fe2, self.embed_layer2(fe2)]
        for number in range(1, 5):
            x = getattr(self, f"patch_embed{number}")(maps[-1])
            x = x + self.position(number, *x.shape[-2:])
            maps.append(getattr(self, f"block{number}")(x))
        return tuple(maps)

    @torch.no_grad()
    def load_imagenet(self, path: Path) -> None:
        """Read the first two stages of ResNet-34 from torchvision's file, as the release starts its training."""
        try:
            tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
            for ours, theirs in ((self.embed_layer1, "layer1."), (self.embed_layer2, "layer2.")):
                part = {k.removeprefix(theirs): t for k, t in tensors.items() if k.startswith(theirs)}
                ours.load_state_dict(part)
        except (OSError, RuntimeError, AttributeError, pickle.UnpicklingError) as error:
            raise CheckpointError(
                f"{path} does not hold ResNet-34's ImageNet weights for a network of width 1 ({error}); "
                "take torchvision's file resnet34-*.pth."
            ) from error

    def position(self, number: int, height: int, width: int) -> Tensor:
        """Return the position embedding of a stage, resized to its grid: [1, C, height, width]."""
        side = STAGES[number - 1][-1]
        table = getattr(self, f"pos_embed{number}")[:, -side * side :]
        # The released code takes any grid of as many cells as the stored one for the stored one.
        if self.released and number == 1 and height * width == side * side:
            return to_map(table, height, width)
        grid = to_map(table, side, side)
        return F.interpolate(grid, (height, width), mode="bilinear", align_corners=False)


class DecoderLevel(nn.Sequential):
    """Twice the resolution by a transposed convolution, then a CBAM block."""

    def __init__(self, inputs: int, outputs: int, ratio: int) -> None:
        up = nn.ConvTranspose2d(inputs, outputs, 3, 2, padding=1, output_padding=1, bias=False)
        super().__init__(nn.Sequential(up, nn.BatchNorm2d(outputs), nn.ReLU()), CBAMBlock(outputs, ratio))


def joined(decoder: Tensor, encoder: Tensor) -> Tensor:
    """Concatenate both maps; the decoder's is resized where a level below had an odd size."""
    if decoder.shape[-2:] != encoder.shape[-2:]:
        decoder = F.interpolate(decoder, encoder.shape[-2:], mode="bilinear", align_corners=True)
    return torch.cat([decoder, encoder], dim=1)


class CompletionFormer(nn.Module):
    """Stem, encoder and decoder: from image and depth channels to the maps the heads need."""

    def __init__(self, depth_channels: int, released: bool, width: float = 1.0) -> None:
        super().__init__()

        def c(channels: int) -> int:
            return int(width * channels)

        self.conv1_rgb = nn.Sequential(conv3x3(3, c(48), bias=True), nn.ReLU())
        self.conv1_dep = nn.Sequential(conv3x3(depth_channels, c(16), bias=True), nn.ReLU())
        self.conv1 = nn.Sequential(conv3x3(c(64), c(64), bias=True), nn.ReLU())
        self.former = Encoder(released, width)
        self.dec6 = DecoderLevel(c(512), c(256), 16)
        self.dec5 = DecoderLevel(c(256 + 320), c(128), 8)
        self.dec4 = DecoderLevel(c(128 + 128), c(64), 4)
        self.dec3 = DecoderLevel(c(64 + 64), c(64), 4)
        self.dec2 = DecoderLevel(c(64 + 128), c(64), 4)

    def features(
        self,
        image: Tensor,  # [B, 3, H, W], normalized colors
        depth: Tensor,  # [B, depth channels, H, W]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return fe1 (64 channels, 1/1), [fd2, fe2] (128 channels, 1/1) and [fd4, fe4] (128 channels, 1/4)."""
        fe1 = self.conv1(torch.cat([self.conv1_rgb(image), self.conv1_dep(depth)], dim=1))
        fe2, fe3, fe4, fe5, fe6, fe7 = self.former(fe1)
        fd5 = self.dec5(joined(self.dec6(fe7), fe6))
        quarter = joined(self.dec4(joined(fd5, fe5)), fe4)
        full = joined(self.dec2(joined(self.dec3(quarter), fe3)), fe2)
        return fe1, full, quarter

    def initialize(self) -> None:
        """Draw random weights for training: truncated normals for the transformer, PyTorch's defaults elsewhere."""
        for name, parameter in self.named_parameters():
            if "pos_embed" in name:
                nn.init.trunc_normal_(parameter, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
