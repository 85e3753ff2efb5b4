"""Export of a network to one ONNX file with dynamic batch, height and width.

A network exports when its `forward(image, sparse)` is made of tensor operations alone: no branch on a value, no boolean
indexing, no in-place writes into slices, a fixed number of grids. The iterations of a solver become a loop
(`omnidc.deploy.loop`). The tracer of TorchScript does the work: `torch.export` takes minutes for these networks.
"""

from __future__ import annotations

import base64
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omnidc.deploy.bands import SolvedMaps
from omnidc.deploy.compact_export import CompactExport
from omnidc.deploy.graph import graphs, make_optional, name_sizes, simplify
from omnidc.deploy.loop import insert_loop, trace, trace_step
from omnidc.deploy.model_info import BAND_GRAPHS, INPUTS, OUTPUTS, WHOLE, ModelInfo
from omnidc.deploy.refine_export import refine_graphs
from omnidc.deploy.short_forms import ShortForms
from omnidc.errors import CheckpointError, ConfigError, MissingExtraError
from omnidc.io.files import atomic_path
from omnidc.network.compact import CompactNetwork

TRACED = (147, 213)  # height and width; no padding to any multiple leaves them as they are
TOLERANCE, MIN_EQUAL = 1e-3, 0.999  # relative difference from torch, and the share of pixels that keep to it
# Batch, height and width at which the sizes of all values are observed and the result is compared: below and above 256
# pixels, to a multiple of which networks pad.
OBSERVED = ((2, 61, 277), (3, 309, 90), (1, 530, 101), (1, 96, 837))


# Names of height and width, where they are not those of the image
SIZES: dict[str, tuple[str, ...]] = {
    "residual": (),
    "median": (),
    "features": ("cell_rows", "cell_columns"),
    "maps": ("padded_height", "padded_width"),
    "judged": ("padded_height", "padded_width"),
}


@dataclass(frozen=True)
class ExportReport:
    """What came out."""

    path: Path
    nodes: int  # those of loops included, once
    megabytes: float
    seconds: float


def export_onnx(
    network: nn.Module,  # forward(image [B, 3, H, W], sparse [B, 1, H, W]) → tensors in the order of `outputs`
    path: Path,
    info: ModelInfo,
    outputs: Sequence[str] = OUTPUTS,
    size: tuple[int, int] | None = None,
    graphs_of_bands: Mapping[str, bytes] | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> ExportReport:
    """Write `network` as an ONNX file that `omnidc.deploy.runtime` and the browser page run.

    size: height and width of the only images that the model will take; None = any.
    graphs_of_bands: stage 4 by its names in the metadata, as of `refine_export.refine_graphs`.
    report: takes a line for each step, since all of them take half a minute.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401  folds constants
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "Exporting to ONNX") from error
    unknown = [name for name in outputs if name not in (*OUTPUTS, *SolvedMaps.names())]
    if unknown or "depth" not in outputs:
        raise ConfigError(f"The outputs of an exported model are depth and some of {', '.join(OUTPUTS[1:])}.")
    divisor = info.size_divisor
    if size is not None and any(side <= 0 or side % divisor for side in size):
        raise ConfigError(
            f"--size {size[0]}x{size[1]} does not suit this model: both sides are positive multiples of {divisor}."
        )
    start = time.perf_counter()
    report("tracing …")
    model = _trace(network.eval(), size or _multiple(TRACED, divisor), list(outputs), is_fixed=size is not None)
    report("simplifying …")
    model = simplify(model)
    examples = [_example(batch, *(size or _multiple(sides, divisor))) for batch, *sides in OBSERVED]
    name_sizes(model, [_arrays(one) for one in examples])
    if graphs_of_bands:
        make_optional(model, [name for name in outputs if name in OUTPUTS and name != "residual"], WHOLE)
    texts = {name: base64.b64encode(data).decode() for name, data in (graphs_of_bands or {}).items()}
    onnx.helper.set_model_props(model, {**info.to_metadata(), **texts})
    onnx.checker.check_model(model)
    report(f"comparing with torch for {len(examples)} batches …")
    _check(model, network, outputs.index("depth"), examples)
    with atomic_path(path) as temporary:
        onnx.save(model, str(temporary))
    nodes = sum(len(graph.node) for graph in graphs(model.graph))
    return ExportReport(path, nodes, path.stat().st_size / 1e6, time.perf_counter() - start)


def export_network(
    network: nn.Module,
    path: Path,
    iterations: int | None = None,
    size: tuple[int, int] | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> ExportReport:
    """Write a network of this package; `iterations` of its solver, None = what the network suggests."""
    if iterations is not None and iterations < 1:
        raise ConfigError(f"--iterations is a positive number, not {iterations}.")
    if not isinstance(network, CompactNetwork):
        name = type(network).__name__
        raise ConfigError(f"The network {name} has no form that exports to ONNX; choose another model.")
    module = CompactExport(network, iterations)
    report("tracing stage 4 …")
    bands = dict(zip(BAND_GRAPHS, refine_graphs(module.network)))
    return export_onnx(module, path, module.info, (*OUTPUTS, *SolvedMaps.names()), size, bands, report)


def _trace(network: nn.Module, size: tuple[int, int], outputs: list[str], is_fixed: bool) -> Any:
    def free_axes(name: str) -> dict[int, str]:
        sizes = () if is_fixed else SIZES.get(name, ("height", "width"))
        return {0: "batch", **dict(zip((2, 3), sizes))}

    named = {name: free_axes(name) for name in (*INPUTS, *outputs)}
    example = _example(2, *size)
    with torch.no_grad(), warnings.catch_warnings(), ShortForms():
        # The exporter warns of its own internals; `_check` compares the result with torch.
        warnings.simplefilter("ignore")
        model = trace(network, example, INPUTS, outputs, named)
        if isinstance(network, CompactExport):
            insert_loop(model, trace_step(network.example_problem(*example)))
    return model


def _check(model: Any, network: nn.Module, index: int, examples: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Raise unless the depth of the model equals that of torch for all examples."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for example in examples:
        with torch.inference_mode():
            expected = network(*example)[index].numpy()
        (depth,) = session.run(["depth"], _arrays(example))
        share = float((abs(depth / expected - 1) <= TOLERANCE).mean())
        if not share >= MIN_EQUAL:
            size = "x".join(map(str, expected.shape[-2:]))
            raise CheckpointError(
                f"The exported model differs from torch at {size}: only {share:.2%} of the depths are within "
                f"{TOLERANCE:g}; nothing was written. Please report this with the model and the versions of torch and "
                "onnxruntime."
            )


def _multiple(sides: Sequence[int], divisor: int) -> tuple[int, int]:
    """Round height and width up to multiples."""
    height, width = (side + -side % divisor for side in sides)
    return height, width


def _example(batch: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Make images with measurements, from a fixed seed."""
    random = torch.Generator().manual_seed(0)
    image = torch.rand(batch, 3, height, width, generator=random)
    measured = torch.rand(batch, 1, height, width, generator=random) < 0.02
    return image, measured * (1 + torch.rand(batch, 1, height, width, generator=random))


def _arrays(example: tuple[Tensor, Tensor]) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in zip(INPUTS, example)}
