"""Checkpoints that the authors of OMNI-DC released: how to open them, and which configuration they have."""

from __future__ import annotations

import argparse
import pickle
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from omnidc.errors import CheckpointError
from omnidc.network.paper.config import PaperConfig

PRIOR_PREFIX = "depth_module."  # v1.1 files repeat the whole of Depth Anything V2, frozen
# Options of the released code that change the network in ways ours does not offer: the only values that load.
RELEASED_OPTIONS = {
    "GRU_iters": 1,
    "backbone": "cformer",
    "backbone_mode": "rgbd",
    "backbone_output_downsample_rate": 4,
    "backbone_pattern_condition_format": "none",
    "depth_activation_format": "exp",
    "depth_downsample_method": "min",
    "spn_type": "dyspn",
}


def read_pickle(path: Path) -> tuple[dict[str, Tensor], argparse.Namespace | None]:
    """Read a `.pt` of the released code: a dict with `net` and `args`. Only tensors and plain values are unpickled."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace, Counter]):
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        if "global" not in str(error).lower():
            raise
        raise CheckpointError(f"{path} holds Python objects that are not safe to open: download it again.") from error
    net = content.get("net") if isinstance(content, dict) else None
    if not isinstance(net, dict) or not all(isinstance(tensor, Tensor) for tensor in net.values()):
        raise CheckpointError(f"{path} is not a checkpoint of OMNI-DC: it has no table of weights called 'net'.")
    options = content.get("args")
    return dict(net), options if isinstance(options, argparse.Namespace) else None


def config_of_released(path: Path, tensors: Mapping[str, Tensor], options: argparse.Namespace | None) -> PaperConfig:
    """Return the configuration of a released file, derived from its tensors and, where it has them, its options."""
    given = vars(options) if options is not None else {}
    for name, value in RELEASED_OPTIONS.items():
        if given.get(name, value) != value:
            raise CheckpointError(
                f"{path} was trained with {name}={given[name]!r}; omnidc can run only released models, "
                f"which have {name}={value!r}."
            )
    stem = tensors.get("backbone.conv1_dep.0.weight")
    resolutions = sum(f"update_block.depth_grad_head.decoders.{r}.weight" in tensors for r in range(3))
    if stem is None or stem.ndim != 4 or stem.shape[1] not in (1, 2) or not resolutions:
        raise CheckpointError(
            f"{path} holds the weights of another network, not of OMNI-DC (no usable backbone.conv1_dep.0.weight or "
            "update_block.depth_grad_head.decoders.0.weight)."
        )
    return PaperConfig(
        resolutions=resolutions,
        space="log-normalized" if given.get("whiten_sparse_depths", 1) else "log",
        laplace="backbone.cfo_dec0.weight" in tensors,
        spn_steps=int(given.get("prop_time", 6)),
        prior=stem.shape[1] == 2,
        alpha=float(given.get("integration_alpha", 5.0)),
        gradient_limit=float(given["optim_layer_input_clamp"]) if "optim_layer_input_clamp" in given else None,
    )
