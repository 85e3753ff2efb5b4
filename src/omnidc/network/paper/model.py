"""OMNI-DC: 85.4 M parameters at width 1, layer by layer as released; `PaperConfig` says what can be varied."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError, InputError
from omnidc.integrate import SolveInfo, integrate
from omnidc.network.interface import Fields, Prediction, Refinement, StagedNetwork
from omnidc.network.normalize import downsample_sparse, masked_log, normalize_imagenet
from omnidc.network.paper.backbone import Backbone
from omnidc.network.paper.completionformer import Encoder
from omnidc.network.paper.config import PaperConfig
from omnidc.network.paper.fused import FusedBackbone, FusedDySPN
from omnidc.network.paper.prior import MonocularPrior, normalize_prior
from omnidc.network.paper.propagation import DySPN
from omnidc.network.paper.update import Update, UpdateBlock
from omnidc.network.upsample import convex_upsample

FACTOR = 4  # integration happens at 1/4
SMALLEST = 32  # the coarsest map needs one cell
LOG_SCALE_CEILING = 10.0
WEIGHT_FLOOR = 1e-4


def _grow(values: Tensor, like: Tensor) -> Tensor:
    """Pad with zeros at the bottom and on the right up to the size of `like`."""
    return F.pad(values, (0, like.shape[-1] - values.shape[-1], 0, like.shape[-2] - values.shape[-2]))


@dataclass(frozen=True)
class PaperRefinement(Refinement):
    """Outputs of the backbone and the update for `refine`; which of them exist follows from the configuration."""

    upsampling: Tensor | None = None  # [B, 9 · FACTOR², h, w], logits of the convex upsampling
    direct: Tensor | None = None  # [B, 1, H, W], depth or log depth of a network without the integrator
    guide: Tensor | None = None  # [B, C, H, W], affinities and offsets of DySPN
    spn_confidence: Tensor | None = None  # [B, 1, H, W], logit
    log_scale: Tensor | None = None  # [B, 1, H, W], log of the Laplace scale
    log_median: Tensor | None = None  # [B, 1, 1, 1], of the measurements; only in released networks


class PaperNetwork(StagedNetwork):
    """The network of the paper. A model with `config.prior` needs its `prior` set before it runs."""

    def __init__(self, config: PaperConfig, prior: MonocularPrior | None = None) -> None:
        super().__init__()
        self.config = config
        # In a tuple, so that torch does not take a prior that is a module for a part of this one's weights.
        self._prior = (prior,)
        self.size_divisor = FACTOR * 2 ** (config.resolutions - 1) if config.released else SMALLEST
        self.padding = "mean" if config.released else "replicate"
        self.optimized = False  # `save_network` refuses a network whose layers were rebuilt
        self.backbone: Backbone | FusedBackbone = Backbone(config)
        self.prop_layer: DySPN | FusedDySPN | None = None
        if config.spn_steps:
            self.prop_layer = DySPN(config.spn_steps, config.borders)
        self.update_block: UpdateBlock | None = None
        if config.integrator:
            self.update_block = UpdateBlock(config.resolutions, config.edge_weights == "learnable", config.width)

    @property
    def prior(self) -> MonocularPrior | None:
        return self._prior[0]

    @prior.setter
    def prior(self, prior: MonocularPrior | None) -> None:
        self._prior = (prior,)

    @property
    def encoder(self) -> Encoder:
        """The part that can start from ImageNet weights (`Encoder.load_imagenet`)."""
        if not isinstance(self.backbone, Backbone):
            raise ConfigError(
                "A network made for inference cannot be trained; load its weights before calling for_inference()."
            )
        return self.backbone.former

    def for_inference(self) -> PaperNetwork:
        """Rebuild this network for inference only, in place: the same numbers for less time and memory (see `fused`).

        It can no longer be trained or saved afterwards.
        """
        if isinstance(self.backbone, Backbone) and self.config.integrator:
            self.backbone = FusedBackbone(self.backbone)
        if isinstance(self.prop_layer, DySPN):
            self.prop_layer = FusedDySPN(self.prop_layer)
        if self.update_block is not None:
            self.update_block.cache = True
            self.update_block.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimized = True
        return self.eval().requires_grad_(False)

    def unit(self, sparse: Tensor) -> Tensor:
        if self.config.space == "log-normalized":
            return super().unit(sparse)
        return sparse.new_ones(len(sparse), 1, 1, 1)

    def fields(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
        sparse: Tensor,  # [B, 1, H, W], depth / median, 0 = no measurement
        prior: Tensor | None = None,  # [B, 1, H, W], output of `normalize_prior`; None = ask self.prior
    ) -> Fields:
        return self._all_fields(image, sparse, prior)[-1]

    def _all_fields(self, image: Tensor, sparse: Tensor, prior: Tensor | None = None) -> list[Fields]:
        """Return the fields of each GRU iteration."""
        height, width = image.shape[-2:]
        if height % self.size_divisor or width % self.size_divisor:
            raise InputError(
                f"This network takes sizes that are multiples of {self.size_divisor}, not {height}x{width}; "
                "pad with omnidc.network.normalize.pad_to_multiple."
            )
        depth = self.depth_channels(image, sparse, prior)
        colors = normalize_imagenet(image)
        if min(height, width) < SMALLEST:
            missing = (0, max(0, SMALLEST - width), 0, max(0, SMALLEST - height))
            colors, depth = F.pad(colors, missing), F.pad(depth, missing)
        maps = self.backbone(colors, depth)
        full = PaperRefinement(
            direct=maps.direct, guide=maps.guide, spn_confidence=maps.spn_confidence, log_scale=maps.log_scale
        ).map(lambda values: values[..., :height, :width])
        confidence = maps.input_confidence[..., : height // FACTOR, : width // FACTOR]
        if maps.context is None:
            return [Fields((), None, confidence, full)]
        return [
            replace(fields, refinement=replace(full, upsampling=upsampling))
            for fields, upsampling in self.update(maps.context, sparse, confidence)
        ]

    def update(
        self,
        context: Tensor,  # [B, 128, ≥ h, ≥ w]
        sparse: Tensor,  # [B, 1, H, W], depth / median
        confidence: Tensor,  # [B, 1, h, w]
    ) -> list[tuple[Fields, Tensor]]:
        """Return fields and weights of the upsampling after each of `gru_iterations` updates of the gradients.

        g_k = clamp(g_{k−1} + Δ_k) with Δ_k from the depth of g_{k−1}.

        As in the release, no derivative passes through depth and gradients of the iteration before.
        """
        assert self.update_block is not None
        limit = self.config.gradient_bound
        update = self.update_block(context)
        fields = self._fields_of(update, [g.clamp(-limit, limit) for g in update.gradients], confidence)
        h, w = confidence.shape[-2:]
        results = [(fields, update.upsampling[..., :h, :w])]
        for _ in range(1, self.config.gru_iterations):
            log_depth = self.integrate(fields, sparse)[0].detach()
            before = [_grow(g.detach(), like) for g, like in zip(fields.gradients, update.gradients)]
            centered = log_depth - log_depth.flatten(1).median(dim=1).values.view(-1, 1, 1, 1)
            update = self.update_block(context, update.state, _grow(centered, context), before[0])
            gradients = [(old + change).clamp(-limit, limit) for old, change in zip(before, update.gradients)]
            fields = self._fields_of(update, gradients, confidence)
            results.append((fields, update.upsampling[..., :h, :w]))
        return results

    def _fields_of(self, update: Update, gradients: list[Tensor], confidence: Tensor) -> Fields:
        """Cut the update's maps to the integrator's grid (they are larger for images below `SMALLEST`)."""
        h, w = confidence.shape[-2:]
        cut = tuple(g[..., : -(-h // 2**r), : -(-w // 2**r)] for r, g in enumerate(gradients))
        weights = None
        if update.weights is not None:
            scalars = update.weights.clamp_min(WEIGHT_FLOOR)[:, :, None, None, None].unbind(dim=1)
            weights = tuple(scalar.expand_as(g) for scalar, g in zip(scalars, cut))
        return Fields(cut, weights, confidence, space="linear" if self.config.space == "linear" else "log")

    def depth_channels(self, image: Tensor, sparse: Tensor, prior: Tensor | None) -> Tensor:
        """Return the depth channels of the network's input: [B, depth channels, H, W]."""
        log, valid = masked_log(sparse)
        channels = [sparse if self.config.space == "linear" else log]
        if not self.config.released:
            channels.append(valid)
        if self.config.prior:
            if prior is None:
                if self.prior is None:
                    raise ConfigError(
                        "This network (OMNI-DC v1.1) needs a monocular prior: set network.prior to "
                        "omnidc.network.paper.prior.DepthAnything() or to a function of your own."
                    )
                prior = normalize_prior(self.prior(image))
            channels.append(prior.to(sparse))
        return torch.cat(channels, dim=1)

    def integrate(
        self,
        fields: Fields,
        sparse: Tensor,  # [B, 1, H, W], depth / median
        warm_start: Tensor | None = None,  # [B, 1, h, w]
    ) -> tuple[Tensor, SolveInfo]:
        if not self.config.integrator:
            return self._direct(fields, sparse)
        nearest, mask = downsample_sparse(sparse, FACTOR)
        observed = nearest if self.config.space == "linear" else masked_log(nearest)[0]
        return integrate(
            fields.gradients,
            observed,
            mask,
            fields.confidence,
            fields.weights,
            alpha=self.config.alpha,
            rtol=self.config.tolerance,
            warm_start=warm_start,
        )

    def _direct(self, fields: Fields, sparse: Tensor) -> tuple[Tensor, SolveInfo]:
        """Return the predicted depth itself, reduced to the grid of the interface: nothing is solved."""
        direct = fields.refinement.direct if isinstance(fields.refinement, PaperRefinement) else None
        if direct is None:
            raise InputError("A network without the integrator cannot be tiled: complete the image as a whole.")
        measured = (sparse > 0).flatten(1).any(dim=1)
        none = torch.zeros(len(sparse), dtype=torch.int64, device=sparse.device)
        info = SolveInfo(none, sparse.new_zeros(1, len(sparse)), torch.ones_like(measured), measured)
        return F.avg_pool2d(direct, FACTOR), info

    def refine(
        self,
        fields: Fields,
        log_depth: Tensor,  # [B, 1, h, w]
        sparse: Tensor,  # [B, 1, H, W], depth / median
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        maps = _maps_of(fields)
        fine = maps.direct
        if maps.upsampling is not None:
            # Zero borders mix in log depth 0, which in the released code is one unit of depth rather than one median.
            shift = 0.0 if maps.log_median is None else maps.log_median
            fine = convex_upsample(log_depth + shift, maps.upsampling, FACTOR, self.config.borders) - shift
        assert fine is not None  # a network has an integrator or predicts depth
        start = fine.clamp_min(1e-6) if self.config.space == "linear" else fine.exp()
        depth = start
        if self.prop_layer is not None:
            depth = self.prop_layer(start, maps.guide, maps.spn_confidence, sparse)
        scale = None
        if maps.log_scale is not None:
            scale = maps.log_scale.clamp(self.config.log_scale_floor, LOG_SCALE_CEILING).exp()
        return depth, start, scale

    def forward(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
        sparse: Tensor,  # [B, 1, H, W], any unit, 0 = no measurement
        warm_start: Tensor | None = None,  # [B, 1, h, w], earlier `log_depth` + log of its median
    ) -> Prediction:
        median = self.unit(sparse)
        relative = sparse / median
        if warm_start is not None:
            warm_start = warm_start - median.log()
        every = self._all_fields(image, relative)
        used = every if self.training else every[-1:]
        *earlier, last = (self._predict(fields, relative, median, warm_start) for fields in used)
        return replace(last, earlier=tuple(earlier))

    def _predict(self, fields: Fields, relative: Tensor, median: Tensor, warm_start: Tensor | None) -> Prediction:
        """Run stages 3 and 4 on the fields of one GRU iteration."""
        if self.config.released:
            fields = replace(fields, refinement=replace(_maps_of(fields), log_median=median.log()))
        log_depth, info = self.integrate(fields, relative, warm_start)
        depth, depth_init, scale = self.refine(fields, log_depth, relative)
        metric_init = depth_init * median
        return Prediction(
            depth=metric_init if depth is depth_init else depth * median,
            depth_init=metric_init,
            laplace_scale=None if scale is None else scale * median,
            fields=fields,
            log_depth=log_depth,
            median=median,
            info=info,
        )


def _maps_of(fields: Fields) -> PaperRefinement:
    assert isinstance(fields.refinement, PaperRefinement)
    return fields.refinement
