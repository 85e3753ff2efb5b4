"""The configuration of a training run: dataclasses, filled from a preset, a TOML file and `section.key=value`.

Presets are the TOML files in `presets/`. A later layer overrides single keys of an earlier one; tables that map names
(`data.sources`, `network.options`, `optimizer.lr_scale`, `loss.weights`) are merged.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from omnidc.errors import ConfigError, FileError
from omnidc.training.augment import AugmentConfig
from omnidc.training.losses import LossConfig
from omnidc.training.settings import Settings, build
from omnidc.training.tables import merge, modernize, parse_override, parse_toml, read_file, subtract


@dataclass
class NetworkConfig(Settings):
    name: str = "compact"  # "compact", "paper", or MODULE:CLASS of a DepthNetwork
    options: dict[str, Any] = field(default_factory=dict)  # given to the network's configuration
    init_checkpoint: str = ""  # checkpoint of the same network to start from; "" = its own initialization
    encoder: str = ""  # ImageNet weights for the encoder: a name (omnidc.training.encoder) or a file; "" = random
    encoder_sha256: str = ""  # its checksum; "" = any file
    freeze: list[str] = field(default_factory=list)  # prefixes of parameter names that stay as they came
    style_noise: float = 0.0  # of the encoder's early features while training (omnidc.network.efficientnet)
    iterations: int = 0  # of the solver while training; 0 = those of the network, which validation and users have


@dataclass
class DataConfig(Settings):
    sources: dict[str, str] = field(default_factory=dict)  # name → path; a name of `omnidc data list` picks its reader
    manifest: str = ""  # frames.json of a run: take exactly its frames; "" = all that are there
    mix: str = "even"  # "even": as many frames of every source; "size": every frame equally often
    epoch_size: int = 0  # frames an epoch; 0 = the largest source once (even), all sources once (size)
    sizes: list[list[int]] = field(default_factory=lambda: [[480, 640]])  # [height, width], one is drawn per step
    working_sizes: list[list[int]] = field(default_factory=list)  # [height, width, working height, working width]
    working_share: float = 0.0  # share of the steps that draw from working_sizes instead of sizes
    use: list[str] = field(default_factory=list)  # names of the sources to train on; [] = all
    pattern: str = "0.5*100~2000+0.25*sift+0.25*lidar"  # simulated sensors, see omnidc.patterns.grammar
    noise: str = "0~0.05"  # rate of outliers for terms of the pattern without noise of their own; "" = none
    val_fraction: float = 0.02  # share of the scenes kept for validation
    min_points: int = 20  # a sample with fewer measurements is replaced
    max_edge_fraction: float = 1.0  # a sample with more of its pixels at depth edges (leaves, grass) is replaced
    range_limit: float = 0.0  # depths below farthest / this are unknown; 0 = no limit (the release: 100)
    unit_median: bool = False  # samples are scaled to a median depth of 1, as the paper does
    workers: int = 1  # processes that load data; 0 = none
    prefetch: int = 3  # batches each of them prepares ahead


@dataclass
class OptimizerConfig(Settings):
    batch: int = 60  # images per step, over all processes
    accumulate: int = 1  # parts that each process splits its share into, to save memory
    lr: float = 1e-3
    lr_scale: dict[str, float] = field(default_factory=dict)  # prefix of parameter names → factor
    muon: list[str] = field(default_factory=list)  # prefixes of weights that Muon updates instead of AdamW
    muon_lr: float = 2.0  # their learning rate over that of the others
    weight_decay: float = 0.01
    decay_all: bool = True  # also norms and biases, as in the release
    beta1: float = 0.9
    beta2: float = 0.999
    grad_clip: float = 1.0  # gradient norm; 0 = off
    ema: float = 0.0  # decay of the averaged weights; 0 = none


@dataclass
class ScheduleConfig(Settings):
    kind: str = "steps"  # "steps" or "cosine"
    warmup: float = 1 / 72  # share of the run over which lr rises from 0
    milestones: list[float] = field(default_factory=lambda: [36 / 72, 48 / 72, 56 / 72, 64 / 72])  # "steps"
    factor: float = 0.5  # "steps": lr times this at every milestone
    final: float = 0.01  # "cosine": lr at the end, as a share
    epochs: int = 0  # the run ends after so many epochs,
    steps: int = 0  # or so many steps,
    time_budget: str = ""  # or so much time ("90m", "2h"), whichever comes first; 0 and "" = no limit


@dataclass
class ValidationConfig(Settings):
    frames: int = 64  # of the held-out scenes, chosen when the run starts
    patterns: list[str] = field(default_factory=lambda: ["0.7%", "0.1%", "sift", "lidar-16"])
    every_steps: int = 0
    every_minutes: float = 0.0
    every_epochs: int = 1
    pictures: int = 4  # frames in each validation picture


@dataclass
class RuntimeConfig(Settings):
    device: str = "auto"  # "auto", "cpu", "cuda", …
    precision: str = "auto"  # "fp32", "bf16", "fp16"; auto = fp32 on CPU, bf16 or fp16 on GPU
    channels_last: bool = True
    compile: bool = False  # torch.compile
    processes: int = 0  # started by `omnidc train`; 0 = one per core on CPU, 1 on GPU (use torchrun for several)
    threads: int = 0  # of torch on CPU; 0 = its own choice
    checkpoint_steps: int = 0
    checkpoint_minutes: float = 10.0
    tensorboard: bool = False
    max_skipped: int = 50  # batches in a row without a finite loss after which the run gives up


@dataclass
class ExportConfig(Settings):
    """What the files of a run hold of its weights; training and validation have them as they are."""

    half: bool = False  # matrices and filters as 16-bit floats
    laplace_factor: float = 1.0  # of the predicted Laplace scales: photographs are harder than rendered frames


@dataclass
class PhaseConfig(Settings):
    """A part of the run with settings of its own: tables as in the whole configuration, key by key."""

    share: float  # of schedule.steps
    restart: bool = False  # begin a cycle: the schedule anew, from the averaged weights, without momentum
    network: dict[str, Any] = field(default_factory=dict)  # `freeze`, `iterations`, `style_noise`
    data: dict[str, Any] = field(default_factory=dict)  # not `sources`, `manifest` and `val_fraction`
    augment: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)  # `batch`, `accumulate`, `lr`, `grad_clip`


@dataclass
class TrainConfig(Settings):
    seed: int = 0
    phase: list[PhaseConfig] = field(default_factory=list)  # in order; [] = one phase
    network: NetworkConfig = field(default_factory=NetworkConfig)
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)


def preset_names() -> list[str]:
    folder = resources.files("omnidc.training") / "presets"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def read_preset(name: str) -> dict[str, Any]:
    """Read the tables of a preset."""
    if name not in preset_names():
        raise ConfigError(f"There is no preset {name!r}: choose one of {', '.join(preset_names())}.")
    file = resources.files("omnidc.training") / "presets" / f"{name}.toml"
    return parse_toml(file.read_text(encoding="utf-8"), f"The preset {name}")


def read_run(folder: Path) -> dict[str, Any]:
    """Read the tables that an earlier run in `folder` used."""
    try:
        tables: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"There is no run to resume in {folder}: config.json is missing or damaged.") from error
    return tables


def load_config(
    preset: str | None = None,
    file: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    base: dict[str, Any] | None = None,
    **tables: Any,
) -> TrainConfig:
    """Build a configuration from `base` tables, preset, file, keyword tables and overrides.

    Later ones win, also over the phases of earlier ones: a setting that is given holds for the whole run.
    """
    merged: dict[str, Any] = {}
    layers = [base or {}, read_preset(preset) if preset else {}, read_file(file) if file else {}, tables]
    for layer in [*layers, *map(parse_override, overrides)]:
        given = modernize(layer)
        merged = {**merged, "phase": [subtract(phase, given) for phase in merged.get("phase", [])]}
        merged = merge(merged, given)
    config = from_tables(merged)
    check(config)
    return config


def from_tables(tables: dict[str, Any]) -> TrainConfig:
    return build(TrainConfig, modernize(tables))


def to_tables(config: TrainConfig) -> dict[str, Any]:
    return dataclasses.asdict(config)


def first_difference(one: TrainConfig, other: TrainConfig) -> str:
    """Return the first setting that two configurations of a run differ in, or ""; places and speed do not count."""
    pairs = [("", to_tables(one), to_tables(other))]
    for place, first, second in pairs:
        for key in sorted(set(first) | set(second)):
            name, a, b = f"{place}{key}", first.get(key), second.get(key)
            if name in ("runtime", "data.sources", "data.workers", "data.prefetch"):
                continue
            if isinstance(a, dict) and isinstance(b, dict):
                pairs.append((f"{name}.", a, b))
            elif a != b:
                return name
    return ""


def check(config: TrainConfig) -> None:
    """Refuse contradictions that no single value shows."""
    from omnidc.training.schedule import parse_duration

    if config.phase and not config.schedule.steps:
        raise ConfigError("Phases are shares of the steps: give schedule.steps.")
    if config.phase and (
        min(phase.share for phase in config.phase) <= 0 or abs(sum(phase.share for phase in config.phase) - 1) > 1e-6
    ):
        raise ConfigError("The shares of the phases must be positive and add up to 1.")
    schedule, data = config.schedule, config.data
    if not (schedule.epochs or schedule.steps or schedule.time_budget):
        raise ConfigError("The run has no end: give --time-budget 2h, or --set schedule.steps=… or schedule.epochs=….")
    if schedule.time_budget:
        parse_duration(schedule.time_budget)
    if schedule.kind not in ("steps", "cosine"):
        raise ConfigError(f"schedule.kind must be steps or cosine, not {schedule.kind!r}.")
    if not data.sizes or any(len(size) != 2 or min(size) < 1 for size in data.sizes):
        raise ConfigError("data.sizes must list [height, width] pairs, for example [[240, 320]].")
    if any(len(size) != 4 or min(size) < 1 or size[2] > size[0] or size[3] > size[1] for size in data.working_sizes):
        raise ConfigError("data.working_sizes must list [height, width, working height, working width], none larger.")
    if not 0 <= data.working_share <= 1 or (data.working_share and not data.working_sizes):
        raise ConfigError("data.working_share is a share of the steps, 0 to 1, and needs data.working_sizes.")
    unknown = sorted(set(data.use) - set(data.sources)) if data.sources else []
    if unknown:
        raise ConfigError(f"data.use names {unknown[0]!r}, which is none of the sources {', '.join(data.sources)}.")
    if not 0 <= data.val_fraction < 1:
        raise ConfigError("data.val_fraction is a share of the scenes: it must be at least 0 and below 1.")
    if config.export.laplace_factor <= 0:
        raise ConfigError("export.laplace_factor must be positive; 1 leaves the Laplace scales as they are.")
    if config.optimizer.batch < 1 or config.optimizer.accumulate < 1:
        raise ConfigError("optimizer.batch and optimizer.accumulate must be at least 1.")
    if config.runtime.precision not in ("auto", "fp32", "bf16", "fp16"):
        raise ConfigError(f"runtime.precision must be auto, fp32, bf16 or fp16, not {config.runtime.precision!r}.")
