"""The compact network: OMNI-DC's three stages with a small U-shaped backbone, made for CPUs.

Most work is done at 1/4 resolution and coarser, but gradients are predicted from 1/2 on: the integrator is fast enough,
and thin things survive there. Colour enters through EfficientNet-Lite0's pyramid; sparse depth enters at 1/2 without
losing its sub-pixel place (space to depth), with a validity channel and a cheap dense pre-fill from our own integrator
(`omnidc.network.legacy.prefill`), and at every coarser level as mean log depth and density. The heads predict log-depth
gradients and edge weights at R resolutions, a confidence for each measured cell, the weights of the convex upsampling
and the Laplace scale of log depth. The upsampling looks at the photograph once more, pixel by pixel
(`omnidc.network.legacy.detail`).

Two things keep it from inventing relief that the points deny. Log depths enter divided by the spread of the scene, and
gradients leave multiplied by it, so a shallow scene is to the network what a deep one is. And the gradients are
corrections: a learned gate adds the slope of the pre-fill, so that where the photograph tells nothing, the result is
plain interpolation. Measurements that contradict those around them (`omnidc.network.legacy.trust`) are screened out
before all this: they would bend the pre-fill, and with it everything that follows.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.errors import ConfigError
from omnidc.integrate import SolveInfo, integrate
from omnidc.integrate.energy import differences, join_edges, pool
from omnidc.integrate.layer import lower_median
from omnidc.network.efficientnet import CHANNELS, EfficientNetLite0
from omnidc.network.interface import Fields, StagedNetwork
from omnidc.network.legacy.detail import Detail
from omnidc.network.legacy.prefill import SPREAD, prefill
from omnidc.network.legacy.trust import Trust, surroundings
from omnidc.network.normalize import downsample_sparse, masked_log, normalize_imagenet
from omnidc.network.trunk import ResidualBlock
from omnidc.network.upsample import bilinear_logits, convex_upsample

FACTOR = 2  # the integrator works at 1/2
ALPHA = 5e3  # weight of the measurements when training begins; the paper's 5 lets them give way to long slopes
SCREEN = 8  # pixels of a cell of the guess at the scene's relief before the measurements are screened
KEPT = math.log(0.7 / 0.3)  # logit from which a measurement is used: one that is wrong harms more than one that lacks
BACKWARD = 30  # times the integrator's accuracy: gradients may be as much less exact, and steps are faster by 8 %
SHARPNESS = 20  # power of the confidence in the weight of a measurement: α is large, a doubtful one must count little
HIDDEN = 32  # channels between the two convolutions of the head at 1/2
COLOUR = (8.0, 9.0, 8.0, 6.0, 5.0)  # spread of the encoder's features, ImageNet's weights: depth must not drown in it
PLACES = 2 * FACTOR * FACTOR + 5  # channels of depth at 1/2


@dataclass(frozen=True)
class CompactConfig:
    """Shape of the compact network."""

    architecture: str = "compact"
    channels: tuple[int, int, int, int, int] = (24, 48, 96, 144, 192)  # at 1/2, 1/4, 1/8, 1/16, 1/32
    resolutions: int = 4  # R: gradients at 1/2, 1/4, 1/8, 1/16
    attention_blocks: int = 2
    heads: int = 6
    edge_weights: bool = True  # per-edge weights W_r; without, 1 / R everywhere
    prefill: bool = True  # the dense first guess as input, and its slope under the gate
    relief: bool = True  # depths in units of the scene's spread
    detail: bool = True  # the upsampling sees the colours of single pixels
    xtol: float = 3e-4  # relative accuracy of the integrator's log depth

    def __post_init__(self) -> None:
        if not 1 <= self.resolutions <= 4:
            raise ConfigError(f"The compact network has 1 to 4 resolutions, not {self.resolutions}.")
        if not 0 <= self.attention_blocks <= 64:  # a file that says a billion would be built for hours
            raise ConfigError(f"The compact network has 0 to 64 attention blocks, not {self.attention_blocks}.")
        if self.heads < 1 or min(self.channels) < 1 or self.channels[-1] % self.heads:
            raise ConfigError(f"{self.heads} heads do not divide the {self.channels[-1]} channels at 1/32.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CompactConfig:
        # Files from before `detail` do not name it.
        return cls(**{"detail": False, **values, "channels": tuple(values["channels"])})


class AttentionBlock(nn.Module):
    """Global self-attention among the cells at 1/32, with a depth-wise convolution that tells them their places."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.place = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.project = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        x = x + self.place(x)
        t = x.flatten(2).transpose(1, 2)
        qkv = self.qkv(self.norm1(t)).reshape(batch, -1, 3, self.heads, channels // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        t = t + self.project(attended.transpose(1, 2).reshape(batch, -1, channels))
        t = t + self.mlp(self.norm2(t))
        mapped: Tensor = t.transpose(1, 2).reshape(batch, channels, height, width)
        return mapped


def _head(inputs: int, hidden: int, bias: tuple[float, ...]) -> nn.Sequential:
    """Two convolutions; the last starts near `bias`."""
    last = nn.Conv2d(hidden, len(bias), 1)
    with torch.no_grad():
        last.weight.normal_(std=1e-2)
        last.bias.copy_(torch.tensor(bias))  # type: ignore[union-attr]
    return nn.Sequential(nn.ReLU(), nn.Conv2d(inputs, hidden, 3, padding=1), nn.ReLU(inplace=True), last)


class CompactNetwork(StagedNetwork):
    """See the module's text. `config` makes an equal network again."""

    size_divisor = 32
    padding = "replicate"
    neutral = ("detail.",)
    max_side = 960  # things are larger in larger pictures than it has ever seen them
    sharpen = True  # computed at 1/2, its outlines are two or three pixels wide
    trusted = 0.8  # computed at 1/2, it misses the finest of what many points tell

    def __init__(self, config: CompactConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or CompactConfig()
        c2, c4, c8, c16, c32 = config.channels
        e2, e4, e8, e16, e32 = CHANNELS
        self.encoder = EfficientNetLite0()
        self.join2 = nn.Conv2d(e2 + PLACES, c2, 3, padding=1)
        self.to4 = nn.Conv2d(c2, c4, 3, stride=2, padding=1)
        self.join4 = nn.Conv2d(e4 + 2, c4, 1)
        self.down4 = ResidualBlock(c4)
        self.to8 = nn.Conv2d(c4, c8, 3, stride=2, padding=1)
        self.join8 = nn.Conv2d(e8 + 2, c8, 1)
        self.down8 = ResidualBlock(c8)
        self.to16 = nn.Conv2d(c8, c16, 3, stride=2, padding=1)
        self.join16 = nn.Conv2d(e16 + 2, c16, 1)
        self.down16 = nn.Sequential(ResidualBlock(c16), ResidualBlock(c16))
        self.to32 = nn.Conv2d(c16, c32, 3, stride=2, padding=1)
        self.join32 = nn.Conv2d(e32 + 2, c32, 1)
        self.bottom = nn.Sequential(*(AttentionBlock(c32, config.heads) for _ in range(config.attention_blocks)))
        self.from32 = nn.Conv2d(c32, c16, 1)
        self.up16 = ResidualBlock(c16)
        self.from16 = nn.Conv2d(c16, c8, 1)
        self.up8 = ResidualBlock(c8)
        self.from8 = nn.Conv2d(c8, c4, 1)
        self.up4 = ResidualBlock(c4)
        self.from4 = nn.Conv2d(c4, c2, 1)
        self.up2 = ResidualBlock(c2)

        # Gradients in x and y, the gate of the pre-fill's slope (open at the start), edge weights in x and y.
        gradient = (0.0, 0.0, 2.0, 0.0, 0.0)
        # What the photograph adds to the confidence logit of a measured cell, and log Laplace scale: 5 % at first.
        point = (0.0, math.log(0.05))
        self.outputs2 = (len(gradient), len(point), 9 * FACTOR * FACTOR)
        self.head2 = _head(c2, HIDDEN, bias=(*gradient, *point, *bilinear_logits(FACTOR)))
        self.gradient_heads = nn.ModuleList(
            _head(c, c // 2, bias=gradient) for c in (c4, c8, c16)[: config.resolutions - 1]
        )
        self.detail = Detail(c2, FACTOR) if config.detail else None
        self.trust = Trust()
        self.log_alpha = nn.Parameter(torch.tensor(math.log(ALPHA)))

    def fields(self, image: Tensor, sparse: Tensor) -> Fields:
        colour = [level / spread for level, spread in zip(self.encoder(normalize_imagenet(image)), COLOUR, strict=True)]
        cells, mask = downsample_sparse(sparse, FACTOR)
        nearest = masked_log(cells)[0]
        trust, kept = self._screen(sparse, nearest, mask)
        nearest, mask = nearest * kept, mask * kept
        log_depth, valid = masked_log(sparse * F.interpolate(kept, scale_factor=FACTOR))
        guess = prefill(log_depth, valid, FACTOR)
        filled = guess.log_depth if self.config.prefill else torch.zeros_like(guess.log_depth)
        spread = guess.spread if self.config.relief else torch.full_like(guess.spread, SPREAD)
        relief = spread / SPREAD
        measured = torch.cat([log_depth / spread, valid], dim=1)
        places = [
            F.pixel_unshuffle(measured, FACTOR),
            nearest / spread,
            mask,
            filled / spread,
            guess.support,
            relief.log().expand_as(mask),
        ]

        x2 = self.join2(torch.cat([colour[0], *places], dim=1))
        x4 = self.down4(self.to4(x2) + self.join4(_with_points(colour[1], measured)))
        x8 = self.down8(self.to8(x4) + self.join8(_with_points(colour[2], measured)))
        x16 = self.down16(self.to16(x8) + self.join16(_with_points(colour[3], measured)))
        x32 = self.bottom(self.to32(x16) + self.join32(_with_points(colour[4], measured)))
        x16 = self.up16(x16 + _double(self.from32(x32)))
        x8 = self.up8(x8 + _double(self.from16(x16)))
        x4 = self.up4(x4 + _double(self.from8(x8)))
        x2 = self.up2(x2 + _double(self.from4(x4)))

        at2, points, mask_logits = self.head2(x2).split(self.outputs2, dim=1)
        heads = (head(features) for head, features in zip(self.gradient_heads, (x4, x8, x16), strict=False))
        gradients, weights = [], []
        for level, out in enumerate((at2, *heads)):
            slope = torch.sigmoid(out[:, 2:3]) * join_edges(differences(pool(filled, level)))
            gradients.append(relief * 2 * torch.tanh(out[:, :2] / 2) + slope)
            if self.config.edge_weights:
                weights.append((2 * torch.sigmoid(out[:, 3:]) + 1e-3) / self.config.resolutions)
        refinement = {
            "mask": mask_logits,
            "log_scale": points[:, 1:],
            "start": filled,
            "screen": trust.sigmoid(),
        }
        if self.detail is not None:
            by_colour, hidden = self.detail.before(x2, image)
            refinement |= {"mask": mask_logits + by_colour, "detail": hidden, "relief": relief.expand_as(mask)}
        return Fields(
            gradients=tuple(gradients),
            weights=tuple(weights) if weights else None,
            confidence=torch.sigmoid(points[:, :1] + trust),
            refinement=refinement,
            kept=kept,
        )

    def integrate(self, fields: Fields, sparse: Tensor, start: Tensor | None = None) -> tuple[Tensor, SolveInfo]:
        cells, mask = downsample_sparse(sparse, FACTOR)
        observed, _ = masked_log(cells)
        return integrate(
            fields.gradients,
            observed,
            mask,
            fields.confidence**SHARPNESS * (1.0 if fields.kept is None else fields.kept),
            fields.weights,
            alpha=self.log_alpha.exp(),
            warm_start=fields.refinement.get("start") if start is None else start,
            xtol=self.config.xtol,
            backward_xtol=BACKWARD * self.config.xtol,
        )

    def refine(self, fields: Fields, log_depth: Tensor, sparse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        maps = fields.refinement
        mask = maps["mask"]
        if self.detail is not None:
            mask = mask + self.detail.after(maps["detail"], log_depth.detach() / maps["relief"])
        depth = convex_upsample(log_depth, mask, FACTOR).exp()
        log_scale = F.interpolate(maps["log_scale"], scale_factor=FACTOR, mode="bilinear")
        return depth, depth, depth * log_scale.exp()

    def _screen(
        self,
        sparse: Tensor,  # [B, 1, H, W], relative to the median
        nearest: Tensor,  # [B, 1, h, w], log depth of the cells
        mask: Tensor,  # [B, 1, h, w], 1 = measured
    ) -> tuple[Tensor, Tensor]:
        """Logit of each measured cell being right, and 1 where it may be used.

        That is where it is likely right, or where there is nothing to judge it by; and the better half in any case, for
        without measurements there is no scale.
        """
        spread = prefill(*masked_log(sparse), SCREEN).spread if self.config.relief else SPREAD
        around = surroundings(nearest * (SPREAD / spread), mask)
        logit = around.points.on_map(self.trust(around))
        middle = lower_median(logit.detach(), mask > 0)
        told = around.points.on_map(around.told)
        return logit, ((logit >= middle.clamp_max(KEPT)) | ~told).to(mask)


def _with_points(colour: Tensor, measured: Tensor) -> Tensor:
    """`colour` of some level, and per cell of it the mean log depth and the root of the share of pixels measured."""
    pooled = F.avg_pool2d(measured, measured.shape[-1] // colour.shape[-1])
    total, share = pooled[:, :1], pooled[:, 1:]
    return torch.cat([colour, total / share.clamp_min(1e-6), share.sqrt()], dim=1)


def _double(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear")
