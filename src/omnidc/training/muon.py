"""AdamW, and Muon for the weights of hidden layers.

Muon (Jordan et al., 2024) replaces the momentum of a weight matrix by the nearest matrix with orthonormal rows or
columns: rare directions of the gradient count as much as frequent ones. Written here because torch's own, which torch
2.6 does not have, takes no convolutions and computes in bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
NEWTON_SCHULZ_STEPS = 5
# Of the odd polynomial whose iteration takes singular values from (0.01, 1] to about 1 (0.68 to 1.13) in five steps
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
UPDATE_RMS = 0.2  # of an update divided by the learning rate: that of AdamW, so that both take similar rates


class MuonAdamW(torch.optim.AdamW):
    """AdamW; parameter groups with a true entry "muon" are updated by Muon, and have a momentum instead of moments.

    A weight of more than two dimensions counts as a matrix of one row per output.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        groups = self.param_groups
        overflowed = getattr(self, "found_inf", None)  # GradScaler's; the fused kernel of AdamW looks at it, too
        for group in groups:
            if group.get("muon") and not overflowed:
                self._update(group)
        self.param_groups = [group for group in groups if not group.get("muon")]
        try:
            return super().step(closure)
        finally:
            self.param_groups = groups

    def _update(self, group: dict[str, Any]) -> None:
        for weight in group["params"]:
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state["step"] = torch.zeros(())  # AdamW expects one when it loads a state
                state["momentum"] = torch.zeros_like(weight)
            state["step"] += 1
            momentum = state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
            direction = torch.lerp(weight.grad, momentum, MOMENTUM).flatten(1)  # Nesterov's
            update = orthogonalize(direction).reshape(weight.shape)
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            # the entries of an orthogonal matrix have a mean square of 1 / its longer side
            weight.add_(update, alpha=-group["lr"] * UPDATE_RMS * math.sqrt(max(direction.shape)))


def orthogonalize(matrix: Tensor) -> Tensor:  # [N, M]
    """Return about U Vᵀ of the singular value decomposition U S Vᵀ, by Newton–Schulz iteration."""
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x
