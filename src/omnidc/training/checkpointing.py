"""The state of a run on disk, so that it can be killed at any moment and go on as if nothing had happened.

A run's folder:

    state.pt           everything needed to resume; replaced atomically
    last.safetensors   the averaged weights of the same moment, as users load them
    best.safetensors   those of the best validation
    config.json        the configuration
    frames.json        the frames of the present epoch
    losses.csv, validation.csv, pictures/, tensorboard/, nan/ (batches without a finite loss)
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from omnidc.errors import CheckpointError, FileError
from omnidc.io.files import atomic_path

VERSION = 1
STATE = "state.pt"


def pack_names(names: Sequence[str]) -> bytes:
    """Many similar names in few bytes."""
    return zlib.compress("\n".join(names).encode())


def unpack_names(data: bytes) -> list[str]:
    text = zlib.decompress(data).decode()
    return text.split("\n") if text else []


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
