"""The update block: from context to log-depth gradients at 1/4, 1/8, 1/16 and the upsampling weights.

RAFT's recurrent form. The paper and every released model run one iteration, from zero depth and zero gradients;
OGNI-DC runs five, each on the depth that was integrated from the one before. Channel counts are those of width 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.network.paper.completionformer import conv3x3

HIDDEN = 64  # channels of the recurrent state


@dataclass
class Update:
    state: Tensor  # [B, 64, h, w], recurrent state
    gradients: tuple[Tensor, ...]  # R × [B, 2, h / 2^r, w / 2^r], change of the gradients, not clamped; x, y
    weights: Tensor | None  # [B, R], softmax over the resolutions; None = uniform
    upsampling: Tensor  # [B, 144, h, w], logits of convex upsampling


class DepthEncoder(nn.Module):
    """Encodes the current depth (relative to its median) and gradients; both are all zero before the first update."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.convd1 = nn.Conv2d(1, hidden, 7, padding=3)
        self.convd2 = conv3x3(hidden, hidden // 2, bias=True)
        self.convg1 = nn.Conv2d(2, hidden, 7, padding=3)
        self.convg2 = conv3x3(hidden, hidden // 2, bias=True)
        self.conv = conv3x3(hidden, hidden - 3, bias=True)

    def forward(self, depth: Tensor, gradient: Tensor) -> Tensor:
        d = F.relu(self.convd2(F.relu(self.convd1(depth))))
        g = F.relu(self.convg2(F.relu(self.convg1(gradient))))
        joint = F.relu(self.conv(torch.cat([d, g], dim=1)))
        return torch.cat([joint, depth, gradient], dim=1)


class SeparableConvGRU(nn.Module):
    """z = σ(conv_z[h, x]), r = σ(conv_r[h, x]), q = tanh(conv_q[r h, x]), h ← (1 − z) h + z q; 1 × 5, then 5 × 1."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        for number, kernel in ((1, (1, 5)), (2, (5, 1))):
            padding = (kernel[0] // 2, kernel[1] // 2)
            for gate in "zrq":
                setattr(self, f"conv{gate}{number}", nn.Conv2d(3 * hidden, hidden, kernel, padding=padding))

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        for number in (1, 2):
            convz, convr, convq = (getattr(self, f"conv{gate}{number}") for gate in "zrq")
            hx = torch.cat([h, x], dim=1)
            z, r = convz(hx).sigmoid(), convr(hx).sigmoid()
            q = convq(torch.cat([r * h, x], dim=1)).tanh()
            h = (1 - z) * h + z * q
        return h


class ResidualBlock(nn.Module):
    """ReLU(conv(ReLU(conv(s))) + 1 × 1 conv(s)), no bias, no norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.block = nn.Sequential(conv3x3(inputs, outputs), nn.ReLU(), conv3x3(outputs, outputs))
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False))

    def forward(self, s: Tensor) -> Tensor:
        return F.relu(self.block(s) + self.skip(s))


class GradientHead(nn.Module):
    """One residual block and one 1 × 1 convolution per resolution, with max pooling between them."""

    def __init__(self, resolutions: int, hidden: int) -> None:
        super().__init__()
        wide = 2 * hidden
        self.blocks = nn.ModuleList(ResidualBlock(wide if r else hidden, wide) for r in range(resolutions))
        self.decoders = nn.ModuleList(nn.Conv2d(wide, 2, 1) for _ in range(resolutions))

    def forward(self, s: Tensor) -> tuple[Tensor, ...]:
        gradients = []
        for r, (block, decoder) in enumerate(zip(self.blocks, self.decoders)):
            s = block(F.max_pool2d(s, 2) if r else s)
            gradients.append(decoder(s))
        return tuple(gradients)


class EdgeWeightHead(nn.Module):
    """One weight per resolution and image: softmax of a small network on the mean over the image."""

    def __init__(self, resolutions: int, hidden: int) -> None:
        super().__init__()
        wide = 2 * hidden
        self.block = ResidualBlock(hidden, wide)
        self.decoder = nn.Sequential(nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, resolutions))

    def forward(self, s: Tensor) -> Tensor:
        return torch.softmax(self.decoder(self.block(s).mean((2, 3))), dim=1)


class UpdateBlock(nn.Module):
    def __init__(self, resolutions: int, learnable_weights: bool, width: float = 1.0) -> None:
        super().__init__()
        self.hidden = hidden = int(width * HIDDEN)
        self.learnable_weights = learnable_weights
        self.cache = False  # keep the result of `encode_zero`; right only while the weights stay the same
        self._cached: Tensor | None = None
        self.encoder = DepthEncoder(hidden)
        self.gru = SeparableConvGRU(hidden)
        self.depth_grad_head = GradientHead(resolutions, hidden)
        # Every released checkpoint has this head, also where uniform weights are used.
        self.grad_weights_head = EdgeWeightHead(resolutions, hidden)
        self.mask = nn.Sequential(conv3x3(hidden, 4 * hidden, bias=True), nn.ReLU(), nn.Conv2d(4 * hidden, 9 * 16, 1))

    def forward(
        self,
        context: Tensor,  # [B, 128, h, w]
        state: Tensor | None = None,  # [B, 64, h, w], `Update.state` of the iteration before; None = the first
        depth: Tensor | None = None,  # [B, 1, h, w], what was integrated from it, minus its median
        gradient: Tensor | None = None,  # [B, 2, h, w], its finest gradients
    ) -> Update:
        hidden, inputs = torch.split(context, self.hidden, dim=1)
        if depth is None or gradient is None:
            encoded = self.encode_zero(*context.shape[-2:]).expand(len(context), -1, -1, -1)
        else:
            encoded = self.encoder(depth, gradient)
        h = self.gru(hidden.tanh() if state is None else state, torch.cat([F.relu(inputs), encoded], dim=1))
        return Update(
            state=h,
            gradients=self.depth_grad_head(h),
            weights=self.grad_weights_head(h) if self.learnable_weights else None,
            upsampling=self.mask(h),
        )

    def encode_zero(self, height: int, width: int) -> Tensor:
        """Return the depth encoding before the first update: [1, 64, height, width], the same for all images."""
        weight = self.encoder.conv.weight
        cached = self._cached
        if cached is not None and cached.shape[-2:] == (height, width) and cached.device == weight.device:
            return cached
        zeros = weight.new_zeros(1, 3, height, width)
        encoded: Tensor = self.encoder(zeros[:, :1], zeros[:, 1:])
        self._cached = encoded if self.cache else None
        return encoded
