from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from omnidc.network.paper.config import PaperConfig
from omnidc.network.paper.model import PaperNetwork
from omnidc.network.paper.propagation import NEIGHBORS

GAINS = {
    **{f"update_block.depth_grad_head.decoders.{r}.weight": 0.5 for r in range(3)},
    "backbone.cfi_dec0.0.weight": 4.0,
    "backbone.cf_dec0.weight": 4.0,
    "update_block.mask.2.weight": 8.0,
}


def uniform_of_name(name: str, count: int) -> np.ndarray:
    """Numbers in [−1, 1) that depend on nothing but the name and the index (splitmix64), exact in float32."""
    u = np.empty(count, np.float32)
    seed = np.uint64(zlib.crc32(name.encode())) << np.uint64(32)
    for first in range(0, count, 1 << 15):  # in pieces that fit the cache
        z = np.arange(first + 1, min(count, first + (1 << 15)) + 1, dtype=np.uint64)
        z += seed
        z *= np.uint64(0x9E3779B97F4A7C15)
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        z >>= np.uint64(40)
        u[first : first + len(z)] = z.astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return u


def formula_weight(name: str, like: Tensor) -> Tensor:
    """The golden weight of this name (../shared/reference/golden/README.md, section 1)."""
    if name.endswith("num_batches_tracked"):
        return torch.tensor(0)
    if name == "prop_layer.offset_3x3":
        return torch.tensor(NEIGHBORS, dtype=torch.float32).view(5, 1, 1, 2)
    u = uniform_of_name(name, like.numel()).reshape(tuple(like.shape))
    f = np.float32
    if name.endswith("running_mean"):
        u = f(0.1) * u
    elif name.endswith("running_var"):
        u = f(1) + f(0.5) * u
    elif u.ndim == 1 and name.endswith(".bias"):
        u = f(0.005 if "depth_grad_head.decoders" in name else 0.1) * u
    elif u.ndim == 1:
        u = f(1) + f(0.2) * u
    elif "pos_embed" in name:
        u = f(0.2) * u
    else:
        u = f(GAINS.get(name, 1.0) * math.sqrt(3 / math.prod(like.shape[1:]))) * u
    return torch.from_numpy(u)


@pytest.fixture(scope="session")
def formula_network() -> Callable[[PaperConfig], PaperNetwork]:
    """Builds networks with the formula's weights, in eval mode. They share memory: do not change weights in place."""
    weights: dict[tuple[str, torch.Size], Tensor] = {}

    def weight(name: str, like: Tensor) -> Tensor:
        key = (name, like.shape)
        if key not in weights:
            weights[key] = formula_weight(name, like)
        return weights[key]

    def build(config: PaperConfig) -> PaperNetwork:
        with torch.device("meta"):  # no time lost on random weights
            network = PaperNetwork(config)
        network.load_state_dict({name: weight(name, like) for name, like in network.state_dict().items()}, assign=True)
        return network.eval().requires_grad_(False)

    return build
