"""Estimate the cost of a run from its first steps: `omnidc train --dry-run`."""

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
from omnidc.training.distributed import join_group
from omnidc.training.precision import pick_precision
from omnidc.training.schedule import format_duration, parse_duration
from omnidc.training.trainer import Trainer

TIMED_STEPS = 3  # timed, after one that warms up


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
    with join_group(config.runtime.device) as group, tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder), group)
        sampler = trainer.sampler()
        batches = trainer.batches(sampler)
        trainer.train_step(batches, 0.0)
        began = time.monotonic()
        timed = min(TIMED_STEPS, sampler.steps - 1)
        for _ in range(timed):
            trainer.train_step(batches, 0.0)
        per_step = (time.monotonic() - began) / max(1, timed)
        del batches
        assert trainer.data.train is not None
        ends = []
        schedule = config.schedule
        if schedule.steps:
            ends.append(float(schedule.steps))
        if schedule.epochs:
            ends.append(float(schedule.epochs * sampler.steps))
        if schedule.time_budget:
            ends.append(parse_duration(schedule.time_budget) / per_step)
        if trainer.device.type == "cuda":
            memory = float(torch.cuda.max_memory_allocated(trainer.device))
        else:
            unit = 1 if sys.platform == "darwin" else 1024
            memory = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit
        precision = str(pick_precision(config.runtime, trainer.device)).removeprefix("torch.")
        return Plan(
            network=config.network.name,
            parameters=sum(p.numel() for p in trainer.network.parameters()),
            device=f"{group.size} x {trainer.device.type} ({precision})",
            frames={s.name: (len(s), len(s.frames) - len(s)) for s in trainer.data.train},
            steps_per_epoch=sampler.steps,
            batch=config.optimizer.batch,
            images_per_second=config.optimizer.batch / per_step,
            memory=memory,
            steps=round(min(ends)),
            seconds=min(ends) * per_step,
        )
