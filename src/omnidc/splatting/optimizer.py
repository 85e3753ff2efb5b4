"""Adam over the parameters of a splat, whose number changes; learning rates by the length of a run."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omnidc.splatting.gaussians import Gaussians

# Learning rates of 3DGS for 30,000 steps, and ours for 1,000 (the prototype's). Those of the means are in units of the
# scene's extent and fall by `MEANS_DECAY` over a run.
LONG_RUN = {
    "means": 1.6e-4, "log_scales": 5e-3, "quats": 1e-3, "logits": 5e-2, "sh_dc": 2.5e-3, "sh_rest": 1.25e-4,
}  # fmt: skip
SHORT_RUN = {"means": 8e-4, "log_scales": 1e-2, "quats": 2e-3, "logits": 5e-2, "sh_dc": 1e-2, "sh_rest": 5e-4}
LONG_STEPS, SHORT_STEPS = 30_000, 1_000
MEANS_DECAY = 0.01


def learning_rates(steps: int) -> dict[str, float]:
    """Return the rates of a run: geometric interpolation between the two tables in the logarithm of its length."""
    t = min(1.0, max(0.0, math.log(steps / SHORT_STEPS) / math.log(LONG_STEPS / SHORT_STEPS)))
    return {name: SHORT_RUN[name] ** (1 - t) * LONG_RUN[name] ** t for name in LONG_RUN}


class SplatOptimizer:
    """Adam whose moments follow the Gaussians when they are moved or added."""

    def __init__(self, gaussians: Gaussians, extent: float, steps: int) -> None:
        self.gaussians, self.extent, self.steps = gaussians, extent, steps
        rates = learning_rates(steps)
        rates["means"] *= extent
        self._start_rate = rates["means"]
        groups = []
        for name, tensor in gaussians.tensors().items():
            parameter = tensor.detach().requires_grad_()
            setattr(gaussians, name, parameter)
            groups.append({"params": [parameter], "lr": rates[name], "name": name})
        self.adam = torch.optim.Adam(groups, eps=1e-15, fused=True)

    def means_rate(self, step: int) -> float:
        """Return the learning rate of the means at a step."""
        return float(self._start_rate * MEANS_DECAY ** (step / self.steps))

    def step(self, step: int) -> None:
        """Update all parameters and forget their gradients."""
        self.adam.param_groups[0]["lr"] = self.means_rate(step)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    @torch.no_grad()
    def append(self, rows: Tensor) -> None:
        """Append copies of the Gaussians `rows` [M], with zero moments."""
        for group in self.adam.param_groups:
            old = group["params"][0]
            state = self.adam.state.pop(old)
            fresh = old[rows]
            new = torch.cat([old, fresh]).detach().requires_grad_()
            for name in ("exp_avg", "exp_avg_sq"):
                if name in state:
                    state[name] = torch.cat([state[name], torch.zeros_like(fresh)])
            group["params"][0] = new
            self.adam.state[new] = state
            setattr(self.gaussians, group["name"], new)

    @torch.no_grad()
    def overwrite(self, rows: Tensor, source: Tensor) -> None:
        """Copy the Gaussians `source` [M] over `rows` [M] and zero the moments of both."""
        for group in self.adam.param_groups:
            parameter = group["params"][0]
            parameter[rows] = parameter[source]
            self.reset(parameter, rows)
            self.reset(parameter, source)

    def reset(self, parameter: Tensor, rows: Tensor) -> None:
        """Set the moments of some rows of one parameter to zero."""
        state = self.adam.state[parameter]
        for name in ("exp_avg", "exp_avg_sq"):
            if name in state:
                state[name][rows] = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state of Adam."""
        return self.adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of Adam; the Gaussians must be those it was saved with."""
        self.adam.load_state_dict(state)
