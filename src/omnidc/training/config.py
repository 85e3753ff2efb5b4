"""The configuration of a training run: dataclasses, filled from a preset, a TOML file and `section.key=value`.

Presets are the TOML files in `presets/`. A later source overrides single keys of an earlier one; tables that map names
(`data.sources`, `network.options`, `optimiser.lr_scale`) are merged.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from omnidc.datasets.augment import AugmentConfig
from omnidc.errors import ConfigError, FileError
from omnidc.training.losses import LossConfig

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


@dataclass
class NetworkConfig:
    name: str = "compact"  # "compact", "paper", or MODULE:CLASS of a DepthNetwork
    options: dict[str, Any] = field(default_factory=dict)  # given to the network's configuration
    start: str = ""  # checkpoint of the same network to start from; "" = from its own initialisation
    encoder: str = ""  # file with ImageNet weights for the encoder; "" = none
    encoder_sha256: str = ""  # its checksum; "" = any file
    freeze: list[str] = field(default_factory=list)  # prefixes of parameter names that stay as they came


@dataclass
class DataConfig:
    sources: dict[str, str] = field(default_factory=dict)  # name → path; a name of `omnidc data list` picks its reader
    manifest: str = ""  # frames.json of a run: take exactly its frames; "" = all that are there
    mix: str = "even"  # "even": as many frames of every source; "size": every frame equally often
    per_epoch: int = 0  # frames an epoch; 0 = see omnidc.datasets.mixture
    sizes: list[list[int]] = field(default_factory=lambda: [[480, 640]])  # [height, width], one is drawn per step
    pattern: str = "0.5*100~2000+0.25*sift+0.25*lidar"  # simulated sensors, see omnidc.patterns.grammar
    noise: str = "0~0.05"  # rate of outliers for terms of the pattern without noise of their own; "" = none
    hold_out: float = 0.02  # share of scenes kept for validation
    min_points: int = 20  # a sample with fewer measurements is replaced
    max_edges: float = 1.0  # a sample with a larger share of pixels at depth edges (leaves, grass) is replaced
    range_limit: float = 0.0  # depths below farthest / this are unknown; 0 = no limit (the release: 100)
    workers: int = 1  # processes that load data; 0 = none
    prefetch: int = 3  # batches each of them prepares ahead


@dataclass
class OptimiserConfig:
    batch: int = 60  # images per step, over all processes
    accumulate: int = 1  # parts that each process splits its share into, to save memory
    lr: float = 1e-3
    lr_scale: dict[str, float] = field(default_factory=dict)  # prefix of parameter names → factor
    weight_decay: float = 0.01
    decay_all: bool = True  # also norms and biases, as in the release
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 1.0  # gradient norm; 0 = off
    ema: float = 0.0  # decay of the averaged weights; 0 = none


@dataclass
class ScheduleConfig:
    kind: str = "steps"  # "steps" or "cosine"
    warmup: float = 1 / 72  # share of the run over which lr rises from 0
    milestones: list[float] = field(default_factory=lambda: [36 / 72, 48 / 72, 56 / 72, 64 / 72])  # "steps"
    factor: float = 0.5  # "steps": lr times this at every milestone
    final: float = 0.01  # "cosine": lr at the end, as a share
    epochs: int = 0  # the run ends after so many epochs,
    steps: int = 0  # or so many steps,
    time_budget: str = ""  # or so much time ("90m", "2h"), whichever comes first; 0 and "" = no limit


@dataclass
class ValidationConfig:
    frames: int = 64  # of the held-out scenes, chosen when the run starts
    patterns: list[str] = field(default_factory=lambda: ["0.7%", "0.1%", "sift", "lidar-16"])
    every_steps: int = 0
    every_minutes: float = 0.0
    every_epochs: int = 1
    pictures: int = 4  # frames in each validation picture


@dataclass
class RuntimeConfig:
    device: str = "auto"  # "auto", "cpu", "cuda", …
    precision: str = "auto"  # "fp32", "bf16", "fp16"; auto = fp32 on CPU, bf16 or fp16 on GPU
    channels_last: bool = True
    compile: bool = False  # torch.compile
    threads: int = 0  # of torch on CPU; 0 = its own choice
    checkpoint_steps: int = 0
    checkpoint_minutes: float = 10.0
    tensorboard: bool = False
    max_skipped: int = 50  # batches in a row without a finite loss after which the run gives up


@dataclass
class TrainConfig:
    seed: int = 0
    network: NetworkConfig = field(default_factory=NetworkConfig)
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)


def preset_names() -> list[str]:
    folder = resources.files("omnidc.training") / "presets"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def _parse(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}.") from error


def read_preset(name: str) -> dict[str, Any]:
    """The tables of a preset."""
    if name not in preset_names():
        raise ConfigError(f"There is no preset {name!r}: choose one of {', '.join(preset_names())}.")
    file = resources.files("omnidc.training") / "presets" / f"{name}.toml"
    return _parse(file.read_text(encoding="utf-8"), f"The preset {name}")


def read_file(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"Cannot read the configuration {path}: {error.strerror or error}.") from error
    return _parse(text, f"The configuration {path}")


def parse_override(text: str) -> dict[str, Any]:
    """`section.key=value` as tables. The value is TOML; what is not (a bare word) is a string."""
    place, equals, value = text.partition("=")
    names = place.strip().split(".")
    if not equals or not all(names):
        raise ConfigError(f"--set {text!r} cannot be read: write section.key=value, for example optimiser.lr=5e-4.")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for name in reversed(names):
        parsed = {name: parsed}
    return dict(parsed)


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over`, table by table; an empty table empties."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) and value else value
    return result


def _fit(value: Any, kind: Any, place: str) -> Any:
    """`value` as the annotated type `kind`, or a ConfigError that names the place."""
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise ConfigError(f"{place} is a table of settings, not {value!r}.")
        return _build(kind, value, f"{place}.")
    origin = get_origin(kind)
    if origin is list and isinstance(value, list):
        return [_fit(item, get_args(kind)[0], place) for item in value]
    if origin is dict and isinstance(value, dict):
        return {str(key): _fit(item, get_args(kind)[1], f"{place}.{key}") for key, item in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is None and type(value) is kind:
        return value
    name = {
        list: "a list",
        dict: "a table",
        float: "a number",
        int: "a whole number",
        str: "a text",
        bool: "true or false",
    }
    raise ConfigError(f"{place} must be {name.get(origin or kind, kind)}, not {value!r}.")


def _build(kind: type[Any], tables: dict[str, Any], place: str = "") -> Any:
    hints = get_type_hints(kind)
    unknown = sorted(set(tables) - set(hints))
    if unknown:
        raise ConfigError(f"There is no setting {place}{unknown[0]}: choose one of {', '.join(hints)}.")
    return kind(**{key: _fit(value, hints[key], f"{place}{key}") for key, value in tables.items()})


def read_run(folder: Path) -> dict[str, Any]:
    """The tables that an earlier run in `folder` used."""
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
    """A configuration from `base` tables, a preset, a file, tables given as keywords, and overrides; later ones win."""
    merged: dict[str, Any] = base or {}
    layers = [read_preset(preset) if preset else {}, read_file(file) if file else {}, tables]
    for layer in [*layers, *map(parse_override, overrides)]:
        merged = merge(merged, layer)
    config = from_tables(merged)
    check(config)
    return config


def from_tables(tables: dict[str, Any]) -> TrainConfig:
    config: TrainConfig = _build(TrainConfig, tables)
    return config


def to_tables(config: TrainConfig) -> dict[str, Any]:
    return dataclasses.asdict(config)


def check(config: TrainConfig) -> None:
    """Contradictions that no single value shows."""
    from omnidc.training.schedule import parse_duration

    schedule, data = config.schedule, config.data
    if not (schedule.epochs or schedule.steps or schedule.time_budget):
        raise ConfigError("The run has no end: give --time-budget 2h, or --set schedule.steps=… or schedule.epochs=….")
    if schedule.time_budget:
        parse_duration(schedule.time_budget)
    if schedule.kind not in ("steps", "cosine"):
        raise ConfigError(f"schedule.kind must be steps or cosine, not {schedule.kind!r}.")
    if not data.sizes or any(len(size) != 2 or min(size) < 1 for size in data.sizes):
        raise ConfigError("data.sizes must list [height, width] pairs, for example [[240, 320]].")
    if not 0 <= data.hold_out < 1:
        raise ConfigError("data.hold_out is a share of the scenes: it must be at least 0 and below 1.")
    if config.optimiser.batch < 1 or config.optimiser.accumulate < 1:
        raise ConfigError("optimiser.batch and optimiser.accumulate must be at least 1.")
    if config.runtime.precision not in ("auto", "fp32", "bf16", "fp16"):
        raise ConfigError(f"runtime.precision must be auto, fp32, bf16 or fp16, not {config.runtime.precision!r}.")
