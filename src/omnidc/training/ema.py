"""An exponential moving average of a network's weights."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from omnidc.network.interface import DepthNetwork


class Average:
    """θ̄ ← δ θ̄ + (1 − δ) θ after every step, δ = min(decay, (1 + n) / (10 + n)) so that the start is soon forgotten.

    Buffers (statistics of normalisation) are taken over as they are. With decay 0 the average is the network itself,
    copied.
    """

    def __init__(self, network: DepthNetwork, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.network = copy.deepcopy(network)
        self.network.eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        self.updates += 1
        delta = min(self.decay, (1 + self.updates) / (10 + self.updates))
        mine: list[Tensor] = list(self.network.parameters())
        theirs: list[Tensor] = list(network.parameters())
        torch._foreach_lerp_(mine, theirs, 1 - delta)
        for buffer, other in zip(self.network.buffers(), network.buffers()):
            buffer.copy_(other)
