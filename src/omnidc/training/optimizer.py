"""The optimizer of a run."""

from __future__ import annotations

import torch
from torch import nn

from omnidc.errors import ConfigError
from omnidc.network.interface import DepthNetwork
from omnidc.training.config import OptimizerConfig


def make_optimizer(network: DepthNetwork, config: OptimizerConfig) -> torch.optim.AdamW:
    """Return AdamW over the trainable parameters, one group for each learning-rate scale and weight decay."""
    used: set[str] = set()
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        scale = 1.0
        for prefix, factor in config.lr_scale.items():
            if name.startswith(prefix):
                scale = factor
                used.add(prefix)
        if not parameter.requires_grad:
            continue
        decay = config.weight_decay if config.decay_all or parameter.ndim >= 2 else 0.0
        groups.setdefault((scale, decay), []).append(parameter)
    unused = sorted(set(config.lr_scale) - used)
    if unused:
        raise ConfigError(f"optimizer.lr_scale: the network has no parameter that begins with {unused[0]!r}.")
    return torch.optim.AdamW(
        [{"params": group, "weight_decay": decay, "lr_scale": scale} for (scale, decay), group in groups.items()],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        fused=True,
    )


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, object]) -> None:
    """Load the moments of an earlier run; the settings of the groups stay as configured."""
    settings = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, setting in zip(optimizer.param_groups, settings):
        group.update(setting)
