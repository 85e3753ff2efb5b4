"""`DepthCompleter`: a network with everything around it that a user does not want to think of."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from omnidc.errors import ConfigError, InputError
from omnidc.frame import Frame
from omnidc.network.checkpoint import BUNDLED, load_network
from omnidc.network.harmonic import HarmonicNetwork
from omnidc.network.interface import DepthNetwork
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions, TileOption
from omnidc.pipeline.prepare import make_frame
from omnidc.pipeline.runner import run

ImageLike = str | os.PathLike[str] | npt.NDArray[Any] | Tensor | Image.Image
DepthLike = ImageLike | None


class DepthCompleter:
    """Completes depth with one network. Make it once (`omnidc.load`), call `complete` as often as you like."""

    def __init__(self, network: DepthNetwork, name: str = "") -> None:
        self.network = network.eval()
        self.name = name or type(network).__name__

    @overload
    def complete(self, image: Frame, sparse: CompleteOptions | None = None, **keywords: Any) -> Completion: ...

    @overload
    def complete(self, image: ImageLike, sparse: DepthLike, intrinsics: Any = None, **keywords: Any) -> Completion: ...

    @overload
    def complete(
        self,
        image: list[Any] | tuple[Any, ...],
        sparse: list[Any] | tuple[Any, ...],
        intrinsics: Any = None,
        **keywords: Any,
    ) -> list[Completion]: ...

    def complete(
        self, image: Any, sparse: Any = None, intrinsics: Any = None, **keywords: Any
    ) -> Completion | list[Completion]:
        """Complete one view into a `Completion`, or lists of images and sparse maps into a list of them.

        `complete(frame, options)` takes a `Frame` and `CompleteOptions`, or its fields as keywords.
        `complete(image, sparse, intrinsics)` takes paths, arrays or tensors; its keywords are the fields of
        `CompleteOptions` and those of `make_frame`. For lists of views `intrinsics` is one camera, or a list of them.
        A batch [B, 3, H, W] with B > 1 and its sparse maps [B, 1, H, W] are such lists.
        """
        if isinstance(image, Frame):
            return self.complete_frames([image], _frame_options(sparse, keywords))[0]
        options, reading = CompleteOptions.split_keywords(keywords)
        if _is_batch(image):
            image = list(image)
            sparse = [None] * len(image) if sparse is None else list(sparse)
            intrinsics = list(intrinsics) if np.ndim(intrinsics) == 3 else intrinsics
        if not isinstance(image, list | tuple):
            return self.complete_frames([read_frame(image, sparse, intrinsics, reading)], options)[0]
        if not isinstance(sparse, list | tuple) or len(sparse) != len(image):
            raise InputError("A list of images needs a list of as many sparse maps.")
        cameras = intrinsics if _one_each(intrinsics, len(image)) else [intrinsics] * len(image)
        frames = [read_frame(*one, reading) for one in zip(image, sparse, cameras)]
        return self.complete_frames(frames, options)

    def complete_frames(self, frames: Sequence[Frame], options: CompleteOptions | None = None) -> list[Completion]:
        """Complete several frames; images of one size run together."""
        options = options or CompleteOptions()
        maps = run(self.network, frames, options)
        return [Completion.from_maps(frame, one, options, self.name) for frame, one in zip(frames, maps)]

    def complete_inputs(
        self,
        inputs: Sequence[Frame],
        keep_input: Any = "soft",
        max_long_side: int | None = None,
        tile: TileOption = "auto",
        far: float | None = None,
    ) -> list[Completion]:
        """Call `complete_frames`; the old name, for one release."""
        return self.complete_frames(inputs, CompleteOptions(keep_input, max_long_side, tile, far))


def load(name_or_path: str | Path = "compact", device: str = "auto") -> DepthCompleter:
    """Load a network: "compact" (bundled), "harmonic" (the integrator alone, no weights), or a checkpoint file.

    device: "auto" takes a CUDA GPU where there is one, the CPU otherwise; or any name that torch knows.
    """
    target = _device(device)
    if str(name_or_path) == "harmonic":
        return DepthCompleter(HarmonicNetwork().to(target), "harmonic")
    network = load_network(name_or_path, target)
    return DepthCompleter(network.for_inference(), Path(name_or_path).name)


def default_model() -> str:
    """ "compact" where its weights are installed, else "harmonic"."""
    return "compact" if BUNDLED["compact"].is_file() else "harmonic"


def _frame_options(given: Any, keywords: dict[str, Any]) -> CompleteOptions:
    """Return the options of a frame: an object, or keywords."""
    options, unknown = CompleteOptions.split_keywords(keywords)
    if unknown:
        raise ConfigError(f"A frame has been read already: {', '.join(unknown)} belongs to make_frame.")
    if given is None:
        return options
    if keywords or not isinstance(given, CompleteOptions):
        raise ConfigError("Give a frame with CompleteOptions or with keywords: complete(frame, options).")
    return given


def read_frame(image: Any, sparse: Any, intrinsics: Any, keywords: dict[str, Any]) -> Frame:
    """Call `make_frame`; a keyword that it lacks gets a sentence."""
    known = list(inspect.signature(make_frame).parameters)[3:]
    for keyword in keywords:
        if keyword not in known:
            names = ", ".join([*(each.name for each in fields(CompleteOptions)), *known])
            raise ConfigError(f"There is no option {keyword!r}: choose from {names}.")
    return make_frame(image, sparse, intrinsics, **keywords)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:  # an unknown name; a device that this machine or build lacks
        raise ConfigError(f'The device {name!r} cannot be used here: take "cpu" or "auto".') from error


def _is_batch(image: Any) -> bool:
    """True for an array or tensor of several images; a batch of one is taken for its image."""
    return isinstance(image, np.ndarray | Tensor) and image.ndim == 4 and image.shape[0] > 1


def _one_each(intrinsics: Any, views: int) -> bool:
    """Is this a list with a camera for each view, rather than one camera written as a list?"""
    if not isinstance(intrinsics, list | tuple) or len(intrinsics) != views:
        return False
    try:
        return np.shape(intrinsics) not in ((4,), (3, 3))
    except ValueError:  # cameras written in several ways, or None among them
        return True
