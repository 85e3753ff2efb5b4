"""Estimate the cost of a run from its first steps: `omnidc train --dry-run`."""

from __future__ import annotations

import math
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import torch

from omnidc.training.config import ScheduleConfig, TrainConfig
from omnidc.training.distributed import join_group
from omnidc.training.precision import pick_precision
from omnidc.training.samples import EpochSampler
from omnidc.training.schedule import format_duration, parse_duration
from omnidc.training.trainer import Trainer

TIMED_STEPS = 3  # of each phase, after one that warms up


@dataclass(frozen=True)
class PhasePlan:
    """What one phase of a run costs."""

    steps: int
    batch: int  # images
    seconds_per_step: float

    @property
    def images(self) -> int:
        return self.steps * self.batch

    @property
    def seconds(self) -> float:
        return self.steps * self.seconds_per_step

    @property
    def images_per_second(self) -> float:
        return self.batch / self.seconds_per_step


@dataclass(frozen=True)
class Plan:
    """Figures of a planned run."""

    network: str
    parameters: int
    device: str
    frames: dict[str, tuple[int, int]]  # name → to train on, held out for validation
    steps_per_epoch: int  # in the first phase
    memory: float  # bytes, of this process (or of the GPU)
    phases: list[PhasePlan]

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self.phases)

    @property
    def images(self) -> int:
        return sum(phase.images for phase in self.phases)

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    @property
    def images_per_second(self) -> float:
        return self.images / self.seconds

    def text(self) -> str:
        now = datetime.now()
        data = ", ".join(f"{name} {train} (+{out} held out)" for name, (train, out) in self.frames.items())
        lines = [
            ("network", f"{self.network}, {self.parameters / 1e6:.2f} M parameters, on {self.device}"),
            ("frames", data),
            ("epoch", f"{self.steps_per_epoch} steps of {self.phases[0].batch} images"),
            ("memory", f"{self.memory / 2**20:.0f} MB"),
        ]
        if len(self.phases) > 1:
            lines += [
                (
                    f"phase {number}",
                    f"{phase.steps} steps of {phase.batch} images, {phase.images_per_second:.2f} images a second, "
                    f"{format_duration(phase.seconds)}",
                )
                for number, phase in enumerate(self.phases, 1)
            ]
        lines += [
            ("speed", f"{self.images_per_second:.2f} images a second, {3600 * self.images_per_second:.0f} an hour"),
            ("run", f"about {self.steps} steps, {self.images} images, {format_duration(self.seconds)}"),
            ("end", f"about {now + timedelta(seconds=self.seconds):%Y-%m-%d %H:%M}, if it started now"),
        ]
        return "\n".join(f"{name:<8} {value}" for name, value in lines)


def time_step(trainer: Trainer, sampler: EpochSampler) -> float:
    """Return the seconds of one step of the present phase: the median of a few after the first."""
    batches = trainer.batches(sampler)
    seconds = []
    for _ in range(min(TIMED_STEPS + 1, sampler.steps)):
        began = time.monotonic()
        trainer.train_step(batches, 0.0)
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds[1:] or seconds)


def planned_steps(schedule: ScheduleConfig, steps_per_epoch: int) -> float:
    """Return the steps of a run without phases, by its steps or epochs; infinity if only time ends it."""
    ends = [math.inf]
    if schedule.steps:
        ends.append(schedule.steps)
    if schedule.epochs:
        ends.append(schedule.epochs * steps_per_epoch)
    return min(ends)


def make_plan(config: TrainConfig) -> Plan:
    """Build everything, time a few steps of every phase, write nothing that stays."""
    with join_group(config.runtime.device) as group, tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder), group)
        left = parse_duration(config.schedule.time_budget) if config.schedule.time_budget else math.inf
        phases: list[PhasePlan] = []
        steps_per_epoch = 0
        for number in range(len(trainer.phases)):
            steps: float = trainer.skip_to_phase(number)
            if steps == 0:
                continue  # its share is less than half a step
            sampler = trainer.sampler()
            batch, seconds = trainer.config.optimizer.batch, time_step(trainer, sampler)
            steps_per_epoch = steps_per_epoch or len(sampler.order) // batch
            if not config.phase:
                steps = planned_steps(config.schedule, steps_per_epoch)
            phases.append(PhasePlan(max(1, round(min(steps, left / seconds))), batch, seconds))
            left -= phases[-1].seconds
            if left <= 0:
                break
        if trainer.device.type == "cuda":
            memory = float(torch.cuda.max_memory_allocated(trainer.device))
        else:
            unit = 1 if sys.platform == "darwin" else 1024
            memory = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit
        precision = str(pick_precision(config.runtime, trainer.device)).removeprefix("torch.")
        assert trainer.data.train is not None
        return Plan(
            network=config.network.name,
            parameters=sum(p.numel() for p in trainer.network.parameters()),
            device=f"{group.size} x {trainer.device.type} ({precision})",
            frames={s.name: (len(s), len(s.frames) - len(s)) for s in trainer.data.train},
            steps_per_epoch=steps_per_epoch,
            memory=memory,
            phases=phases,
        )
