"""Network and losses as one module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from omnidc.errors import InputError
from omnidc.network.interface import DepthNetwork
from omnidc.training import losses
from omnidc.training.batch import Batch
from omnidc.training.config import TrainConfig
from omnidc.training.distributed import ProcessGroup
from omnidc.training.losses import LossConfig


class LossModule(nn.Module):
    """Network and losses in one forward pass, as DistributedDataParallel wants it."""

    def __init__(self, network: DepthNetwork, config: LossConfig, channels_last: bool = True) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.layout = torch.channels_last if channels_last else torch.contiguous_format

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        image = (batch.image.float() / 255).contiguous(memory_format=self.layout)
        sizes = {} if batch.working_size is None else {"working_size": batch.working_size}
        return losses.total(self.network(image, batch.sparse, **sizes), batch, self.config)


def make_loss_module(network: DepthNetwork, config: TrainConfig, group: ProcessGroup) -> nn.Module:
    """Return network and losses as one module, compiled and distributed as configured."""
    module: nn.Module = LossModule(network, config.loss, config.runtime.channels_last)
    if config.runtime.compile:
        module = torch.compile(module)  # type: ignore[assignment]
    if group.size == 1:
        return module
    data = config.data
    sizes = [min(data.sizes), *([min(data.working_sizes)] if data.working_share else [])]
    unused = any(has_unused_parameters(module, size, group.device) for size in sizes)
    return DistributedDataParallel(module, find_unused_parameters=unused)


def has_unused_parameters(module: nn.Module, size: Sequence[int], device: torch.device) -> bool:
    """Say whether some trainable parameter receives no gradient, by one step on an image of `size`.

    size: height and width, and perhaps working height and width. A head whose loss has weight 0 gets no gradient, for
    example; DistributedDataParallel must then search the graph at every step.
    """
    height, width, *working = size
    generator = torch.Generator().manual_seed(0)
    depth = 1 + torch.rand(1, 1, height, width, generator=generator)
    mask = torch.rand(depth.shape, generator=generator) < 0.1
    image = torch.randint(256, (1, 3, height, width), dtype=torch.uint8, generator=generator)
    buffers = [buffer.clone() for buffer in module.buffers()]
    try:
        batch = Batch(image, depth * mask, depth, torch.zeros_like(mask), torch.zeros_like(mask))
        if working:
            batch = replace(batch, working_size=(working[0], working[1]))
        module(batch.to(device))["total"].backward()
        return any(p.requires_grad and p.grad is None for p in module.parameters())
    except InputError:  # untrained weights that are not finite: the first step will report it
        return True
    finally:
        module.zero_grad(set_to_none=True)
        for buffer, old in zip(module.buffers(), buffers):
            buffer.copy_(old)
