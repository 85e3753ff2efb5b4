"""The processes of a run, and what all of them must agree on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from omnidc.errors import ConfigError


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
        try:
            yield
        finally:  # after an error, too: the others must not wait forever
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
