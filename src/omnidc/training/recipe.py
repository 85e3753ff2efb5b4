"""Record how weights were made: settings, seeds, data and versions, for `recipe.json` and the weights' metadata."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omnidc.io.files import atomic_path
from omnidc.training.config import TrainConfig, to_tables

RECIPE = "recipe.json"
PACKAGES = ("omnidc", "torch", "numpy", "opencv-python-headless")


def describe(config: TrainConfig, frames: Mapping[str, int], **counts: int) -> dict[str, Any]:
    """Return the recipe of a run; `frames` counts the training frames by source."""
    settings = to_tables(config)
    settings.pop("runtime")  # no effect on the result
    sources = settings["data"].pop("sources")
    return {
        "settings": settings,
        "sources": {
            name: {"frames": frames.get(name, 0), **_generator(Path(path))} for name, path in sorted(sources.items())
        },
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        **counts,
    }


def _generator(folder: Path) -> dict[str, Any]:
    """Return settings and versions of the generator that rendered a folder of shards; nothing for other data."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return {"generator": {"settings": manifest["settings"], "versions": manifest["versions"]}}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_recipe(folder: Path, recipe: dict[str, Any], files: Sequence[Path]) -> None:
    """Write `recipe.json` with the SHA-256 of each of `files` that exists."""
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}
    with atomic_path(folder / RECIPE) as temporary:
        temporary.write_text(json.dumps({**recipe, "sha256": sums}, indent=2) + "\n", encoding="utf-8")
