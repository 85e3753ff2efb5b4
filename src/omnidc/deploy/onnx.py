"""Export of a network to one ONNX file with dynamic batch, height and width.

A network exports when its `forward(image, sparse)` is made of tensor operations alone: no branch on a value, no boolean
indexing, no in-place writes into slices, a fixed number of solver iterations and of grids. Sizes are declared as
multiples of `size_divisor`, which keeps the symbolic arithmetic of the exporter simple.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from omnidc.deploy.compact_export import compact_export
from omnidc.deploy.model_info import INPUTS, OUTPUTS, ModelInfo
from omnidc.errors import ConfigError, MissingExtraError
from omnidc.io.files import atomic_path
from omnidc.network.compact import CompactNetwork

OPSET = 18
MAX_CELLS = 512  # largest height and width that the exporter reasons about, in units of `size_divisor`

Exporter = Literal["dynamo", "torchscript"]


@dataclass(frozen=True)
class ExportOptions:
    """How to export.

    size: height and width of the only images that the model will take; None = any.
    exporter: "dynamo" (torch.export), or "torchscript" (the older tracer, much faster on unrolled solvers).
    """

    size: tuple[int, int] | None = None
    exporter: Exporter = "dynamo"
    opset: int = OPSET


@dataclass(frozen=True)
class ExportReport:
    """What came out."""

    path: Path
    nodes: int
    megabytes: float
    seconds: float


def export_onnx(
    network: nn.Module,  # forward(image [B, 3, H, W], sparse [B, 1, H, W]) → tensors in the order of `outputs`
    path: Path,
    info: ModelInfo,
    outputs: Sequence[str] = OUTPUTS,
    options: ExportOptions | None = None,
) -> ExportReport:
    """Write `network` as an ONNX file that `omnidc.deploy.runtime` and the browser page run."""
    options = options or ExportOptions()
    try:
        import onnx
        import onnxscript  # noqa: F401  the exporter needs it and would end in a traceback
    except ImportError as error:
        raise MissingExtraError("onnxscript", "onnx", "Exporting to ONNX") from error
    unknown = [name for name in outputs if name not in OUTPUTS]
    if unknown or "depth" not in outputs:
        raise ConfigError(f"The outputs of an exported model are depth and some of {', '.join(OUTPUTS[1:])}.")
    divisor = info.size_divisor
    if options.size is not None and any(side <= 0 or side % divisor for side in options.size):
        raise ConfigError(
            f"--size {options.size[0]}x{options.size[1]} does not suit this model: both sides are positive multiples "
            f"of {divisor}."
        )
    start = time.perf_counter()
    network = network.eval()
    example = _example(options.size or _traced_size(divisor))
    with atomic_path(path) as temporary, torch.no_grad(), warnings.catch_warnings():
        # The exporters warn of their own internals; the result is checked by whoever compares the runtimes.
        warnings.simplefilter("ignore")
        export = _export_dynamo if options.exporter == "dynamo" else _export_torchscript
        export(network, example, temporary, list(outputs), divisor, options)
        model = onnx.load(str(temporary))
        onnx.helper.set_model_props(model, info.to_metadata())
        onnx.checker.check_model(model)
        onnx.save(model, str(temporary))
    seconds = time.perf_counter() - start
    return ExportReport(path, len(model.graph.node), path.stat().st_size / 1e6, seconds)


def export_network(
    network: nn.Module, path: Path, iterations: int | None = None, options: ExportOptions | None = None
) -> ExportReport:
    """Write a network of this package; `iterations` of its solver, None = what the network suggests."""
    if iterations is not None and iterations < 1:
        raise ConfigError(f"--iterations is a positive number, not {iterations}.")
    if not isinstance(network, CompactNetwork):
        name = type(network).__name__
        raise ConfigError(f"The network {name} has no form that exports to ONNX; choose another model.")
    module, info, outputs = compact_export(network, iterations)
    # "dynamo" takes minutes for an unrolled solver.
    return export_onnx(module, path, info, outputs, options or ExportOptions(exporter="torchscript"))


def _traced_size(divisor: int) -> tuple[int, int]:
    """A size without special cases: height and width differ, and neither is one cell."""
    cells = -(-96 // divisor) + 1
    return cells * divisor, (cells + 2) * divisor


def _example(size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Two images with measurements, from a fixed seed."""
    random = torch.Generator().manual_seed(0)
    image = torch.rand(2, 3, *size, generator=random)
    measured = torch.rand(2, 1, *size, generator=random) < 0.02
    return image, measured * (1 + torch.rand(2, 1, *size, generator=random))


def _export_dynamo(
    network: nn.Module,
    example: tuple[Tensor, Tensor],
    path: Path,
    outputs: list[str],
    divisor: int,
    options: ExportOptions,
) -> None:
    dim = torch.export.Dim
    axes: dict[int, Any] = {0: dim("batch", min=1, max=1024)}
    if options.size is None:
        axes |= {2: divisor * dim("rows", min=2, max=MAX_CELLS), 3: divisor * dim("columns", min=2, max=MAX_CELLS)}
    program = torch.onnx.export(
        network,
        example,
        dynamo=True,
        opset_version=options.opset,
        input_names=list(INPUTS),
        output_names=outputs,
        dynamic_shapes=(axes, axes),
        external_data=False,
        verbose=False,
    )
    assert program is not None
    program.save(str(path), external_data=False)


def _export_torchscript(
    network: nn.Module,
    example: tuple[Tensor, Tensor],
    path: Path,
    outputs: list[str],
    divisor: int,
    options: ExportOptions,
) -> None:
    axes = {0: "batch"} if options.size is not None else {0: "batch", 2: "height", 3: "width"}
    named = {name: {0: "batch"} if name == "residual" else axes for name in (*INPUTS, *outputs)}
    torch.onnx.export(
        network,
        example,
        str(path),
        dynamo=False,
        opset_version=options.opset,
        input_names=list(INPUTS),
        output_names=outputs,
        dynamic_axes=named,
    )
    _fold_constants(path)


def _fold_constants(path: Path) -> None:
    """Rewrite a traced file with its constants folded: the tracer writes shapes as thousands of small nodes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # portable rewrites only
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
