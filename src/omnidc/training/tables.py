"""Nested tables of settings: TOML, `section.key=value`, merging, keys of earlier versions."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

from omnidc.errors import ConfigError
from omnidc.io.untrusted import read_text
from omnidc.training.losses import LOSSES

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{origin} is nested too deeply.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}.") from error


def read_file(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file."""
    return parse_toml(read_text(path), f"The configuration {path}")


def parse_override(text: str) -> dict[str, Any]:
    """Parse `section.key=value` to tables. The value is TOML; what is not (a bare word) is a string."""
    place, equals, value = text.partition("=")
    names = place.strip().split(".")
    if not equals or not all(names):
        raise ConfigError(f"--set {text!r} cannot be read: write section.key=value, for example optimizer.lr=5e-4.")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return _nest(place.strip(), parsed)


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `over`, table by table; an empty table empties."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) and value else value
    return result


def subtract(table: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a table without the settings that the other one gives."""
    return {
        key: subtract(value, other[key]) if isinstance(value, dict) and isinstance(other.get(key), dict) else value
        for key, value in table.items()
        if key not in other or isinstance(value, dict)
    }


def _nest(place: str, value: Any) -> dict[str, Any]:
    for name in reversed(place.split(".")):
        value = {name: value}
    return dict(value)


# Keys of earlier versions → today's; configurations and runs that use them keep working.
RENAMED = {
    "optimiser": "optimizer",
    "optimizer.clip": "optimizer.grad_clip",
    "network.start": "network.init_checkpoint",
    "data.hold_out": "data.val_fraction",
    "data.per_epoch": "data.epoch_size",
    "data.max_edges": "data.max_edge_fraction",
    "augment.relief": "augment.compress_log_depth",
    **{f"loss.{loss.name}": f"loss.weights.{loss.name}" for loss in LOSSES},
}
# Settings of earlier versions without a successor → whether a value asks for what is gone.
REMOVED = {
    **{"loss.normals": bool, "loss.edge_gain": bool, "loss.edge_jump": None, "loss.edge_radius": None},
    "loss.gradient_space": None,  # follows from the network
}


def modernize(tables: dict[str, Any]) -> dict[str, Any]:
    """Return tables with today's keys in place of those of earlier versions."""
    result = copy.deepcopy(tables)
    for old, asks in REMOVED.items():
        for value in _take(result, old):
            if asks is not None and asks(value):
                raise ConfigError(f"{old} was removed, because it brought no gain: leave it out.")
    for old, new in RENAMED.items():
        for value in _take(result, old):
            result = merge(result, _nest(new, value))
    return result


def _take(tables: dict[str, Any], place: str) -> list[Any]:
    """Remove the value at `section.key` and return it in a list; empty where there is none."""
    name, dot, rest = place.partition(".")
    if not dot:
        return [tables.pop(name)] if name in tables else []
    inner = tables.get(name)
    found = _take(inner, rest) if isinstance(inner, dict) else []
    if found and not inner:  # an empty table would empty those of earlier layers
        del tables[name]
    return found
