"""The calls that every completer shares, whatever runtime computes: views, lists and batches of them, frames."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt
from PIL import Image

from omnidc.errors import ConfigError, InputError
from omnidc.frame import Frame
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.options import CompleteOptions, TileOption
from omnidc.pipeline.prepare import make_frame

if TYPE_CHECKING:
    from torch import Tensor

    ImageLike = str | os.PathLike[str] | npt.NDArray[Any] | Tensor | Image.Image
    DepthLike = ImageLike | None


class BaseCompleter(ABC):
    """Base class of completers: `complete` for every form of input; a runtime implements `complete_frames`."""

    name: str  # of the model

    @abstractmethod
    def complete_frames(self, frames: Sequence[Frame], options: CompleteOptions | None = None) -> list[Completion]:
        """Complete several frames."""

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
    """Call `make_frame`; raise `ConfigError` for a keyword that it does not have."""
    known = list(inspect.signature(make_frame).parameters)[3:]
    for keyword in keywords:
        if keyword not in known:
            names = ", ".join([*(each.name for each in fields(CompleteOptions)), *known])
            raise ConfigError(f"There is no option {keyword!r}: choose from {names}.")
    return make_frame(image, sparse, intrinsics, **keywords)


def _is_batch(image: Any) -> bool:
    """True for an array or tensor of several images; a batch of one is taken for its image."""
    return getattr(image, "ndim", 0) == 4 and image.shape[0] > 1


def _one_each(intrinsics: Any, views: int) -> bool:
    """Is this a list with a camera for each view, rather than one camera written as a list?"""
    if not isinstance(intrinsics, list | tuple) or len(intrinsics) != views:
        return False
    try:
        return np.shape(intrinsics) not in ((4,), (3, 3))
    except ValueError:  # cameras written in several ways, or None among them
        return True
