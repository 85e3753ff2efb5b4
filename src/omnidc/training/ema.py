"""An exponential moving average of a network's weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from omnidc.network.interface import DepthNetwork


class EMA(AveragedModel):
    """θ̄ ← δ θ̄ + (1 − δ) θ after every step n, δ = min(decay, (1 + n) / (10 + n)), so that early weights fade soon.

    Buffers (statistics of normalization) are copied. With decay 0 the average is a copy of the network.
    """

    def __init__(self, network: DepthNetwork, decay: float) -> None:
        @torch.no_grad()
        def update(averages: Sequence[Tensor], weights: Sequence[Tensor], updates: Tensor | int) -> None:
            n = int(updates)
            torch._foreach_lerp_(list(averages), list(weights), 1 - min(decay, (1 + n) / (10 + n)))

        super().__init__(network, multi_avg_fn=update)
        self.updates = 0
        self.eval().requires_grad_(False)

    @property
    def network(self) -> DepthNetwork:
        network = self.module
        assert isinstance(network, DepthNetwork)
        return network

    @property
    def updates(self) -> int:
        # AveragedModel counts the weights that went into the average; ours begins with those of the network.
        return int(self.n_averaged) - 1

    @updates.setter
    def updates(self, value: int) -> None:
        self.n_averaged.fill_(value + 1)
