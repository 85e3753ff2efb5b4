"""`omnidc.load`: a name, a checkpoint, an ONNX file or a model of the hub. Torch is imported only where needed."""

from __future__ import annotations

from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnidc.errors import ConfigError, require_torch

if TYPE_CHECKING:
    from omnidc.deploy.runtime import OnnxCompleter
    from omnidc.pipeline import DepthCompleter

Runtime = Literal["auto", "torch", "onnx"]
WEIGHTS = Path(__file__).parent.parent / "weights"


def default_model() -> str:
    """Return "compact" where its weights are installed or torch is absent (`load` says so), else "interpolate"."""
    has_weights = (WEIGHTS / "compact.safetensors").is_file()
    return "compact" if has_weights or find_spec("torch") is None else "interpolate"


def _uses_gpu(device: str) -> bool:
    """Return True where torch would run on a GPU; torch, slow to import, is asked only where a driver is installed."""
    if find_spec("torch") is None:
        return False
    if device != "auto":
        return device != "cpu"
    if find_library("cuda") is None and find_library("nvcuda") is None:
        return False
    import torch

    return torch.cuda.is_available()


def load(
    name_or_path: str | Path = "compact",
    device: str = "auto",
    runtime: Runtime | str = "auto",
    *,
    threads: int | None = None,
) -> DepthCompleter | OnnxCompleter:
    """Load a model; the result has `complete`.

    name_or_path: "compact" (bundled), "interpolate" (the integrator alone), a checkpoint, an .onnx file, or
        "hf://owner/name[@revision]".
    device: "auto" takes a CUDA GPU where there is one, the CPU otherwise; or any name that the runtime knows.
    runtime: "auto" takes onnxruntime for .onnx files and, where there is no GPU, for the bundled model; else torch.
    threads: of onnxruntime; None = OMP_NUM_THREADS, or one for each core. Torch has a setting of its own.

    >>> import numpy as np
    >>> import omnidc
    >>> image = np.zeros((48, 64, 3), np.uint8)
    >>> sparse = np.zeros((48, 64), np.float32)  # 0 = no measurement
    >>> sparse[12, 16], sparse[36, 48] = 2.0, 2.0
    >>> result = omnidc.load("interpolate").complete(image, sparse)
    >>> result.depth.shape
    (48, 64)
    >>> round(float(result.depth[24, 32]), 3)
    2.0
    """
    if runtime not in ("auto", "torch", "onnx"):
        raise ConfigError(f'The runtime is "auto", "torch" or "onnx", not {runtime!r}.')
    from omnidc.deploy.runtime import OnnxCompleter

    place = str(name_or_path)
    if place.startswith("hf://"):
        from omnidc.deploy.hub import download

        place = str(download(place, runtime))
    is_onnx = place.lower().endswith(".onnx")
    bundled = WEIGHTS / f"{place}.onnx"  # its weights are those of the checkpoint beside it
    has_bundled = bundled.is_file() and bundled.with_suffix(".safetensors").is_file()
    if runtime == "onnx" and not is_onnx and not has_bundled:
        raise ConfigError(f"{place} is no ONNX model: export it first with  omnidc export -m {place} -o model.onnx.")
    if not is_onnx and has_bundled and (runtime == "onnx" or (runtime == "auto" and not _uses_gpu(device))):
        return OnnxCompleter(bundled, "cpu" if device == "auto" else device, threads, place)
    if runtime == "torch" and is_onnx:
        raise ConfigError(f"{place} is an ONNX model, which torch does not run: leave out --runtime torch.")
    if is_onnx:
        return OnnxCompleter(place, device, threads)
    require_torch(f"The model {place}")
    from omnidc.pipeline import load as load_torch

    return load_torch(place, device)


_LOADED: dict[tuple[str, str, str], DepthCompleter | OnnxCompleter] = {}


def complete(
    image: Any,
    sparse: Any,
    intrinsics: Any = None,
    *,
    model: str | Path = "compact",
    device: str = "auto",
    runtime: Runtime = "auto",
    **options: Any,
) -> Any:
    """Load a model (once per process) and complete one view; options as for `DepthCompleter.complete`.

    >>> from pathlib import Path
    >>> import omnidc
    >>> room = Path(omnidc.__file__).parent / "examples"  # the bundled example
    >>> result = omnidc.complete(room / "room.jpg", room / "room_sparse.npz", model="interpolate")
    >>> result
    Completion(320x240, depth 1.38 / 2.88 / 4.88 (min / median / max), 500 points)
    """
    key = (str(model), device, runtime)
    if key not in _LOADED:
        _LOADED[key] = load(model, device, runtime)
    return _LOADED[key].complete(image, sparse, intrinsics, **options)
