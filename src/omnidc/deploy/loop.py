"""The iterations of the solver as one ONNX `Loop`.

A tracer unrolls Python's loops, and onnxruntime needs a minute to open the 10,000 nodes that follow. So one placeholder
node stands for all iterations while the network is traced. One iteration is traced for itself, and `insert_loop`
replaces the placeholder by a `Loop` with that as its body. What all iterations share are values of the outer graph.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from omnidc.deploy.fixed_solver import FixedMultigrid, Iterate, Problem, iterate

OPSET = 18
DOMAIN, PLACEHOLDER = "omnidc", "Iterations"
CARRIED = 4  # tensors of an `Iterate`
PREFIX = "iteration/"  # of the names of the body


class _Iterations(torch.autograd.Function):
    """All iterations; for the tracer one node of `DOMAIN`."""

    @staticmethod
    def forward(ctx: Any, iterations: int, levels: int, resolutions: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        step = Step(levels, resolutions)
        carried, shared = tensors[:CARRIED], tensors[CARRIED:]
        for _ in range(iterations):
            carried = step(*carried, *shared)
        return carried

    @staticmethod
    def symbolic(graph: Any, iterations: int, levels: int, resolutions: int, *values: Any) -> Any:
        results = graph.op(f"{DOMAIN}::{PLACEHOLDER}", *values, iterations_i=iterations, outputs=CARRIED)
        for result, value in zip(results, values):
            result.setType(value.type())
        return results


class Step(nn.Module):
    """One iteration on plain tensors: those of `Iterate`, then those that all iterations share."""

    def __init__(self, levels: int, resolutions: int) -> None:
        super().__init__()
        self.levels, self.resolutions = levels, resolutions

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        last, floating = Iterate(*tensors[:CARRIED]), tensors[CARRIED]
        multigrid = FixedMultigrid.from_tensors(tensors[CARRIED + 1 :], self.levels, self.resolutions)
        return iterate(last, multigrid, floating).tensors()


def run_iterations(problem: Problem, iterations: int) -> Iterate:
    """Run all iterations; traced as a placeholder."""
    grids = problem.multigrid.grids
    shared = [problem.floating, *problem.multigrid.tensors()]
    count = (iterations, len(grids) - 1, len(grids[0].edges))
    return Iterate(*_Iterations.apply(*count, *problem.first.tensors(), *shared))  # type: ignore[no-untyped-call]


def trace(
    network: nn.Module,
    example: tuple[Tensor, ...],
    inputs: Sequence[str],
    outputs: Sequence[str],
    axes: dict[str, dict[int, str]],  # per input or output: the axes whose size is free
) -> Any:
    """Return a network as an ONNX model, as the tracer writes it."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traced.onnx"
        torch.onnx.export(
            network,
            example,
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=axes,
        )
        return onnx.load(str(path))


def trace_step(problem: Problem) -> Any:
    """Return one iteration as an ONNX model; `problem` gives the number of grids and an example."""
    grids = problem.multigrid.grids
    tensors = (*problem.first.tensors(), problem.floating, *problem.multigrid.tensors())
    inputs = [f"in{k}" for k in range(len(tensors))]
    outputs = [f"out{k}" for k in range(CARRIED)]
    axes = {name: {0: "batch", 2: f"rows{k}", 3: f"columns{k}"} for k, name in enumerate(inputs)}
    return trace(Step(len(grids) - 1, len(grids[0].edges)), tensors, inputs, outputs, axes)


def insert_loop(model: Any, step: Any) -> None:
    """Replace the placeholder of `model` by a loop over `step`, in place."""
    from onnx import TensorProto, helper

    nodes = model.graph.node
    index = next(k for k, node in enumerate(nodes) if (node.domain, node.op_type) == (DOMAIN, PLACEHOLDER))
    node = nodes[index]
    (iterations,) = (attribute.i for attribute in node.attribute if attribute.name == "iterations")
    names = [value.name for value in step.graph.input]
    outer = dict(zip(names[CARRIED:], node.input[CARRIED:]))
    body = _renamed(step.graph, outer)
    kind = helper.make_tensor_value_info
    count, condition = kind(f"{PREFIX}count", TensorProto.INT64, []), kind(f"{PREFIX}condition", TensorProto.BOOL, [])
    still = kind(f"{PREFIX}continue", TensorProto.BOOL, [])
    body.node.append(helper.make_node("Identity", [condition.name], [still.name]))
    carried = list(body.input[:CARRIED])
    del body.input[:]
    body.input.extend([count, condition, *carried])
    results = list(body.output)
    del body.output[:]
    body.output.extend([still, *results])
    trip = helper.make_tensor("iterations", TensorProto.INT64, [], [iterations])
    model.graph.initializer.append(trip)
    loop = helper.make_node("Loop", [trip.name, "", *node.input[:CARRIED]], list(node.output), name="solve", body=body)
    nodes.remove(node)
    nodes.insert(index, loop)
    kept = [one for one in model.opset_import if one.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _renamed(graph: Any, outer: dict[str, str]) -> Any:
    """Copy `graph` with names of its own, but for values of the outer graph."""
    import onnx

    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    del copy.value_info[:]
    copy.name = "iteration"

    def rename(names: Sequence[str]) -> list[str]:
        return [outer.get(name, f"{PREFIX}{name}") if name else "" for name in names]

    for node in copy.node:
        inputs, outputs = rename(node.input), rename(node.output)
        del node.input[:], node.output[:]
        node.input.extend(inputs)
        node.output.extend(outputs)
        node.name = f"{PREFIX}{node.name}"
    for value in (*copy.input, *copy.output, *copy.initializer):
        (value.name,) = rename([value.name])
    return copy
