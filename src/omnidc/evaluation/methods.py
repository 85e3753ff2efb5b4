"""From the name of a method to the method: a baseline, `module:callable`, a model's name or a checkpoint file.

`align-depth@module:callable` and `align-disparity@module:callable` take a monocular network, `callable(image)` →
relative map [H, W], and fit it to the points by scale and shift; with `-robust@` outliers do not count.
`prior@module:callable` fuses the map with the points in the integrator; `prior@module:callable+METHOD` with the result
of a method too.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.deploy.loading import WEIGHTS
from omnidc.errors import ConfigError, InputError
from omnidc.evaluation.baselines import BASELINES
from omnidc.evaluation.sample import Depth, Image, Intrinsics, Method, Sample
from omnidc.pipeline.alignment import Space, align
from omnidc.pipeline.prior import find_callable, fuse, fuse_completion


def find_method(name: str, untiled: bool = False) -> Method:
    """Find the method of that name; an unknown name is tried as a model or a checkpoint with `omnidc.load`.

    untiled: such a model runs the whole image at its own size, however large.
    """
    if name in BASELINES:
        return BASELINES[name]
    alignment = re.fullmatch(r"align-(depth|disparity)(-robust)?@(.+)", name)
    if alignment:
        space: Space = "depth" if alignment[1] == "depth" else "disparity"
        return aligned(find_callable(alignment[3]), space, robust=alignment[2] is not None)
    fusion = re.fullmatch(r"prior@([^+]+)(?:\+(.+))?", name)
    if fusion:
        return fused(find_callable(fusion[1]), None if fusion[2] is None else find_method(fusion[2], untiled))
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name):
        return _own_method(name)
    if not Path(name).exists() and not _is_model(name):
        raise ConfigError(
            f"There is no method {name!r}: use a baseline ({', '.join(BASELINES)}), module:callable, the name of a "
            "shipped model, hf://owner/name, or the path of a checkpoint that exists."
        )
    import omnidc

    completer = omnidc.load(name)

    def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
        # A pixel whose depth is known is scored even if the network takes it for sky.
        if untiled:
            size = max(sparse.shape)
            return completer.complete(image, sparse, intrinsics=intrinsics, max_long_side=size, tile=None, sky="keep")
        return completer.complete(image, sparse, intrinsics=intrinsics, sky="keep")

    return complete


def aligned(mono: Callable[[Image], Any], space: Space = "depth", robust: bool = False) -> Method:
    """Make a method from a monocular one: `mono(image)` gives a relative map [H, W], depth or disparity."""

    def method(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Depth:
        return align(np.asarray(mono(image)), sparse, space, robust)

    return method


def fused(mono: Callable[[Image], Any], completion: Method | None) -> Method:
    """Make a method that integrates the points and a monocular map, and the result of a completion method if given."""

    def method(image: Image, sparse: Depth, intrinsics: Intrinsics | None = None) -> Any:
        prior = np.asarray(mono(image))
        if completion is None:
            return fuse(sparse, prior)
        result = completion(image, sparse, intrinsics)
        return fuse_completion(result, sparse, prior)

    return method


def _own_method(name: str) -> Method:
    """Return the user's `module:callable`; the current folder is importable, and its signature is checked."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    function = find_callable(name)
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in function that does not say
        return function
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        raise ConfigError(
            f"The method {name!r} takes {signature}, but it is called with image uint8 [H, W, 3], sparse float32 "
            "[H, W] and intrinsics [3, 3] or None: define it as f(image, sparse, intrinsics)."
        ) from error
    return function


def _is_model(name: str) -> bool:
    """Return whether a name may be that of a model: bundled, or on the hub."""
    return name.startswith("hf://") or ("/" not in name and "\\" not in name and not Path(name).suffix)


def fingerprint(source: str | Method) -> str:
    """Identify the weights behind a method, so that a resumed run does not keep scores of others; "" without a file."""
    if not isinstance(source, str):
        return ""
    path = Path(source)
    if source == "compact":
        path = WEIGHTS / "compact.safetensors"
    if not path.is_file():
        return ""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def run_method(method: Method, sample: Sample) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating] | None]:
    """Return depth and, when the method gives one, uncertainty; both [H, W] of the sample's size."""
    result = method(sample.image, sample.sparse, sample.intrinsics)
    depth = np.asarray(getattr(result, "depth", result))
    uncertainty = getattr(result, "uncertainty", None)
    scale = None if uncertainty is None else np.asarray(uncertainty)
    for label, array in (("depth", depth), ("uncertainty", scale)):
        if array is not None and array.shape != sample.gt_depth.shape:
            raise InputError(
                f"The method returned {label} of shape {list(array.shape)} for an image of "
                f"{sample.gt_depth.shape[0]}x{sample.gt_depth.shape[1]}; it must be [H, W]."
            )
    return depth, scale
