"""The optimizer of a run."""

from __future__ import annotations

import torch
from torch import nn

from omnidc.errors import ConfigError
from omnidc.network.interface import DepthNetwork
from omnidc.training.config import OptimizerConfig
from omnidc.training.muon import MuonAdamW

MIN_SIDE = 16  # of the matrices that Muon updates: heads have fewer outputs, depth-wise filters fewer inputs


def make_optimizer(network: DepthNetwork, config: OptimizerConfig) -> torch.optim.AdamW:
    """Return AdamW over the trainable parameters, one group for each learning-rate scale and weight decay.

    The weights that the configuration gives to Muon have groups of their own.
    """
    for setting, prefixes in (("lr_scale", config.lr_scale), ("muon", config.muon)):
        for prefix in sorted(prefixes):
            if not any(name.startswith(prefix) for name, _ in network.named_parameters()):
                raise ConfigError(f"optimizer.{setting}: the network has no parameter that begins with {prefix!r}.")
    groups: dict[tuple[float, float, bool], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        scale = 1.0
        for prefix, factor in config.lr_scale.items():
            if name.startswith(prefix):
                scale = factor
        if not parameter.requires_grad:
            continue
        decay = config.weight_decay if config.decay_all or parameter.ndim >= 2 else 0.0
        is_matrix = parameter.ndim >= 2 and min(len(parameter), parameter[0].numel()) >= MIN_SIDE
        muon = is_matrix and name.startswith(tuple(config.muon))
        scale *= config.muon_lr if muon else 1.0
        groups.setdefault((scale, decay, muon), []).append(parameter)
    optimizer = MuonAdamW if any(muon for *_, muon in groups) else torch.optim.AdamW
    return optimizer(
        [
            {"params": group, "weight_decay": decay, "lr_scale": scale, **({"muon": True} if muon else {})}
            for (scale, decay, muon), group in groups.items()
        ],
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
