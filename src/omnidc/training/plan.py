"""What a run would cost, measured by its first steps: `omnidc train --dry-run`."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import torch

from omnidc.training.config import TrainConfig
from omnidc.training.distributed import join_world
from omnidc.training.loop import Run, pick_precision
from omnidc.training.schedule import format_duration, parse_duration

STEPS = 3  # timed, after one that warms up


@dataclass(frozen=True)
class Plan:
    """Figures of a planned run."""

    network: str
    parameters: int
    device: str
    frames: dict[str, tuple[int, int]]  # name → to train on, held out for validation
    steps_per_epoch: int
    batch: int
    images_per_second: float
    memory: float  # bytes, of this process (or of the GPU)
    steps: int  # of the whole run
    seconds: float

    def text(self) -> str:
        now = datetime.now()
        data = ", ".join(f"{name} {train} (+{out} held out)" for name, (train, out) in self.frames.items())
        lines = {
            "network": f"{self.network}, {self.parameters / 1e6:.2f} M parameters, on {self.device}",
            "frames": data,
            "epoch": f"{self.steps_per_epoch} steps of {self.batch} images",
            "memory": f"{self.memory / 2**20:.0f} MB",
            "speed": f"{self.images_per_second:.2f} images a second, {3600 * self.images_per_second:.0f} an hour",
            "run": f"about {self.steps} steps, {self.steps * self.batch} images, {format_duration(self.seconds)}",
            "end": f"about {now + timedelta(seconds=self.seconds):%Y-%m-%d %H:%M}, if it started now",
        }
        return "\n".join(f"{name:<8} {value}" for name, value in lines.items())


def make_plan(config: TrainConfig) -> Plan:
    """Build everything, time a few steps, write nothing that stays."""
    with join_world(config.runtime.device) as world, tempfile.TemporaryDirectory() as folder:
        run = Run(config, Path(folder), world)
        run._begin_epoch()
        plan = run._plan(0)
        batches = run._batches(plan)
        run.train_step(batches, 0.0)
        began = time.monotonic()
        for _ in range(min(STEPS, plan.steps - 1)):
            run.train_step(batches, 0.0)
        timed = max(1, min(STEPS, plan.steps - 1))
        per_step = (time.monotonic() - began) / timed
        del batches
        assert run.sources is not None
        ends = []
        schedule = config.schedule
        if schedule.steps:
            ends.append(float(schedule.steps))
        if schedule.epochs:
            ends.append(float(schedule.epochs * plan.steps))
        if schedule.time_budget:
            ends.append(parse_duration(schedule.time_budget) / per_step)
        if run.device.type == "cuda":
            memory = float(torch.cuda.max_memory_allocated(run.device))
        else:
            unit = 1 if sys.platform == "darwin" else 1024
            memory = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit
        precision = str(pick_precision(config.runtime, run.device)).removeprefix("torch.")
        return Plan(
            network=config.network.name,
            parameters=sum(p.numel() for p in run.network.parameters()),
            device=f"{world.size} x {run.device.type} ({precision})",
            frames={s.name: (len(s.indices), len(s.frames) - len(s.indices)) for s in run.sources},
            steps_per_epoch=plan.steps,
            batch=config.optimiser.batch,
            images_per_second=config.optimiser.batch / per_step,
            memory=memory,
            steps=round(min(ends)),
            seconds=min(ends) * per_step,
        )
