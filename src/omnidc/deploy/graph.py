"""Simplification of a traced ONNX graph: constants folded, fewer nodes, a name for each size.

Whatever is rewritten here is standard ONNX, so that any runtime opens the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def simplify(model: Any) -> Any:
    """Return an equal model with fewer nodes."""
    model = fold_constants(model)
    for graph in graphs(model.graph):
        constants = Constants(model, graph)
        absorb_pads(graph, constants)
        merge_slices(graph, constants)
    model = fold_constants(model)
    used = {node.domain for graph in graphs(model.graph) for node in graph.node}
    kept = [one for one in model.opset_import if one.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return model


def graphs(graph: Any) -> Iterator[Any]:
    """Yield the graph and those of its loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def fold_constants(model: Any) -> Any:
    """Compute whatever depends on no input: the tracer writes shapes as thousands of small nodes."""
    import tempfile
    from pathlib import Path

    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "folded.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # standard nodes only
        options.optimized_model_filepath = str(path)
        options.enable_mem_reuse = False  # a search that takes long while sizes have no names
        options.log_severity_level = 3
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(str(path))


class Constants:
    """Arrays that a graph may read: its own initializers and those of the model."""

    def __init__(self, model: Any, graph: Any) -> None:
        self._graph = graph
        self._tensors = {one.name: one for place in (model.graph, graph) for one in place.initializer}

    def get(self, name: str) -> Array | None:
        from onnx import numpy_helper

        tensor = self._tensors.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def add(self, name: str, values: Sequence[int]) -> str:
        from onnx import numpy_helper

        tensor = numpy_helper.from_array(np.asarray(values, np.int64), name)
        self._graph.initializer.append(tensor)
        self._tensors[name] = tensor
        return name


def absorb_pads(graph: Any, constants: Constants) -> None:
    """Pad of zeros → Conv becomes the convolution's own padding."""
    makers = {name: node for node in graph.node for name in node.output}
    users = Counter(name for node in graph.node for name in node.input)
    for conv in graph.node:
        pad = makers.get(conv.input[0]) if conv.op_type == "Conv" else None
        if pad is None or pad.op_type != "Pad" or users[pad.output[0]] > 1:
            continue
        widths = constants.get(pad.input[1])
        fill = constants.get(pad.input[2]) if len(pad.input) > 2 and pad.input[2] else np.zeros(1)
        modes = [attribute.s for attribute in pad.attribute if attribute.name == "mode"]
        if widths is None or fill is None or fill.any() or modes not in ([], [b"constant"]) or len(widths) != 8:
            continue
        if widths.min() < 0 or widths[[0, 1, 4, 5]].any() or len(pad.input) > 3:
            continue
        own = [attribute for attribute in conv.attribute if attribute.name == "pads"]
        before = list(own[0].ints) if own else [0, 0, 0, 0]
        for attribute in own:
            conv.attribute.remove(attribute)
        from onnx import helper

        total = [int(a + b) for a, b in zip(before, widths[[2, 3, 6, 7]])]
        conv.attribute.append(helper.make_attribute("pads", total))
        conv.input[0] = pad.input[0]
        graph.node.remove(pad)


