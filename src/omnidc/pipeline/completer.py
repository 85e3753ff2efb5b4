"""`DepthCompleter`: a network with everything around it that a user does not want to think of."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, overload

import cv2
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from omnidc.errors import ConfigError, ConvergenceError, InputError
from omnidc.frame import Frame, Unit
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.network.checkpoint import PACKAGED, load_network
from omnidc.network.harmonic import HarmonicNetwork
from omnidc.network.interface import DepthNetwork
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.legacy.enlarge import enlarge, enlarge_depth
from omnidc.pipeline.legacy.keep import draw_near, pass_through
from omnidc.pipeline.legacy.sharpen import sharpen
from omnidc.pipeline.options import CompleteOptions, TileOption
from omnidc.pipeline.prepare import make_frame
from omnidc.pipeline.tiles import AUTO_PIXELS, TILE, Output, run

ImageLike = str | os.PathLike[str] | npt.NDArray[Any] | Tensor | Image.Image
DepthLike = ImageLike | None

BATCH = 4  # images of one size that run together
SHARPENED = 2  # times


class DepthCompleter:
    """Completes depth with one network. Make it once (`omnidc.load`), call `complete` as often as you like."""

    def __init__(self, network: DepthNetwork, name: str = "") -> None:
        self.network = network.eval()
        self.name = name or type(network).__name__

    @overload
    def complete(self, image: Frame, sparse: CompleteOptions | None = None) -> Completion: ...

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

        `complete(frame, options)` takes a `Frame` and `CompleteOptions`. `complete(image, sparse, intrinsics)` takes
        paths, arrays or tensors; its keywords are the fields of `CompleteOptions` and those of `make_frame`. For lists
        of views `intrinsics` is one camera, or a list of them.
        """
        if isinstance(image, Frame):
            return self.complete_frames([image], sparse)[0]
        options, reading = CompleteOptions.split_keywords(keywords)
        if not isinstance(image, list | tuple):
            return self.complete_frames([read_frame(image, sparse, intrinsics, reading)], options)[0]
        if not isinstance(sparse, list | tuple) or len(sparse) != len(image):
            raise InputError("A list of images needs a list of as many sparse maps.")
        cameras = intrinsics if _one_each(intrinsics, len(image)) else [intrinsics] * len(image)
        frames = [read_frame(*one, reading) for one in zip(image, sparse, cameras)]
        return self.complete_frames(frames, options)

    def complete_frames(self, frames: Sequence[Frame], options: CompleteOptions | None = None) -> list[Completion]:
        """Complete several frames; images of one size run together."""
        return [result for result, _ in self._run(frames, options or CompleteOptions())]

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

    def _run(
        self,
        frames: Sequence[Frame],
        options: CompleteOptions,
        start: Tensor | None = None,  # [1, 1, h, w], for a single view
    ) -> list[tuple[Completion, Tensor]]:
        """Each result with its log depth [1, 1, h, w], the start for a next frame."""
        longest = self.network.longest if options.max_long_side is None else options.max_long_side
        small = [_shrink(frame, longest) for frame in frames]
        groups: dict[tuple[int, int], list[int]] = {}
        for k, (_, sparse) in enumerate(small):
            groups.setdefault((sparse.shape[0], sparse.shape[1]), []).append(k)
        results: dict[int, tuple[Completion, Tensor]] = {}
        for (height, width), members in groups.items():
            side = _tile_side(options.tile, height * width)
            size = 1 if side is not None else max(1, min(BATCH, AUTO_PIXELS // (height * width)))
            for first in range(0, len(members), size):
                batch = members[first : first + size]
                pictures = torch.stack([_image_tensor(small[k][0]) for k in batch])
                points = torch.stack([torch.from_numpy(small[k][1])[None] for k in batch])
                output = run(self.network, pictures, points, start, side)
                for position, k in enumerate(batch):
                    result = self._finish(frames[k], small[k][0], output, position, options, side)
                    results[k] = result, output.log_depth[position : position + 1]
        return [results[k] for k in range(len(frames))]

    def stream(self) -> DepthStream:
        """A completer for video: each solve starts from the last frame's solution."""
        return DepthStream(self)

    def _finish(
        self,
        frame: Frame,
        picture: npt.NDArray[np.uint8],  # [h, w, 3], what the network saw
        output: Output,
        position: int,
        options: CompleteOptions,
        side: int | None,
    ) -> Completion:
        sparse = frame.measurements()
        depth = output.depth[position, 0].float().numpy()
        scale = None if output.scale is None else output.scale[position, 0].float().numpy()
        if not np.isfinite(depth).all():
            raise ConvergenceError("The network gave no finite depth for this input: check the unit of the points.")
        cells = output.confidence[position, 0].float().numpy()
        confidence = np.full(sparse.shape, np.nan, np.float32)
        rows, columns = np.nonzero(sparse > 0)
        (H, W), (h, w) = sparse.shape, picture.shape[:2]
        y, x = (rows + 0.5) * h / H, (columns + 0.5) * w / W  # as `resize_sparse_nearest` does
        confidence[rows, columns] = cells[(y / output.stride).astype(int), (x / output.stride).astype(int)]

        tiny = np.finfo(np.float32).tiny
        depth = np.maximum(depth, tiny)
        trusted = np.zeros_like(sparse)
        if options.keep_input == "soft" and self.network.trusted is not None:
            trusted = np.where(confidence > self.network.trusted, sparse, np.float32(0))
        points = resize_sparse_nearest(trusted, (h, w))
        depth = draw_near(depth, points)
        for _ in range(SHARPENED if self.network.sharpen else 0):
            # Among depths that are right already a median chooses better; and it moves what had been drawn near.
            depth = draw_near(sharpen(depth, picture, points > 0), points)
        depth = enlarge_depth(depth, frame.image)
        if scale is not None:
            scale = enlarge(np.maximum(scale, tiny), sparse.shape)
        if options.keep_input == "hard":
            depth = pass_through(depth, sparse)
        if options.clip_depth is not None:
            depth = np.minimum(depth, np.float32(options.clip_depth))
        if options.max_uncertainty is not None:
            if scale is None:
                raise ConfigError(f"The model {self.name} gives no uncertainty: leave out max_uncertainty.")
            depth = np.where(scale <= options.max_uncertainty * depth, depth, np.float32(0))
        if frame.mask is not None:
            depth = np.where(frame.mask, depth, np.float32(0))

        warnings = [*frame.warnings]
        if not bool(output.info.converged[position]):
            residual = float(output.info.residuals[-1, position])
            warnings.append(f"The integrator stopped early, at a relative residual of {residual:.0e}: use with care.")
        return Completion(
            depth=depth,
            uncertainty=scale,
            input_confidence=confidence,
            sparse=sparse,
            image=frame.image,
            intrinsics=frame.intrinsics,
            unit=frame.unit if len(rows) else Unit.RELATIVE,
            warnings=tuple(warnings),
            details={
                "model": self.name,
                "keep_input": options.keep_input,
                "unit_reason": frame.unit_reason,
                "computed_width": w,
                "computed_height": h,
                "tile": side,
                "solver_iterations": int(output.info.iterations[position]),
            },
        )


class DepthStream:
    """Frames of one video in order: the last solution is the start of the next solve, which saves iterations."""

    def __init__(self, completer: DepthCompleter) -> None:
        self.completer = completer
        self._start: Tensor | None = None
        self._size: tuple[object, ...] = ()

    def complete(self, image: Any, sparse: Any, intrinsics: Any = None, **keywords: Any) -> Completion:
        """As `DepthCompleter.complete`, one frame at a time. A frame of another size starts afresh."""
        options, reading = CompleteOptions.split_keywords(keywords)
        frame = read_frame(image, sparse, intrinsics, reading)
        size = (frame.height, frame.width, options.max_long_side, options.tile)
        start = self._start if size == self._size else None
        [(result, self._start)] = self.completer._run([frame], options, start)
        self._size = size
        return result

    def reset(self) -> None:
        """Forget the last frame, as at a cut."""
        self._start = None


def load(name_or_path: str | Path = "compact", device: str = "auto") -> DepthCompleter:
    """Load a network: "compact" (bundled), "harmonic" (the integrator alone, no weights), or a checkpoint file.

    device: "auto" takes a CUDA GPU where there is one, the CPU otherwise; or any name that torch knows.
    """
    target = _device(device)
    if str(name_or_path) == "harmonic":
        return DepthCompleter(HarmonicNetwork().to(target), "harmonic")
    network = load_network(name_or_path, target)
    return DepthCompleter(network.optimise(), Path(name_or_path).name)


def default_model() -> str:
    """ "compact" where its weights are installed, else "harmonic"."""
    return "compact" if PACKAGED["compact"].is_file() else "harmonic"


def read_frame(image: Any, sparse: Any, intrinsics: Any, keywords: dict[str, Any]) -> Frame:
    """Call `make_frame`; a keyword that it lacks gets a sentence."""
    known = list(inspect.signature(make_frame).parameters)[3:]
    for keyword in keywords:
        if keyword not in known:
            names = ", ".join([*(each.name for each in fields(CompleteOptions)), *known])
            raise ConfigError(f"There is no option {keyword!r}: choose from {names}.")
    return make_frame(image, sparse, intrinsics, **keywords)


_LOADED: dict[tuple[str, str], DepthCompleter] = {}


def complete(
    image: Any,
    sparse: Any,
    intrinsics: Any = None,
    *,
    model: str | Path = "compact",
    device: str = "auto",
    **options: Any,
) -> Any:
    """One line: load the model (once per process) and complete. Options as for `DepthCompleter.complete`."""
    key = (str(model), device)
    if key not in _LOADED:
        _LOADED[key] = load(model, device)
    return _LOADED[key].complete(image, sparse, intrinsics, **options)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:  # an unknown name; a device that this machine or build lacks
        raise ConfigError(f'The device {name!r} cannot be used here: take "cpu" or "auto".') from error


def _one_each(intrinsics: Any, views: int) -> bool:
    """Is this a list with a camera for each view, rather than one camera written as a list?"""
    if not isinstance(intrinsics, list | tuple) or len(intrinsics) != views:
        return False
    try:
        return np.shape(intrinsics) not in ((4,), (3, 3))
    except ValueError:  # cameras written in several ways, or None among them
        return True


def _tile_side(tile: TileOption, pixels: int) -> int | None:
    if tile == "auto":
        return TILE if pixels > AUTO_PIXELS else None
    return tile


def _image_tensor(image: npt.NDArray[np.uint8]) -> Tensor:
    """[3, H, W] in [0, 1] from uint8 [H, W, 3]."""
    return torch.from_numpy(image).permute(2, 0, 1).float().div_(255)


def _shrink(frame: Frame, max_long_side: int | None) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    height, width, sparse = frame.height, frame.width, frame.measurements()
    if max_long_side is None or max(height, width) <= max_long_side:
        return frame.image, sparse
    factor = max_long_side / max(height, width)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    picture = np.asarray(cv2.resize(frame.image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return picture, resize_sparse_nearest(sparse, size[::-1])
