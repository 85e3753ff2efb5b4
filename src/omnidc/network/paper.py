"""OMNI-DC at paper size: 85.4 M parameters, layer by layer as released, with our own borders unless `compat`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError, InputError
from omnidc.integrate import SolveInfo, integrate
from omnidc.network.config import PaperConfig
from omnidc.network.dyspn import DySPN
from omnidc.network.fused import FusedBackbone, FusedDySPN
from omnidc.network.heads import Backbone
from omnidc.network.interface import Fields, Prediction, StagedNetwork
from omnidc.network.normalize import downsample_sparse, imagenet, log_of_valid, median_of_valid
from omnidc.network.prior import MonocularPrior, normalised_prior
from omnidc.network.update import UpdateBlock
from omnidc.network.upsample import convex_upsample

FACTOR = 4  # integration happens at 1/4
SMALLEST = 32  # the coarsest map needs one cell
LOG_SCALE_CEILING = 10.0
WEIGHT_FLOOR = 1e-4


class PaperNetwork(StagedNetwork):
    """The network of the paper. A model with `config.prior` needs its `prior` set before it runs."""

    def __init__(self, config: PaperConfig, prior: MonocularPrior | None = None) -> None:
        super().__init__()
        self.config = config
        # In a tuple, so that torch does not take a prior that is a module for a part of this one's weights.
        self._prior = (prior,)
        self.multiple = FACTOR * 2 ** (config.resolutions - 1) if config.compat else SMALLEST
        self.padding = "mean" if config.compat else "replicate"
        self.optimised = False
        self.backbone: Backbone | FusedBackbone = Backbone(
            config.depth_channels, config.spn_steps, config.laplace, config.compat
        )
        self.prop_layer: DySPN | FusedDySPN | None = None
        if config.spn_steps:
            self.prop_layer = DySPN(config.spn_steps, config.borders)
        self.update_block = UpdateBlock(config.resolutions, config.edge_weights == "learnable")

    @property
    def prior(self) -> MonocularPrior | None:
        return self._prior[0]

    @prior.setter
    def prior(self, prior: MonocularPrior | None) -> None:
        self._prior = (prior,)

    def optimise(self) -> PaperNetwork:
        """Rebuild this network for inference only, in place: the same numbers for less time and memory (see `fused`).

        It can no longer be trained or saved afterwards.
        """
        if isinstance(self.backbone, Backbone):
            self.backbone = FusedBackbone(self.backbone)
        if isinstance(self.prop_layer, DySPN):
            self.prop_layer = FusedDySPN(self.prop_layer)
        self.update_block.remember = True
        self.update_block.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimised = True
        return self.eval().requires_grad_(False)

    def fields(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
        sparse: Tensor,  # [B, 1, H, W], depth / median, 0 = no measurement
        prior: Tensor | None = None,  # [B, 1, H, W], output of `normalised_prior`; None = ask self.prior
    ) -> Fields:
        height, width = image.shape[-2:]
        if height % self.multiple or width % self.multiple:
            raise InputError(
                f"This network takes sizes that are multiples of {self.multiple}, not {height}x{width}; "
                "pad with omnidc.network.normalize.pad_to_multiple."
            )
        depth = self.depth_channels(image, sparse, prior)
        colours = imagenet(image)
        if min(height, width) < SMALLEST:
            missing = (0, max(0, SMALLEST - width), 0, max(0, SMALLEST - height))
            colours, depth = F.pad(colours, missing), F.pad(depth, missing)
        maps = self.backbone(colours, depth)
        update = self.update_block(maps.context)
        h, w = height // FACTOR, width // FACTOR
        limit = self.config.gradient_limit
        gradients = tuple(
            g[..., : -(-h // 2**r), : -(-w // 2**r)].clamp(-limit, limit) for r, g in enumerate(update.gradients)
        )
        weights = None
        if update.weights is not None:
            scalars = update.weights.clamp_min(WEIGHT_FLOOR)[:, :, None, None, None].unbind(dim=1)
            weights = tuple(scalar.expand_as(g) for scalar, g in zip(scalars, gradients))
        refinement = {"upsampling": update.upsampling[..., :h, :w]}
        for name, full in (
            ("guide", maps.guide),
            ("spn_confidence", maps.spn_confidence),
            ("log_scale", maps.log_scale),
        ):
            if full is not None:
                refinement[name] = full[..., :height, :width]
        return Fields(gradients, weights, maps.input_confidence[..., :h, :w], refinement)

    def depth_channels(self, image: Tensor, sparse: Tensor, prior: Tensor | None) -> Tensor:
        """What the network sees of depth: [B, depth channels, H, W]."""
        log, valid = log_of_valid(sparse)
        channels = [sparse if self.config.space == "linear" else log]
        if not self.config.compat:
            channels.append(valid)
        if self.config.prior:
            if prior is None:
                if self.prior is None:
                    raise ConfigError(
                        "This network (OMNI-DC v1.1) needs a monocular prior: set network.prior to "
                        "omnidc.network.prior.DepthAnything() or to a function of your own."
                    )
                prior = normalised_prior(self.prior(image))
            channels.append(prior.to(sparse))
        return torch.cat(channels, dim=1)

    def integrate(
        self,
        fields: Fields,
        sparse: Tensor,  # [B, 1, H, W], depth / median
        start: Tensor | None = None,  # [B, 1, h, w]
    ) -> tuple[Tensor, SolveInfo]:
        nearest, mask = downsample_sparse(sparse, FACTOR)
        observed = nearest if self.config.space == "linear" else log_of_valid(nearest)[0]
        return integrate(
            fields.gradients,
            observed,
            mask,
            fields.confidence,
            fields.weights,
            alpha=self.config.alpha,
            rtol=self.config.tolerance,
            start=start,
        )

    def refine(
        self,
        fields: Fields,
        log_depth: Tensor,  # [B, 1, h, w]
        sparse: Tensor,  # [B, 1, H, W], depth / median
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        maps = fields.refinement
        # Zero borders mix in log depth 0, which in the released code is one unit of depth rather than one median.
        shift = maps.get("log_median", 0.0) if self.config.compat else 0.0
        fine = convex_upsample(log_depth + shift, maps["upsampling"], FACTOR, self.config.borders) - shift
        start = fine.clamp_min(1e-6) if self.config.space == "linear" else fine.exp()
        depth = start
        if self.prop_layer is not None:
            depth = self.prop_layer(start, maps["guide"], maps["spn_confidence"], sparse)
        scale = None
        if "log_scale" in maps:
            scale = maps["log_scale"].clamp(self.config.log_scale_floor, LOG_SCALE_CEILING).exp()
        return depth, start, scale

    def forward(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
        sparse: Tensor,  # [B, 1, H, W], any unit, 0 = no measurement
        start: Tensor | None = None,  # [B, 1, h, w], earlier `log_depth` + log of its median
    ) -> Prediction:
        normalised = self.config.space == "log-normalised"
        median = median_of_valid(sparse) if normalised else sparse.new_ones(len(sparse), 1, 1, 1)
        relative = sparse / median
        fields = self.fields(image, relative)
        if self.config.compat:
            fields.refinement["log_median"] = median.log()
        if start is not None and normalised:
            start = start - median.log()
        log_depth, info = self.integrate(fields, relative, start)
        depth, depth_init, scale = self.refine(fields, log_depth, relative)
        metric_init = depth_init * median
        return Prediction(
            depth=metric_init if depth is depth_init else depth * median,
            depth_init=metric_init,
            scale=None if scale is None else scale * median,
            fields=fields,
            log_depth=log_depth,
            median=median,
            info=info,
        )