def merge_slices(graph: Any, constants: Constants) -> None:
    """Slice → Slice along other axes becomes one: each is a copy."""
    from onnx import helper

    makers = {name: node for node in graph.node for name in node.output}
    users = Counter(name for node in graph.node for name in node.input)
    merged: dict[tuple[str, ...], str] = {}
    for node in list(graph.node):
        inner = makers.get(node.input[0]) if node.op_type == "Slice" else None
        if inner is None or inner.op_type != "Slice" or users[inner.output[0]] > 1:
            continue
        if any(len(one.input) < 4 or constants.get(one.input[3]) is None for one in (inner, node)):
            continue
        axes = [int(axis) for one in (inner, node) for axis in constants.get(one.input[3])]  # type: ignore[union-attr]
        if len(set(axes)) < len(axes) or min(axes) < 0:
            continue
        index = list(graph.node).index(node)
        inputs = [inner.input[0]]
        for place in range(1, 5):
            pair = tuple(one.input[place] if len(one.input) > place else "" for one in (inner, node))
            if place == 4 and not any(pair):
                continue
            if pair not in merged:
                values = [[1] if not name else constants.get(name) for name in pair]
                name = f"merged/{node.output[0]}/{place}"
                if all(value is not None for value in values):
                    constants.add(name, np.concatenate(values).tolist())  # type: ignore[arg-type]
                else:
                    graph.node.insert(index, helper.make_node("Concat", pair, [name], name=name, axis=0))
                merged[pair] = name
            inputs.append(merged[pair])
        del node.input[:]
        node.input.extend(inputs)
        graph.node.remove(inner)


def make_optional(model: Any, outputs: Sequence[str], flag: str) -> None:
    """Move what only `outputs` need into a branch, in place; the input `flag` (true unless given) chooses it.

    Where the flag is false these outputs are empty, and nothing of the branch is computed.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    kept = _needed(graph, [value.name for value in graph.output if value.name not in outputs])
    moved = [node for node in graph.node if not kept.intersection(node.output)]
    inner = {name: f"{flag}/{name}" for name in outputs}
    for node in moved:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
    empty = numpy_helper.from_array(np.zeros((0, 0, 0, 0), np.float32))
    nothing = [helper.make_node("Constant", [], [f"no {name}"], value=empty) for name in inner.values()]

    def branch(label: str, nodes: Sequence[Any], names: Sequence[str]) -> Any:
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
        return helper.make_graph(nodes, label, [], results)

    branches = {
        "then_branch": branch("whole", moved, list(inner.values())),
        "else_branch": branch("nothing", nothing, [f"no {name}" for name in inner.values()]),
    }
    for node in moved:
        graph.node.remove(node)
    graph.node.append(helper.make_node("If", [flag], list(outputs), name=flag, **branches))
    graph.input.append(helper.make_tensor_value_info(flag, TensorProto.BOOL, []))
    graph.initializer.append(helper.make_tensor(flag, TensorProto.BOOL, [], [True]))


def _needed(graph: Any, outputs: Sequence[str]) -> set[str]:
    """Return all values that `outputs` depend on, and they themselves; loops read values of the graph, too."""
    makers = {name: node for node in graph.node for name in node.output}
    found: set[str] = set()
    open_names = list(outputs)
    while open_names:
        name = open_names.pop()
        if name in found:
            continue
        found.add(name)
        if name in makers:
            node = makers[name]
            open_names += node.input
            inner = [one for attribute in node.attribute if attribute.HasField("g") for one in graphs(attribute.g)]
            open_names += [used for one in inner for part in one.node for used in part.input]
    return found


def name_sizes(model: Any, inputs: Sequence[dict[str, Array]]) -> None:
    """Give every value its shape, in place; sizes that agree for all `inputs` get one name.

    onnxruntime shares memory among values of equal shape. Where shapes are unknown, it compares every value with all
    before it, which took most of the time to open a model. A wrong guess ends in an error of onnxruntime, never in
    wrong values; inputs of several sizes, beyond those at which something is padded, make it impossible.
    """
    import onnx
    import onnxruntime
    from onnx import helper

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    outputs = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in outputs]
    probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    runs = [session.run(names, one) for one in inputs]
    sizes: dict[tuple[int, ...], str] = {}

    def size(values: tuple[int, ...]) -> int | str:
        return values[0] if len(set(values)) == 1 else sizes.setdefault(values, f"size{len(sizes)}")

    del model.graph.value_info[:]
    for name, *arrays in zip(names, *runs):
        kind = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
        shape = [size(values) for values in zip(*(array.shape for array in arrays))]
        model.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))
