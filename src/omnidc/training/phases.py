"""Phases of a run: a share of the steps each, with settings of their own."""

from __future__ import annotations

import bisect
import dataclasses
import sys
from collections.abc import Sequence

import numpy as np

from omnidc.errors import ConfigError
from omnidc.training.config import DataConfig, TrainConfig, check, from_tables, to_tables
from omnidc.training.tables import merge

PHASE_KEYS = {
    "network": {"freeze", "iterations", "style_noise"},
    "data": {field.name for field in dataclasses.fields(DataConfig)} - {"sources", "manifest", "val_fraction"},
    "optimizer": {"batch", "accumulate", "lr", "grad_clip"},
}


def phase_configs(config: TrainConfig) -> list[TrainConfig]:
    """Return the configuration of each phase of the run; of a run without phases its own."""
    result = []
    for number, phase in enumerate(config.phase, 1):
        tables = {section: getattr(phase, section) for section in ("network", "data", "augment", "loss", "optimizer")}
        for section, keys in PHASE_KEYS.items():
            unknown = sorted(set(tables[section]) - keys)
            if unknown:
                raise ConfigError(f"Phase {number} cannot change {section}.{unknown[0]}: it holds for the whole run.")
        own = from_tables(merge({**to_tables(config), "phase": []}, {k: v for k, v in tables.items() if v}))
        check(own)
        result.append(own)
    return result or [config]


def phase_ends(config: TrainConfig) -> list[int]:
    """Return the step after the last of each phase; a run without phases has one that never ends."""
    shares = [phase.share for phase in config.phase]
    return [round(sum(shares[: i + 1]) * config.schedule.steps) for i in range(len(shares))] or [sys.maxsize]


def cycle_progress(config: TrainConfig, done: float) -> float:
    """Return the share of the present cycle that is over at progress `done` of the run.

    A phase with `restart` begins a cycle, and the run itself does; each has the whole schedule of the learning rate.
    """
    begins = [end / config.schedule.steps for end, phase in zip(phase_ends(config), config.phase[1:]) if phase.restart]
    bounds = [0.0, *begins, 1.0]
    number = min(bisect.bisect_right(bounds, done), len(bounds) - 1)
    first, last = bounds[number - 1 : number + 1]
    return min(1.0, (done - first) / max(last - first, 1e-9))


def work_done(
    phases: Sequence[TrainConfig],
    ends: Sequence[int],  # step after the last of each phase
    progress: float,  # share of the steps that is over
) -> float:
    """Return the share of the computing that is over, if a step costs what its pixels do."""
    if len(phases) == 1:
        return progress
    steps = np.diff([0, *ends])
    pixels = [
        phase.optimizer.batch * np.mean([height * width for height, width in phase.data.sizes]) for phase in phases
    ]
    work = np.cumsum([0, *(steps * pixels)])
    return float(np.interp(progress, np.array([0, *ends]) / ends[-1], work / work[-1]))
