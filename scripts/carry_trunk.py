"""The weights of omnidc 0.1 in the redesigned compact network: encoder, trunk and gradient heads; the rest is new.

    python scripts/carry_trunk.py compact-0.1.safetensors start.safetensors

The result is where the training of the shipped weights began (`network.init_checkpoint` of the preset).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from omnidc.network.checkpoint import save_network
from omnidc.network.compact import CompactConfig, CompactNetwork

NAMES = {
    r"^encoder\.": "trunk.encoder.",
    r"^join(\d+)\.": r"trunk.fuse\1.",
    r"^to(\d+)\.": r"trunk.down\1.",
    r"^down(\d+)\.": r"trunk.block\1.",
    r"^bottom\.(\d)\.place\.": r"trunk.bottleneck.\1.position.",
    r"^bottom\.": "trunk.bottleneck.",
    r"^from32\.": "trunk.lateral16.",
    r"^from16\.": "trunk.lateral8.",
    r"^from8\.": "trunk.lateral4.",
    r"^from4\.": "trunk.lateral2.",
    r"^up(\d+)\.": r"trunk.up\1.",
    r"^head2\.": "gradient_heads.0.",
    r"^log_alpha$": "log_alpha",
}
KEPT_OUTPUTS = 6  # of the head at 1/2: gradients, edge weights, confidence; its others belong to replaced stages
DROPPED = ("detail.", "trust.")
CHANNELS = [24, 48, 96, 144, 192]  # of 0.1, whose blocks have as many hidden ones, and ReLUs


def carried(old: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of 0.1 by their names in the redesigned network."""
    result = {}
    for name, tensor in old.items():
        if name.startswith(DROPPED):
            continue
        if head := re.match(r"^gradient_heads\.(\d)\.(.*)$", name):
            result[f"gradient_heads.{int(head[1]) + 1}.{head[2]}"] = tensor
            continue
        pattern = next(pattern for pattern in NAMES if re.search(pattern, name))
        new = re.sub(pattern, NAMES[pattern], name)
        result[new] = tensor[:KEPT_OUTPUTS] if name.startswith("head2.3.") else tensor
    return result


def main(source: str, target: str) -> None:
    torch.manual_seed(0)
    network = CompactNetwork(CompactConfig.from_dict({"channels": CHANNELS}))
    tensors = carried(load_file(source))
    missing, unknown = network.load_state_dict(tensors, strict=False)
    if unknown:
        raise SystemExit(f"{source} is not a file of 0.1: the network has no {', '.join(unknown)}.")
    parts = sorted({name.split(".")[0] for name in missing})
    print(f"{len(tensors)} tensors carried over; new: {', '.join(parts)}")
    save_network(network, Path(target), {"start": "encoder, trunk and gradient heads of omnidc 0.1"})


if __name__ == "__main__":
    main(*sys.argv[1:])
