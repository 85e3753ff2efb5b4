"""`DepthCompleter`: a network with everything around it that a user does not want to think of."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

import cv2
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from omnidc.errors import ConfigError, ConvergenceError, InputError
from omnidc.geometry.rasterize import move_points
from omnidc.network.checkpoint import PACKAGED, load_network
from omnidc.network.harmonic import HarmonicNetwork
from omnidc.network.interface import DepthNetwork
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.legacy.enlarge import enlarge, enlarge_depth
from omnidc.pipeline.legacy.keep import draw_near, pass_through
from omnidc.pipeline.legacy.sharpen import sharpen
from omnidc.pipeline.prepare import Inputs, prepare
from omnidc.pipeline.tiles import AUTO_PIXELS, TILE, Output, run

KeepInput = Literal["soft", "hard"]
Tile = int | Literal["auto"] | None
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
    def complete(
        self,
        image: ImageLike,
        sparse: DepthLike,
        intrinsics: Any = None,
        *,
        keep_input: KeepInput = "soft",
        max_long_side: int | None = None,
        tile: Tile = "auto",
        depth_scale: float | None = None,
        ray_depth: bool = False,
        resize_sparse: bool = False,
        far: float | None = None,
    ) -> Completion: ...

    @overload
    def complete(
        self,
        image: list[Any] | tuple[Any, ...],
        sparse: list[Any] | tuple[Any, ...],
        intrinsics: Any = None,
        *,
        keep_input: KeepInput = "soft",
        max_long_side: int | None = None,
        tile: Tile = "auto",
        depth_scale: float | None = None,
        ray_depth: bool = False,
        resize_sparse: bool = False,
        far: float | None = None,
    ) -> list[Completion]: ...

    def complete(
        self,
        image: Any,
        sparse: Any,
        intrinsics: Any = None,
        *,
        keep_input: KeepInput = "soft",
        max_long_side: int | None = None,
        tile: Tile = "auto",
        depth_scale: float | None = None,
        ray_depth: bool = False,
        resize_sparse: bool = False,
        far: float | None = None,
    ) -> Completion | list[Completion]:
        """Complete one view into a `Completion`, or lists of images and sparse maps into a list of them.

        image: path, Pillow image, array or tensor; grey, RGB or RGBA, 8 or 16 bits or floats in [0, 1].
        sparse: path, array or tensor [H, W] of z-depth in any unit, 0 = no measurement; None = no points at all.
        intrinsics: fx, fy, cx, cy or 3×3, for points and for ray_depth; for a list of views one, or a list of them.
        keep_input: "soft" lets the network overrule measurements; "hard" makes the result pass through all of them.
        max_long_side: larger images are computed at this size, and the result is brought back to theirs. None: what
            suits the network (960 for "compact", which was trained on small pictures; no limit for the paper's).
        tile: "auto" runs images above 2.1 megapixels in tiles of 1024 pixels; a number sets the side; None never tiles.
        depth_scale: what stored depth is divided by; None = guessed for integer files, 1 otherwise.
        ray_depth: `sparse` holds distances along the ray, not z-depth.
        resize_sparse: move the points to the image's pixels when only the resolution differs.
        far: largest depth in the result.
        """
        options: dict[str, Any] = {"depth_scale": depth_scale, "ray_depth": ray_depth, "resize_sparse": resize_sparse}
        if not isinstance(image, list | tuple):
            inputs = [prepare(image, sparse, intrinsics, **options)]
            return self.complete_inputs(inputs, keep_input, max_long_side, tile, far)[0]
        if not isinstance(sparse, list | tuple) or len(sparse) != len(image):
            raise InputError("A list of images needs a list of as many sparse maps.")
        cameras = intrinsics if _one_each(intrinsics, len(image)) else [intrinsics] * len(image)
        inputs = [prepare(*one, **options) for one in zip(image, sparse, cameras)]
        return self.complete_inputs(inputs, keep_input, max_long_side, tile, far)

    def complete_inputs(
        self,
        inputs: Sequence[Inputs],
        keep_input: KeepInput = "soft",
        max_long_side: int | None = None,
        tile: Tile = "auto",
        far: float | None = None,
    ) -> list[Completion]:
        """`complete` for views that `prepare` has already checked; images of one size run together."""
        return [result for result, _ in self._run(inputs, keep_input, max_long_side, tile, far)]

    def _run(
        self,
        inputs: Sequence[Inputs],
        keep_input: KeepInput,
        max_long_side: int | None,
        tile: Tile,
        far: float | None,
        start: Tensor | None = None,  # [1, 1, h, w], for a single view
    ) -> list[tuple[Completion, Tensor]]:
        """Each result with its log depth [1, 1, h, w], the start for a next frame."""
        _check_options(keep_input, max_long_side, tile, far)
        longest = self.network.longest if max_long_side is None else max_long_side
        small = [_shrink(one, longest) for one in inputs]
        groups: dict[tuple[int, int], list[int]] = {}
        for k, (_, sparse) in enumerate(small):
            groups.setdefault((sparse.shape[0], sparse.shape[1]), []).append(k)
        results: dict[int, tuple[Completion, Tensor]] = {}
        for (height, width), members in groups.items():
            side = _tile_side(tile, height * width)
            size = 1 if side is not None else max(1, min(BATCH, AUTO_PIXELS // (height * width)))
            for first in range(0, len(members), size):
                batch = members[first : first + size]
                pictures = torch.stack([_image_tensor(small[k][0]) for k in batch])
                points = torch.stack([torch.from_numpy(small[k][1])[None] for k in batch])
                output = run(self.network, pictures, points, start, side)
                for position, k in enumerate(batch):
                    result = self._finish(inputs[k], small[k][0], output, position, keep_input, far, side)
                    results[k] = result, output.log_depth[position : position + 1]
        return [results[k] for k in range(len(inputs))]

    def stream(self) -> DepthStream:
        """A completer for video: each solve starts from the last frame's solution."""
        return DepthStream(self)

    def _finish(
        self,
        given: Inputs,
        picture: npt.NDArray[np.uint8],  # [h, w, 3], what the network saw
        output: Output,
        position: int,
        keep_input: KeepInput,
        far: float | None,
        side: int | None,
    ) -> Completion:
        depth = output.depth[position, 0].float().numpy()
        scale = None if output.scale is None else output.scale[position, 0].float().numpy()
        if not np.isfinite(depth).all():
            raise ConvergenceError("The network gave no finite depth for this input: check the unit of the points.")
        cells = output.confidence[position, 0].float().numpy()
        confidence = np.full(given.sparse.shape, np.nan, np.float32)
        rows, columns = np.nonzero(given.sparse > 0)
        (H, W), (h, w) = given.sparse.shape, picture.shape[:2]
        y, x = (rows + 0.5) * h / H, (columns + 0.5) * w / W  # as `move_points` does
        confidence[rows, columns] = cells[(y / output.stride).astype(int), (x / output.stride).astype(int)]

        tiny = np.finfo(np.float32).tiny
        depth = np.maximum(depth, tiny)
        trusted = np.zeros_like(given.sparse)
        if keep_input == "soft" and self.network.trusted is not None:
            trusted = np.where(confidence > self.network.trusted, given.sparse, np.float32(0))
        points = move_points(trusted, (h, w))
        depth = draw_near(depth, points)
        for _ in range(SHARPENED if self.network.sharpen else 0):
            # Among depths that are right already a median chooses better; and it moves what had been drawn near.
            depth = draw_near(sharpen(depth, picture, points > 0), points)
        depth = enlarge_depth(depth, given.image)
        if scale is not None:
            scale = enlarge(np.maximum(scale, tiny), given.sparse.shape)
        if keep_input == "hard":
            depth = pass_through(depth, given.sparse)
        if far is not None:
            depth = np.minimum(depth, np.float32(far))

        warnings = list(given.warnings)
        if not bool(output.info.converged[position]):
            residual = float(output.info.residuals[-1, position])
            warnings.append(f"The integrator stopped early, at a relative residual of {residual:.0e}: use with care.")
        return Completion(
            depth=depth,
            uncertainty=scale,
            input_confidence=confidence,
            sparse=given.sparse,
            image=given.image,
            intrinsics=given.intrinsics,
            unit=given.unit if len(rows) else "relative",
            warnings=warnings,
            details={
                "model": self.name,
                "keep_input": keep_input,
                "unit_reason": given.note,
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
        self._size: tuple[int, ...] = ()

    def complete(
        self,
        image: Any,
        sparse: Any,
        intrinsics: Any = None,
        *,
        keep_input: KeepInput = "soft",
        max_long_side: int | None = None,
        tile: Tile = "auto",
        far: float | None = None,
        **options: Any,
    ) -> Completion:
        """As `DepthCompleter.complete`, one frame at a time. A frame of another size starts afresh."""
        given = prepare(image, sparse, intrinsics, **options)
        size = (*given.sparse.shape, max_long_side or 0, -1 if tile is None else 0 if tile == "auto" else tile)
        start = self._start if size == self._size else None
        [(result, self._start)] = self.completer._run([given], keep_input, max_long_side, tile, far, start)
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


def _check_options(keep_input: str, max_long_side: int | None, tile: Tile, far: float | None) -> None:
    if keep_input not in ("soft", "hard"):
        raise ConfigError(f'keep_input is "soft" or "hard", not {keep_input!r}.')
    if max_long_side is not None and max_long_side < 1:
        raise ConfigError(f"max_long_side is a positive number of pixels, not {max_long_side}.")
    if tile is not None and tile != "auto" and not (isinstance(tile, int) and tile > 0):
        raise ConfigError(f'tile is "auto", None or a positive number of pixels, not {tile!r}.')
    if far is not None and not (math.isfinite(far) and far > 0):
        raise ConfigError(f"far is a positive depth, not {far}.")


def _one_each(intrinsics: Any, views: int) -> bool:
    """Is this a list with a camera for each view, rather than one camera written as a list?"""
    if not isinstance(intrinsics, list | tuple) or len(intrinsics) != views:
        return False
    try:
        return np.shape(intrinsics) not in ((4,), (3, 3))
    except ValueError:  # cameras written in several ways, or None among them
        return True


def _tile_side(tile: Tile, pixels: int) -> int | None:
    if tile == "auto":
        return TILE if pixels > AUTO_PIXELS else None
    return tile


def _image_tensor(image: npt.NDArray[np.uint8]) -> Tensor:
    """[3, H, W] in [0, 1] from uint8 [H, W, 3]."""
    return torch.from_numpy(image).permute(2, 0, 1).float().div_(255)


def _shrink(given: Inputs, max_long_side: int | None) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    height, width = given.sparse.shape
    if max_long_side is None or max(height, width) <= max_long_side:
        return given.image, given.sparse
    factor = max_long_side / max(height, width)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    picture = np.asarray(cv2.resize(given.image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return picture, move_points(given.sparse, size[::-1])
