"""The compact network: OMNI-DC with a small trunk for CPUs. One `forward` in four stages.

    screen     measurements                       →  a first confidence for each          (`omnidc.network.screen`)
    fields     image, measurements                →  gradients, edge weights, confidence  (`omnidc.network.trunk`)
    integrate  gradients, measurements            →  log depth on the integrator's grid   (`omnidc.integrate`)
    refine     log depth, image, measurements     →  depth, Laplace scale, sky            (`omnidc.network.refine`)

Log depths enter in standard deviations of the scene and gradients leave multiplied by it, so that shallow and
deep scenes have the same range. Gradients are corrections: a learned gate adds the slope of the first guess, so that
where the image is uninformative the result is plain interpolation. Measurements count at their pixel, not in the middle
of their cell (`omnidc.network.cells`). The confidence of a measurement is judged by the others around it first; the
trunk adds what the image says of it, and that confidence weighs it in everything that follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.errors import ConfigError
from omnidc.integrate import SolveInfo, integrate
from omnidc.integrate.energy import differences, join_edges, pool
from omnidc.network.cells import Cells, central_slope, edge_slope, pixel_cells
from omnidc.network.efficientnet import EfficientNetLite0
from omnidc.network.interface import DepthNetwork, Fields, Prediction, Refinement
from omnidc.network.normalize import (
    PRIOR_LOG_STD,
    Normalization,
    masked_log,
    normalization,
    pad_to_multiple,
    refine_spread,
)
from omnidc.network.prefill import Prefill, prefill, presence, push_residual, upsample2x
from omnidc.network.refine import (
    NOISE_CELL,
    SPREAD_CELLS,
    SURFACE_REACH,
    affinity_logits,
    bilinear_logits,
    convex_upsample2x,
    dense_scale,
    median5,
    noise_variance,
    propagate,
    snap_to_surface,
    softmax,
    spread_residual,
)
from omnidc.network.resize import bilinear_rows, nearest_rows, shrink, source_rows
from omnidc.network.screen import OutlierClassifier
from omnidc.network.tracing import is_traced, may_split
from omnidc.network.trunk import Trunk, convolve_both, convolve_pixels

DATA_WEIGHT = 5e3  # α of a certain measurement; the paper's 5 lets measurements give way to long slopes
# A measurement's weight is a steep function of its confidence: a wrong one harms more than a missing one.
WEIGHT_SLOPE, WEIGHT_LOGIT = 1.5, 3.3  # half of the full weight at a confidence of 0.96
# The input of the trunk leaves out only obvious outliers: the image decides about the rest.
INPUT_SLOPE, INPUT_LOGIT = 3.0, -0.5  # half of the full weight at a confidence of 0.4
# What the image may take from the logit of a measurement with which its dense neighbors agree: the small surface that a
# gap shows looks wrong to the trunk, because all around it another depth was measured.
LEAST_SEEN = -1.0
SPREAD_LEVEL = 2  # halvings of the first guess whose spread is measured: cells of 8 pixels
CENTER_LOGIT = 3.0  # of a pixel's own affinity when training begins: 0.7 of its depth stays its own
PULL_LOGIT = -1.0  # of the share by which propagation pulls a pixel to a certain measurement when training begins
CORRECTION_LOGIT = -2.0  # of the share of the spread residuals that is added before the propagation at the start
LOCAL_STEP = 0.05  # of log depth: a clear difference between cells of 2 × 2 pixels
LOCAL_CHANNELS = 5
SKY_STEPS = 1
SIZE_DIVISOR = 32
BAND_PIXELS, MIN_BAND_ROWS = 800_000, 256  # of refinement at inference: so that memory is bounded


@dataclass(frozen=True)
class CompactConfig:
    """Shape of the compact network."""

    architecture: str = "compact-2"
    channels: tuple[int, int, int, int, int] = (16, 48, 96, 144, 192)  # at 1/2, 1/4, 1/8, 1/16, 1/32
    # Between the two convolutions of a block, at 1/2, 1/4, …: training leaves few more with any effect.
    down_hidden: tuple[int, int, int] = (32, 32, 16)  # of the residual blocks on the way down, from 1/4
    up_hidden: tuple[int, int, int, int] = (32, 48, 48, 32)  # of those on the way up, from 1/2
    head_hidden: tuple[int, int, int, int, int] = (32, 16, 16, 16, 16)  # of the gradient heads, from 1/2
    refine_hidden: int = 32  # of the features that stage 4 takes
    slope: float = 0.1  # of the activations below 0, in [0, 1): with 0, ReLU, most hidden channels died in training
    cell: int = 2  # pixels along a cell of the integrator: 2 or 4
    resolutions: int = 4  # R: gradients at 1 / cell and coarser, each half the last
    attention_blocks: int = 2
    heads: int = 6
    half_steps: int = 2  # of the propagation at half size
    propagation_steps: int = 2  # at full size
    iterations: int = 16  # of the solver; a phase of a training may take another number
    max_side: int = 960  # pixels; larger images are computed at this size unless asked otherwise

    def __post_init__(self) -> None:
        if self.cell not in (2, 4):
            raise ConfigError(f"A cell of the integrator is 2 or 4 pixels wide, not {self.cell}.")
        if not 1 <= self.resolutions <= 6 - self.cell // 2:
            raise ConfigError(f"The compact network has 1 to {6 - self.cell // 2} resolutions, not {self.resolutions}.")
        if not 0 <= self.attention_blocks <= 64:  # a file that says a billion would be built for hours
            raise ConfigError(f"The compact network has 0 to 64 attention blocks, not {self.attention_blocks}.")
        hidden = (*self.down_hidden, *self.up_hidden, *self.head_hidden, self.refine_hidden)
        if min(hidden) < 1:
            raise ConfigError("Every layer of the compact network has at least one channel.")
        if not 0 <= self.slope < 1:
            raise ConfigError(f"The slope of the activations below 0 is at least 0 and below 1, not {self.slope}.")
        if self.heads < 1 or min(self.channels) < 1 or self.channels[-1] % self.heads:
            raise ConfigError(f"{self.heads} heads do not divide the {self.channels[-1]} channels at 1/32.")
        if not (0 <= self.half_steps <= 64 and 0 <= self.propagation_steps <= 64 and 1 <= self.iterations <= 1000):
            raise ConfigError("The compact network propagates in 0 to 64 steps and solves in 1 to 1000 iterations.")

    @property
    def refine_margin(self) -> int:
        """Pixels beyond which nothing at full size matters for a pixel of the result; a multiple of the cells."""
        # cells of the windows and their interpolation, the median, the propagation, the surfaces around
        windows = max(3 * sum(SPREAD_CELLS), 5 * NOISE_CELL // 2)  # one after the other; half a cell, two around it
        reach = windows + 2 + self.propagation_steps + SURFACE_REACH
        return -(-reach // NOISE_CELL) * NOISE_CELL

    @property
    def levels(self) -> int:
        """How often the solver's grid is halved: its sides are multiples of `SIZE_DIVISOR` / cell."""
        return (SIZE_DIVISOR // self.cell).bit_length() - 1

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CompactConfig:
        """Make a configuration from what `to_dict` returns.

        Files without hidden channels have blocks of full width, those without a slope have ReLUs.
        """
        c = values["channels"]
        options = {"down_hidden": c[1:4], "up_hidden": c[:4], "head_hidden": [32, *(one // 2 for one in c[1:])]}
        options |= {"refine_hidden": c[0], "slope": 0.0, **values}
        given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in options.items()}
        return cls(**given)


class CompactNetwork(DepthNetwork):
    """See the module's text. `config` makes an equal network again."""

    size_divisor = SIZE_DIVISOR
    padding = "replicate"

    def __init__(self, config: CompactConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or CompactConfig()
        self.max_side = config.max_side
        c2, r2 = config.channels[0], config.refine_hidden
        self.screen = OutlierClassifier()
        self.trunk = Trunk(
            *(config.channels, config.down_hidden, config.up_hidden),
            *(config.attention_blocks, config.heads, config.slope),
        )
        # Gradients in x and y, the gate of the first guess's slope (open at the start), edge weights in x and y; at the
        # finest level also what the image adds to the logit of the confidence.
        gradient = (0.0, 0.0, 2.0, 0.0, 0.0)
        finest = 0 if config.cell == 2 else 1
        widths = config.channels[finest : finest + config.resolutions]
        hidden = config.head_hidden[finest : finest + config.resolutions]
        biases = [(*gradient, 0.0), *[gradient] * (len(widths) - 1)]
        self.gradient_heads = nn.ModuleList(
            _head(c, h, bias, config.slope) for c, h, bias in zip(widths, hidden, biases)
        )
        # Logits of the convex upsampling from the integrator's grid to half size and from there to full size
        self.upsample4 = _last(config.channels[1], bilinear_logits()) if config.cell == 4 else None
        self.upsample2 = _last(c2, bilinear_logits())
        self.refine2 = nn.Sequential(
            nn.Conv2d(c2 + LOCAL_CHANNELS, r2, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(r2, c2, 3, padding=1),
            nn.ReLU(inplace=True),
        )
        # log Laplace scale (5 % at first), sky logit, share of the residuals, and of the propagation at half size the
        # pull and the guide
        first = (math.log(0.05), -3.0, CORRECTION_LOGIT, PULL_LOGIT)
        self.half_head = _last(c2, (*first, *[0.0] * 4, CENTER_LOGIT, *[0.0] * 4))
        # The same of the propagation at full size, for the four pixels of a cell
        self.full_head = _last(c2, (*[PULL_LOGIT] * 4, *[0.0] * 16, *[CENTER_LOGIT] * 4, *[0.0] * 16))
        self.affinity_color = nn.Parameter(torch.tensor(0.5))
        self.log_alpha = nn.Parameter(torch.tensor(math.log(DATA_WEIGHT)))
        self.weight_slope = nn.Parameter(torch.tensor(WEIGHT_SLOPE))
        self.weight_logit = nn.Parameter(torch.tensor(WEIGHT_LOGIT))

    @property
    def encoder(self) -> EfficientNetLite0:
        return self.trunk.encoder

    @torch.no_grad()
    def scale_laplace(self, factor: float) -> None:
        """Multiply the predicted Laplace scales by `factor` from now on."""
        bias = self.half_head.bias
        assert bias is not None
        bias[0] += math.log(factor)

    def forward(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
        sparse: Tensor,  # [B, 1, H, W], any unit, 0 = no measurement
        working_size: tuple[int, int] | None = None,  # height, width of stages 1 to 3; None = H, W
        keep_input: bool = False,  # the result passes through every measurement exactly
    ) -> Prediction:
        small, points = shrink(image, sparse, working_size)
        small, points, size = pad_to_multiple(small, points, SIZE_DIVISOR, self.padding)
        norm = normalization(points)
        return self._refine(self._solve_fields(small, points, norm), size, norm, image, sparse, keep_input)

    def _solve_fields(
        self,
        image: Tensor,  # [B, 3, H, W], working size
        sparse: Tensor,  # [B, 1, H, W]
        norm: Normalization,
    ) -> Solved:
        """Run stages 1 to 3, and the propagation at half size."""
        measured, valid = masked_log(sparse / norm.median)
        logit, agreement = self.screen(measured / norm.log_std, valid)
        plausible = torch.sigmoid(INPUT_SLOPE * (logit - INPUT_LOGIT)) * valid
        guess = prefill(measured, plausible)
        norm = refine_spread(norm, pool(guess.log_depth, SPREAD_LEVEL), valid)
        features = self.trunk(image, measured / norm.log_std, plausible, _scaled(guess, norm), norm.log_std)
        gradients, edge_weights, seen = self._gradients(features, guess, norm)
        seen = F.interpolate(seen, scale_factor=self.config.cell, mode="nearest")
        logit = logit + torch.lerp(seen, seen.clamp_min(LEAST_SEEN), agreement)
        confidence = torch.sigmoid(logit) * valid
        weight = torch.sigmoid(self.weight_slope * (logit - self.weight_logit)) * valid
        cells = pixel_cells(measured, weight).coarser()
        log_depth, info = self._integrate(gradients, edge_weights, cells, guess)
        half = log_depth
        if self.upsample4 is not None:
            half = convex_upsample2x(half, self.upsample4(F.relu(features[1])))
        x2, half, maps = self._refine_half(features[0], half, cells, weight)
        fields = Fields(gradients, edge_weights, confidence, CompactRefinement(guess.log_depth))
        judged = torch.cat([confidence, weight], dim=1)
        full = convex_upsample2x(half, convolve_pixels(self.upsample2, x2))
        return Solved(fields, judged, log_depth, info, x2, torch.cat([full, upsample2x(maps)], dim=1))

    def _refine(
        self,
        solved: Solved,
        size: tuple[int, int],  # height, width of the working size without padding
        norm: Normalization,
        image: Tensor,  # [B, 3, H, W], output size
        sparse: Tensor,  # [B, 1, H, W]
        keep_input: bool,
    ) -> Prediction:
        """Run stage 4 at full size; at inference in bands of rows, so that memory does not grow with the image."""
        height, width = image.shape[-2:]
        rows = max(MIN_BAND_ROWS, BAND_PIXELS // width) if may_split(image) else height
        rows += -rows % NOISE_CELL  # bands begin where cells do, the largest
        bands = [
            self._refine_rows(solved, size, norm, image, sparse, keep_input, (top, min(height, top + rows)))
            for top in range(0, height, rows)
        ]
        depth, start, scale, sky, confidence = bands[0] if len(bands) == 1 else map(_stack_rows, zip(*bands))
        return Prediction(
            depth=depth * norm.median,
            depth_init=start.exp() * norm.median,
            laplace_scale=scale * norm.median,
            fields=replace(solved.fields, confidence=confidence),
            log_depth=solved.log_depth,
            median=norm.median,
            info=solved.info,
            sky=sky,
        )

    def _refine_rows(
        self,
        solved: Solved,
        size: tuple[int, int],
        norm: Normalization,
        image: Tensor,  # [B, 3, H, W]
        sparse: Tensor,  # [B, 1, H, W]
        keep_input: bool,
        rows: tuple[int, int],
    ) -> tuple[Tensor, ...]:
        """Return depth / median, log depth before the propagation, Laplace scale, sky logit, confidence of some rows.

        Each step of the propagation reaches one row further, and each of the last correction two: as many rows around
        them are computed and dropped.
        """
        height, width = image.shape[-2:]
        margin = self.config.refine_margin
        first, last = max(0, rows[0] - margin), min(height, rows[1] + margin)
        low, high = source_rows(first, last, size[0], height)
        top, bottom = low // 2, (high + 1) // 2  # cells of 2 × 2 pixels; ONNX would round a negative number toward 0
        maps = torch.cat(self.pixel_maps(solved.x2[..., top:bottom, :], solved.maps[..., 2 * top : 2 * bottom, :]), 1)
        maps = maps[..., low - 2 * top : high - 2 * top, : size[1]]
        maps = bilinear_rows(maps, low, size[0], (height, width), (first, last))
        judged = nearest_rows(solved.judged[..., : size[0], : size[1]], (height, width), (first, last))
        band = image[..., first:last, :], sparse[..., first:last, :]
        inner = slice(rows[0] - first, rows[1] - first)
        refined = self.refine_pixels(torch.split(maps, 1, dim=1), judged, *band, norm.median, keep_input)
        return tuple(one[..., inner, :] for one in refined)

    def pixel_maps(
        self,
        features: Tensor,  # [B, C, h / 2, w / 2]
        maps: Tensor,  # [B, 3, h, w], log depth, log Laplace scale, sky logit
    ) -> tuple[Tensor, Tensor]:  # [B, 3, h, w], [B, 10, h, w]
        """Return `maps`; the pull to the measurements and the guide of the propagation."""
        return maps, _to_pixels(convolve_pixels(self.full_head, features))

    def refine_pixels(
        self,
        maps: Sequence[Tensor],  # 13 × [B, 1, H, W], in the order of `pixel_maps`
        judged: Tensor,  # [B, 2, H, W], confidence and weight of the measurements
        image: Tensor,  # [B, 3, H, W]
        sparse: Tensor,  # [B, 1, H, W]
        median: Tensor,  # [B, 1, 1, 1]
        keep_input: bool | Tensor,  # as a tensor: bool [1, 1, 1, 1]
    ) -> tuple[Tensor, ...]:
        """Return depth / median, log depth before the propagation, Laplace scale / median, sky logit and confidence."""
        start, log_scale, sky, pull_logit, *guide = maps
        measured, given = masked_log(sparse / median)
        confidence, weight = (judged * given).chunk(2, dim=1)
        if isinstance(keep_input, Tensor):
            pull = torch.where(keep_input, given, weight * torch.sigmoid(pull_logit))
        else:
            pull = given if keep_input else weight * torch.sigmoid(pull_logit)
        affinity = softmax(affinity_logits(guide, image, F.softplus(self.affinity_color).view(1, 1, 1, 1)))
        log_depth = propagate(start, affinity, self.config.propagation_steps, measured, pull)
        log_depth = median5(log_depth)
        noise = noise_variance(log_depth, measured, confidence)
        log_depth = spread_residual(log_depth, measured, confidence, given)
        log_depth = snap_to_surface(log_depth, measured, weight, given)
        depth = torch.addcmul(log_depth, pull, measured - log_depth).exp()
        scale = depth * (((2 * log_scale).exp() + noise).sqrt() + dense_scale(given))
        return depth, start, scale, propagate(sky, affinity, SKY_STEPS), confidence

    def _gradients(
        self,
        features: list[Tensor],
        guess: Prefill,
        norm: Normalization,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor]:
        """Return gradients g_r and edge weights W_r of R resolutions, and what cells add to the confidence logit."""
        finest = 0 if self.config.cell == 2 else 1
        contrast = norm.log_std / PRIOR_LOG_STD
        outputs = [head(one) for head, one in zip(self.gradient_heads, features[finest:], strict=False)]
        outputs[0], seen = outputs[0].split((5, 1), dim=1)
        gradients, weights = [], []
        for level, out in enumerate(outputs, start=finest):
            slope = torch.sigmoid(out[:, 2:3]) * join_edges(differences(pool(guess.log_depth, level)))
            gradients.append(contrast * 2 * torch.tanh(out[:, :2] / 2) + slope)
            weights.append((2 * torch.sigmoid(out[:, 3:]) + 1e-3) / self.config.resolutions)
        return tuple(gradients), tuple(weights), seen

    def _integrate(
        self,
        gradients: tuple[Tensor, ...],
        weights: tuple[Tensor, ...],
        cells: Cells,  # of 2 × 2 pixels
        guess: Prefill,
    ) -> tuple[Tensor, SolveInfo]:
        """Solve with the measurements of each cell: their mean, extrapolated to its center, and the sum of weights."""
        level = self.config.cell // 2 - 1
        cells = cells if level == 0 else cells.coarser()
        zero = torch.zeros_like(cells.weight)
        mean = cells.residual(zero, edge_slope(gradients[0], weights[0])) / (cells.weight + 1e-6)
        return self._solve(gradients, mean, cells.weight, weights, pool(guess.log_depth, level).detach())

    def _solve(
        self,
        gradients: tuple[Tensor, ...],
        mean: Tensor,  # [B, 1, h, w], log depth of the measurements of each cell
        total: Tensor,  # [B, 1, h, w], sum of their weights
        weights: tuple[Tensor, ...],
        warm_start: Tensor,  # [B, 1, h, w]
    ) -> tuple[Tensor, SolveInfo]:
        """Solve once; the exported form of the network has another solver here."""
        return integrate(
            gradients,
            mean,
            torch.ones_like(mean),
            total,
            weights,
            alpha=self.log_alpha.exp(),
            warm_start=warm_start,
            iterations=self.config.iterations,
            levels=self.config.levels,
        )

    def _refine_half(
        self,
        features: Tensor,  # [B, C, H / 2, W / 2]
        half: Tensor,  # [B, 1, H / 2, W / 2], log depth
        cells: Cells,  # of 2 × 2 pixels
        weight: Tensor,  # [B, 1, H, W], of the measurements
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return features of the solution and its residuals; refined log depth; log Laplace scale and sky logit."""
        slope = central_slope(half)
        residual = cells.residual(half, slope)
        mean = residual / (cells.weight + 1e-6)
        correction = push_residual(cells.weight, residual)
        present = presence(cells.weight)
        local = torch.cat([slope, present * mean, correction], dim=1)
        local = torch.cat([torch.tanh(local / LOCAL_STEP), present], dim=1)
        first = self.refine2[0]
        assert isinstance(first, nn.Conv2d)
        x2 = self.refine2[1:](convolve_both(first, F.relu(features), local))
        maps, share, pull_logit, guide = torch.split(convolve_pixels(self.half_head, x2), [2, 1, 1, 9], dim=1)
        pull = F.max_pool2d(weight, 2) * torch.sigmoid(pull_logit)
        measured = half + mean
        half = torch.addcmul(half, torch.sigmoid(share), correction)
        half = propagate(half, softmax(torch.split(guide, 1, dim=1)), self.config.half_steps, measured, pull)
        return x2, half, maps


@dataclass(frozen=True)
class CompactRefinement(Refinement):
    """The first guess, for losses relative to it."""

    prefill: Tensor  # [B, 1, H, W], log of depth / median, interpolated from the measurements; working size, padded


@dataclass(frozen=True)
class Solved:
    """Results of stages 1 to 3, at the working size."""

    fields: Fields
    judged: Tensor  # [B, 2, H, W] in [0, 1], confidence and weight of each measurement, 0 where there is none
    log_depth: Tensor  # [B, 1, h, w]
    info: SolveInfo
    x2: Tensor  # [B, C, H / 2, W / 2], features
    maps: Tensor  # [B, 3, H, W]: log depth, log Laplace scale, sky logit


def _scaled(guess: Prefill, norm: Normalization) -> Prefill:
    """Return the guess in standard deviations of the scene."""
    levels = tuple(
        Cells(torch.cat([one.weight, one.log_depth / norm.log_std], dim=1), one.offset) for one in guess.levels
    )
    return Prefill(guess.log_depth / norm.log_std, guess.density, levels)


def _head(inputs: int, hidden: int, bias: tuple[float, ...], slope: float) -> nn.Sequential:
    """Make two convolutions; the last starts near `bias`."""
    before, between = (nn.LeakyReLU(slope, one) if slope else nn.ReLU(one) for one in (False, True))
    return nn.Sequential(before, nn.Conv2d(inputs, hidden, 3, padding=1), between, _last(hidden, bias))


def _last(inputs: int, bias: Sequence[float]) -> nn.Conv2d:
    """Make a 1 × 1 convolution that starts near `bias`."""
    layer = nn.Conv2d(inputs, len(bias), 1)
    if not layer.weight.is_meta:  # where torch would load its compiler for random numbers that a file replaces
        with torch.no_grad():
            layer.weight.normal_(std=1e-2)
            layer.bias.copy_(torch.tensor(bias))  # type: ignore[union-attr]
    return layer


def _to_pixels(cells: Tensor) -> Tensor:  # [B, 4 C, h, w] → [B, C, 2 h, 2 w]
    """Compute `F.pixel_shuffle` in one copy, whatever the memory format of `cells`."""
    if is_traced():
        return F.pixel_shuffle(cells, 2)  # one ONNX node
    batch, channels, height, width = cells.shape
    blocks = cells.reshape(batch, channels // 4, 2, 2, height, width).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(batch, channels // 4, 2 * height, 2 * width)


def _stack_rows(bands: tuple[Tensor, ...]) -> Tensor:
    return torch.cat(bands, dim=2)
