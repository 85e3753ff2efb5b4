"""The processes of a run, and what all of them must agree on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from omnidc.errors import ConfigError, InputError
from omnidc.training.batch import Batch


@dataclass(frozen=True)
class ProcessGroup:
    """This process, number `rank` of `size`; `device` is its own."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def mean(self, values: list[float]) -> list[float]:
        """Return the mean of each value over all processes."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64 if self.device.type == "cpu" else torch.float32)
        tensor = tensor.to(self.device)
        dist.all_reduce(tensor)
        return [float(value) / self.size for value in tensor.tolist()]

    def broadcast(self, values: list[float]) -> list[float]:
        """Return the main process's values in every process."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float32).to(self.device)
        dist.broadcast(tensor, src=0)
        return [float(value) for value in tensor.tolist()]

    def broadcast_object(self, value: Any) -> Any:
        """Return the main process's object in every process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Run the block in the main process first, so that the others find what it fetched."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()


def pick_device(name: str) -> torch.device:
    """Return the device that `runtime.device` means for this process."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"There is no device {name!r}: use auto, cpu or cuda.") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(
                "This torch finds no CUDA device: use runtime.device=cpu, or install a CUDA build of torch."
            )
        if device.index is None:
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    return device


@contextmanager
def join_group(device_name: str) -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started (one without it) for as long as the block lasts."""
    device = pick_device(device_name)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ProcessGroup(0, 1, device)
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


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
