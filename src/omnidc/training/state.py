"""The state of a run on disk, so that it can be killed at any moment and be resumed with the same result.

A run's folder:

    state.pt           everything needed to resume; replaced atomically
    last.safetensors   the averaged weights of the same moment, as users load them
    best.safetensors   those of the best validation
    config.json        the configuration
    recipe.json        how the weights were made: settings, seeds, generator, versions, SHA-256
    frames.json        the frames of the present epoch
    losses.csv, validation.csv, pictures/, tensorboard/, nan/ (batches without a finite loss)
"""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from omnidc.errors import CheckpointError, FileError
from omnidc.io.files import atomic_path

VERSION = 1
STATE = "state.pt"

Names = dict[str, list[str]]  # source → names of frames


@dataclass
class Position:
    """How far a run is. The fields are keys of state.pt."""

    step: int = 0
    epoch: int = 0
    epoch_first: int = 0  # first step of the epoch
    skipped: int = 0  # batches without a finite loss
    best: float = math.inf  # mean REL of the best validation
    images: int = 0  # used so far
    cpu_seconds: float = 0.0  # of all processes, over all resumptions
    finished: bool = False  # the schedule ended and the result was validated
    reserve: float = 0.0  # seconds of a time budget kept for the last validation


def pack_names(names: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """Compress lists of similar names."""
    return {source: zlib.compress("\n".join(listed).encode()) for source, listed in names.items()}


def unpack_names(packed: Mapping[str, bytes]) -> Names:
    texts = {source: zlib.decompress(data).decode() for source, data in packed.items()}
    return {source: text.split("\n") if text else [] for source, text in texts.items()}


def save_state(folder: Path, state: dict[str, Any]) -> None:
    with atomic_path(folder / STATE) as temporary:
        torch.save({"version": VERSION, **state}, temporary)


def load_state(folder: Path) -> dict[str, Any]:
    path = folder / STATE
    if not path.is_file():
        raise FileError(f"There is no run to resume in {folder}: {STATE} is missing; start without --resume.")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path} is damaged and cannot be resumed from ({type(error).__name__}).") from error
    if state.get("version") != VERSION:
        raise CheckpointError(f"{path} was written by another version of omnidc and cannot be resumed.")
    return state
