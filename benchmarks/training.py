"""Images a second of training, and where the time goes.

    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 benchmarks/training.py --data FRAMES [--size 224x320] [--batch 8]
    python benchmarks/training.py --data FRAMES                 # one process with all threads: slower on two cores

Prints images a second by the clock (data loading included) and by CPU time of the training processes, and the share of
the step spent waiting for data, in the network's forward pass, in the integrator (its forward solves and the solve of
its backward pass), in losses, in the rest of the backward pass, and in the optimizer with averaging. Shares are of CPU
time, since the clock means little on a shared machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omnidc.training import losses
from omnidc.training.config import TrainConfig, load_config
from omnidc.training.distributed import ProcessGroup, join_group
from omnidc.training.trainer import Trainer


class Stopwatch:
    """CPU seconds per part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def add(self, part: str, seconds: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.process_time()
            result = function(*arguments, **named)
            self.add(part, time.process_time() - began)
            return result

        return timed


def watch_integrator(trainer: Trainer, watch: Stopwatch) -> None:
    """Time `integrate` forward, and backward between the gradient of its output and that of its first input."""
    module = sys.modules[type(trainer.network).__module__]
    original = module.integrate  # type: ignore[attr-defined]

    def integrate(gradients: Sequence[Tensor], *arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        solution, info = original(gradients, *arguments, **options)
        watch.add("integrator", time.process_time() - began)
        entered: list[float] = []
        left: list[float] = []

        def leave(gradient: Tensor) -> None:
            # several inputs get their gradients at once; the first call ends the measurement
            if entered and not left:
                left.append(time.process_time())
                watch.add("integrator backward", left[0] - entered[0])

        if solution.requires_grad:
            solution.register_hook(lambda gradient: entered.append(time.process_time()))
            for tensor in gradients:
                tensor.register_hook(leave)
        return solution, info

    module.integrate = integrate  # type: ignore[attr-defined]


def measure(config: TrainConfig, steps: int, warmup: int, group: ProcessGroup) -> None:
    """Train a few steps; the first process prints, and speaks for the others."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder), group)
        batches = trainer.batches(trainer.sampler())
        for _ in range(warmup):
            trainer.train_step(batches, 0.5)
        watch = Stopwatch()
        watch_integrator(trainer, watch)
        trainer.network.forward = watch.wrap("network", trainer.network.forward)  # type: ignore[method-assign]
        losses.total = watch.wrap("losses", losses.total)
        trainer.stepper.optimizer.step = watch.wrap("optimizer", trainer.stepper.optimizer.step)  # type: ignore[method-assign]
        trainer.ema.update_parameters = watch.wrap("optimizer", trainer.ema.update_parameters)  # type: ignore[method-assign]
        Tensor.backward = watch.wrap("backward", Tensor.backward)  # type: ignore[method-assign]
        waited = 0.0

        def timed_batches() -> Any:
            nonlocal waited
            while True:
                clock, cpu = time.monotonic(), time.process_time()
                batch = next(batches)
                waited += time.monotonic() - clock
                watch.add("data", time.process_time() - cpu)
                yield batch

        source = timed_batches()
        clock, cpu = time.monotonic(), time.process_time()
        for _ in range(steps):
            trainer.train_step(source, 0.5)
        clock, cpu = time.monotonic() - clock, time.process_time() - cpu
        images = steps * config.optimizer.batch
        parts = watch.seconds
        solved = parts.get("integrator", 0.0) + parts.get("integrator backward", 0.0)
        shown = {
            "data (main process)": parts["data"],
            "forward": parts["network"] - parts.get("integrator", 0.0),
            "integrator": solved,
            "losses": parts["losses"],
            "backward": parts["backward"] - parts.get("integrator backward", 0.0),
            "optimizer": parts["optimizer"],
        }
        if not group.is_main:
            return
        threads = torch.get_num_threads()
        cores, total = threads * group.size, cpu * group.size
        size = ", ".join(f"{height}x{width}" for height, width in config.data.sizes)
        print(f"{config.network.name}, batch {config.optimizer.batch}, {size}, ", end="")
        print(f"{group.size} processes with {threads} threads, {steps} steps")
        print(f"{images / clock:8.2f} images/s by the clock, {100 * waited / clock:.1f} % of it waiting for data")
        print(f"{images * cores / total:8.2f} images/s on {cores} free cores ({total / images:.3f} CPU-s an image)")
        for name, seconds in shown.items():
            print(f"{100 * seconds / cpu:7.1f} %  {name}")
        print(f"{100 * (1 - sum(shown.values()) / cpu):7.1f} %  other")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="shards or folder of frames")
    parser.add_argument("--preset", default="compact")
    parser.add_argument("--size", default="224x320", help="height x width, multiples of 32")
    parser.add_argument("--batch", type=int, help="images a step; the preset's without it")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], dest="settings", help="section.key=value")
    options = parser.parse_args()
    tables: dict[str, Any] = {
        "data": {"sources": {"frames": options.data}, "sizes": [[int(n) for n in options.size.split("x")]]},
        "schedule": {"steps": 1_000_000},
    }
    if options.batch is not None:
        tables["optimizer"] = {"batch": options.batch}
    config = load_config(options.preset, None, options.settings, **tables)
    with join_group(config.runtime.device) as group:
        measure(config, options.steps, options.warmup, group)


if __name__ == "__main__":
    main()
