"""`DepthCompleter`: a torch network with reading, resizing, tiling and post-processing around it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from omnidc.errors import ConfigError
from omnidc.frame import Frame
from omnidc.network.checkpoint import BUNDLED, load_network
from omnidc.network.interface import DepthNetwork
from omnidc.network.interpolate import Interpolator
from omnidc.pipeline.base import BaseCompleter
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions
from omnidc.pipeline.runner import run


class DepthCompleter(BaseCompleter):
    """Completes depth with one network. Make it once (`omnidc.load`), call `complete` as often as you like.

    >>> import numpy as np
    >>> import omnidc
    >>> image, sparse = np.zeros((48, 64, 3), np.uint8), np.zeros((48, 64), np.float32)
    >>> sparse[::12, ::12] = 2.0
    >>> completer = omnidc.load("interpolate")  # a DepthCompleter, since this model runs with torch
    >>> first, second = completer.complete([image, image], [sparse, 2 * sparse])
    >>> round(float(second.depth[5, 5] / first.depth[5, 5]), 3)
    2.0
    >>> from omnidc.pipeline import make_frame
    >>> completer.complete_frames([make_frame(image, sparse)])[0] == completer.complete(image, sparse)
    True
    """

    def __init__(self, network: DepthNetwork, name: str = "") -> None:
        self.network = network.eval()
        self.name = name or type(network).__name__

    def complete_frames(self, frames: Sequence[Frame], options: CompleteOptions | None = None) -> list[Completion]:
        """Complete several frames; images of one size run together."""
        options = options or CompleteOptions()
        maps = run(self.network, frames, options)
        return [Completion.from_maps(frame, one, options, self.name) for frame, one in zip(frames, maps)]


def load(name_or_path: str | Path = "compact", device: str = "auto") -> DepthCompleter:
    """Load a network: "compact" (bundled), "interpolate" (the integrator alone, no weights), or a checkpoint file.

    device: "auto" takes a CUDA GPU where there is one, the CPU otherwise; or any name that torch knows.
    """
    target = _device(device)
    if str(name_or_path) == "harmonic":
        warnings.warn("The model harmonic is now interpolate", DeprecationWarning, stacklevel=2)
        name_or_path = "interpolate"
    if str(name_or_path) == "interpolate":
        return DepthCompleter(Interpolator().to(target), "interpolate")
    network = load_network(name_or_path, target)
    return DepthCompleter(network.for_inference(), Path(name_or_path).name)


def default_model() -> str:
    """Return "compact" where its weights are installed, else "interpolate"."""
    return "compact" if BUNDLED["compact"].is_file() else "interpolate"


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:  # an unknown name; a device that this machine or build lacks
        raise ConfigError(f'The device {name!r} cannot be used here: take "cpu" or "auto".') from error
