"""The integrator alone: a network that knows nothing and predicts zero gradients everywhere.

Its result is the smoothest log depth through the measurements. It needs no weights; real networks are measured
against it, and it keeps every tool of the package usable where no weights are installed.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from omnidc.integrate import SolveInfo, integrate
from omnidc.network.interface import Fields, StagedNetwork
from omnidc.network.normalize import downsample_sparse, masked_log


class Interpolator(StagedNetwork):
    """No parameters, no use of the photograph, no uncertainty."""

    size_divisor = 4
    padding = "replicate"

    def fields(self, image: Tensor, sparse: Tensor) -> Fields:
        batch, _, height, width = sparse.shape
        gradients = sparse.new_zeros(batch, 2, height // 4, width // 4)
        confidence = sparse.new_ones(batch, 1, height // 4, width // 4)
        return Fields((gradients,), None, confidence)

    def integrate(self, fields: Fields, sparse: Tensor, warm_start: Tensor | None = None) -> tuple[Tensor, SolveInfo]:
        observed, mask = masked_log(downsample_sparse(sparse)[0])
        return integrate(fields.gradients, observed, mask, fields.confidence, fields.weights, warm_start=warm_start)

    def refine(self, fields: Fields, log_depth: Tensor, sparse: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        depth = F.interpolate(log_depth, scale_factor=4, mode="bilinear").exp()
        return depth, depth, None
