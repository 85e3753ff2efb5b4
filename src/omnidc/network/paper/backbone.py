"""The heads of the backbone: context and input confidence at 1/4, DySPN's guide, its confidence and the Laplace scale
at full resolution. Without the integrator, depth itself at full resolution instead of the context."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from omnidc.network.paper.completionformer import CompletionFormer, conv3x3
from omnidc.network.paper.config import PaperConfig


@dataclass
class HeadMaps:
    context: Tensor | None  # [B, 128, h, w], None without the integrator
    input_confidence: Tensor  # [B, 1, h, w] in (0, 1)
    guide: Tensor | None  # [B, 5 T, H, W], None without DySPN
    spn_confidence: Tensor | None  # [B, 1, H, W], logit
    log_scale: Tensor | None  # [B, 1, H, W], None without Laplace head
    direct: Tensor | None = None  # [B, 1, H, W], depth in the network's space; None with the integrator


def conv_bn_relu(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv3x3(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU())


class Backbone(CompletionFormer):
    """CompletionFormer with its heads; the released checkpoints keep both under `backbone.`."""

    def __init__(self, config: PaperConfig) -> None:
        super().__init__(config.depth_channels, config.released, config.width)
        self.has_spn, self.has_laplace, self.has_context = config.spn_steps > 0, config.laplace, config.integrator

        def c(channels: int) -> int:
            return int(config.width * channels)

        if self.has_spn:
            self.gd_dec1 = conv_bn_relu(c(128), c(64))
            self.gd_dec0 = nn.Sequential(conv3x3(c(64 + 64), 5 * config.spn_steps, bias=True))
            self.cf_dec1 = conv_bn_relu(c(128), c(32))
            self.cf_dec0 = conv3x3(c(32 + 64), 1, bias=True)
        if self.has_context:
            self.ctx_dec1 = conv_bn_relu(c(128), c(64))
            self.ctx_dec0 = nn.Sequential(conv3x3(c(64), c(128), bias=True))
        else:
            self.id_dec1 = conv_bn_relu(c(128), c(64))
            self.id_dec0 = conv3x3(c(64 + 64), 1, bias=True)
        self.cfi_dec1 = conv_bn_relu(c(128), c(32))
        self.cfi_dec0 = nn.Sequential(conv3x3(c(32), 1, bias=True), nn.Sigmoid())
        if self.has_laplace:
            self.cfo_dec1 = conv_bn_relu(c(128), c(32))
            self.cfo_dec0 = conv3x3(c(32 + 64), 1, bias=True)
        self.initialize()

    def forward(self, image: Tensor, depth: Tensor) -> HeadMaps:
        fe1, full, quarter = self.features(image, depth)
        context = direct = guide = spn_confidence = log_scale = None
        if self.has_context:
            context = self.ctx_dec0(self.ctx_dec1(quarter))
        else:
            direct = self.id_dec0(torch.cat([self.id_dec1(full), fe1], dim=1))
        if self.has_spn:
            guide = self.gd_dec0(torch.cat([self.gd_dec1(full), fe1], dim=1))
            spn_confidence = self.cf_dec0(torch.cat([self.cf_dec1(full), fe1], dim=1))
        if self.has_laplace:
            log_scale = self.cfo_dec0(torch.cat([self.cfo_dec1(full), fe1], dim=1))
        return HeadMaps(
            context=context,
            input_confidence=self.cfi_dec0(self.cfi_dec1(quarter)),
            guide=guide,
            spn_confidence=spn_confidence,
            log_scale=log_scale,
            direct=direct,
        )
