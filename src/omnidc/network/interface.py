"""The interface of every depth-completion network of this package.

A `DepthNetwork` has one `forward`: image and measurements at the output size → `Prediction`. Training, validation and
`complete` all call it. A `StagedNetwork` has three stages, which `omnidc.pipeline.tiles` calls one by one:

    fields     image + sparse depth   →  Fields       the network proper; every map is local, tiles can be stitched
    integrate  Fields + sparse depth  →  log depth    one global least-squares problem (omnidc.integrate)
    refine     Fields + log depth     →  depth, depth_init and Laplace scale at full resolution

Scale. Inside, depth is divided by the median of its measurements, so that D(I, βO) = βD(I, O) holds exactly, but for
rounding. The median enters once, in `forward`, and the result is multiplied by it at the end. Two kinds of paper
network are exceptions: with `released` (the authors' checkpoints, the preset paper) zeros from beyond the image's
borders are mixed in, and in the spaces "linear" and "log" nothing is divided.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from omnidc.integrate import SolveInfo
from omnidc.network.normalize import masked_median

AnyRefinement = TypeVar("AnyRefinement", bound="Refinement")


@dataclass(frozen=True)
class Refinement:
    """Maps of `fields` that only later stages or losses of the same network need: a network with some has a subclass.

    Every field of a subclass is a tensor, or None where the network does not have it.
    """

    def map(self: AnyRefinement, function: Callable[[Tensor], Tensor]) -> AnyRefinement:
        """Return the same record with `function` applied to each tensor."""
        tensors = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(self, **{name: function(values) for name, values in tensors.items() if values is not None})

    @property
    def nbytes(self) -> int:
        """Memory of all tensors."""
        tensors = (getattr(self, one.name) for one in fields(self))
        return sum(values.numel() * values.element_size() for values in tensors if values is not None)


@dataclass
class Fields:
    """The network's output before integration; h × w is the integrator's grid, R the number of resolutions."""

    gradients: tuple[Tensor, ...]  # R × [B, 2, ceil(h / 2^r), ceil(w / 2^r)], backward differences; x, y
    weights: tuple[Tensor, ...] | None  # same shapes, > 0, the integrator's weight of each edge; None = uniform 1/R
    confidence: Tensor  # in [0, 1], of each measurement: [B, 1, h, w] in staged networks, else [B, 1, H, W]
    refinement: Refinement = field(default_factory=Refinement)
    space: str = "log"  # what is integrated, and so what `gradients` are differences of: "log" or "linear" depth


@dataclass
class Prediction:
    """The result for a batch; H, W as given to `forward`. Depths are in the unit of the sparse input."""

    depth: Tensor  # [B, 1, H, W] > 0, final
    depth_init: Tensor  # [B, 1, H, W] > 0, before the last refinement (the same tensor where there is none)
    laplace_scale: Tensor | None  # [B, 1, H, W] > 0, scale b of `depth`, same unit; None = the network has no such head
    fields: Fields
    log_depth: Tensor  # [B, 1, h, w], the integrator's solution, natural log of depth / median (itself if "linear")
    median: Tensor  # [B, 1, 1, 1] > 0, what depth is divided by: `unit` of a staged network (1 without measurements)
    info: SolveInfo
    sky: Tensor | None = None  # [B, 1, H, W], logit of the probability that a pixel has no depth; None = not predicted
    earlier: tuple[Prediction, ...] = ()  # of the GRU iterations before the last, in training


class DepthNetwork(nn.Module, ABC):
    """Base of the networks. Images are RGB in [0, 1]; sparse depth has 0 = no measurement."""

    config: Any  # a dataclass with to_dict and from_dict: what checkpoints keep
    size_divisor: int  # height and width given to `fields` must be multiples of this
    max_side: int | None = None  # larger images are computed at this size; None = no limit
    padding: str  # how callers pad up to it, bottom and right: "replicate", or "mean" (ImageNet's mean color)

    def for_inference(self) -> DepthNetwork:
        """Return the network in its fastest form for inference; it may be changed in place and unfit for training."""
        return self.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    @abstractmethod
    def forward(self, image: Tensor, sparse: Tensor, *rest: Any, **options: Any) -> Prediction:
        """Complete a batch: image [B, 3, H, W], RGB in [0, 1]; sparse [B, 1, H, W], any unit, 0 = no measurement.

        `working_size` (height, width, or None for that of the image) and `keep_input` (pass through every measurement)
        are keywords of networks that take any size; maps of the prediction have the size of the image.
        """


class StagedNetwork(DepthNetwork):
    """A network whose stages are called one by one."""

    def unit(self, sparse: Tensor) -> Tensor:  # [B, 1, H, W], 0 = no measurement → [B, 1, 1, 1] > 0
        """Return what depth is divided by before the stages: the median of the measurements, 1 where there are none."""
        return masked_median(sparse)

    @abstractmethod
    def fields(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
        sparse: Tensor,  # [B, 1, H, W], depth / median, 0 = no measurement
    ) -> Fields: ...

    @abstractmethod
    def integrate(
        self,
        fields: Fields,
        sparse: Tensor,  # [B, 1, H, W], depth / median
        warm_start: Tensor | None = None,  # [B, 1, h, w], first guess of the solver
    ) -> tuple[Tensor, SolveInfo]: ...

    @abstractmethod
    def refine(
        self,
        fields: Fields,
        log_depth: Tensor,  # [B, 1, h, w]
        sparse: Tensor,  # [B, 1, H, W], depth / median
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return depth, depth_init and scale at full resolution, all relative to the median."""

    def forward(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
        sparse: Tensor,  # [B, 1, H, W], any unit, 0 = no measurement
        warm_start: Tensor | None = None,  # [B, 1, h, w], `log_depth` of the last frame of a video + log of its median
    ) -> Prediction:
        median = self.unit(sparse)
        relative = sparse / median
        fields = self.fields(image, relative)
        log_depth, info = self.integrate(fields, relative, None if warm_start is None else warm_start - median.log())
        depth, depth_init, scale = self.refine(fields, log_depth, relative)
        return Prediction(
            depth=depth * median,
            depth_init=depth_init * median,
            laplace_scale=None if scale is None else scale * median,
            fields=fields,
            log_depth=log_depth,
            median=median,
            info=info,
        )
