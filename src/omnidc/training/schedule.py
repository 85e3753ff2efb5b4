"""Progress of a run, and its learning rate."""

from __future__ import annotations

import math
import re

from omnidc.errors import ConfigError
from omnidc.training.config import ScheduleConfig

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Parse seconds out of "2h", "90m", "1h30m", "45s", "1.5d"."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd])", text.strip().lower())
    if not parts or re.sub(r"(\d+(?:\.\d+)?)\s*([smhd])", "", text.strip().lower()).strip():
        raise ConfigError(f"The duration {text!r} cannot be read: write for example 2h, 90m or 1h30m.")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds <= 0:
        raise ConfigError(f"The duration {text!r} is empty: give more than 0 seconds.")
    return seconds


def format_duration(seconds: float) -> str:
    """Format seconds as "1:23:45", for people."""
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def progress(
    config: ScheduleConfig,
    *,
    step: int,  # optimizer steps done
    epoch: float,  # epochs done, with the fraction of the current one
    elapsed: float,  # seconds of training so far, over all resumptions
    reserve: float = 0.0,  # seconds of the budget that ending the run will take
) -> float:
    """Return the share of the run that is over, in [0, 1]: the largest of the shares of steps, epochs and time."""
    shares = [0.0]
    if config.steps:
        shares.append(step / config.steps)
    if config.epochs:
        shares.append(epoch / config.epochs)
    if config.time_budget:
        shares.append(elapsed / max(parse_duration(config.time_budget) - reserve, 1e-9))
    return min(1.0, max(shares))


def lr_factor(config: ScheduleConfig, done: float) -> float:
    """Return the learning rate over its peak at progress `done`: a linear rise, then a cosine fall or halvings."""
    rise = min(1.0, done / config.warmup) if config.warmup > 0 else 1.0
    if config.kind == "cosine":
        fallen = max(0.0, done - config.warmup) / max(1 - config.warmup, 1e-9)
        return rise * (config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * min(1.0, fallen))))
    # 1e-9: after exactly 36 of 72 epochs the milestone 36 / 72 is passed whatever the rounding
    return rise * config.factor ** sum(done >= milestone - 1e-9 for milestone in config.milestones)
