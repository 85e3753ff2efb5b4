from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime
import torch
import torch.nn.functional as F
from onnx import ModelProto, TensorProto, helper, numpy_helper

from omnidc.deploy.graph import name_sizes, simplify
from omnidc.deploy.loop import trace
from omnidc.deploy.short_forms import ShortForms


def make_model(nodes: list[object], constants: dict[str, np.ndarray], output: str) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 2, "h", "w"])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(model: ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).random((1, 2, 7, 9), np.float32)


@pytest.mark.parametrize(
    ("pads", "fill", "kinds"),
    [
        ([0, 0, 1, 2, 0, 0, 0, 1], 0.0, {"Conv"}),
        ([0, 0, 1, 2, 0, 0, 0, 1], 1.0, {"Pad", "Conv"}),
        ([0, 0, -1, 2, 0, 0, 0, 1], 0.0, {"Pad", "Conv"}),
    ],
)
def test_pad_of_zeros_becomes_padding_of_conv(x: np.ndarray, pads: list[int], fill: float, kinds: set[str]) -> None:
    nodes = [
        helper.make_node("Pad", ["x", "pads", "fill"], ["padded"]),
        helper.make_node("Conv", ["padded", "kernel"], ["y"], pads=[1, 0, 0, 1]),
    ]
    kernel = np.random.default_rng(1).random((3, 2, 3, 3), np.float32)
    model = make_model(nodes, {"pads": np.array(pads), "fill": np.float32(fill), "kernel": kernel}, "y")
    short = simplify(model)
    assert {node.op_type for node in short.graph.node} == kinds
    assert np.array_equal(run(model, x), run(short, x))


def test_slices_of_two_axes_become_one(x: np.ndarray) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "two"], ["height"], axis=0),
        helper.make_node("Sub", ["height", "one"], ["end"]),
        helper.make_node("Slice", ["x", "one", "end", "two"], ["rows"]),
        helper.make_node("Slice", ["rows", "two", "far", "three", "two"], ["y"]),
    ]
    constants = {"one": np.array([1]), "two": np.array([2]), "three": np.array([3]), "far": np.array([2**31])}
    model = make_model(nodes, constants, "y")
    short = simplify(model)
    assert sum(node.op_type == "Slice" for node in short.graph.node) == 1
    assert np.array_equal(run(short, x), x[:, :, 1:-1, 2::2])


def test_equal_sizes_get_one_name(x: np.ndarray) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Transpose", ["r"], ["t"], perm=[0, 1, 3, 2])]
    model = make_model([*nodes, helper.make_node("Neg", ["t"], ["y"])], {}, "y")
    name_sizes(model, [{"x": x}, {"x": np.concatenate([x, x], 2)}])
    shapes = [[dim.dim_param or dim.dim_value for dim in v.type.tensor_type.shape.dim] for v in model.graph.value_info]
    assert shapes[0][:2] == [1, 2]
    assert shapes[0][2:] == shapes[1][:1:-1]
    assert shapes[0][2] != shapes[0][3]
    assert np.array_equal(run(model, x), -np.maximum(x, 0).swapaxes(2, 3))


def test_short_forms_equal_those_of_torch() -> None:
    x = torch.randn(2, 6, 5, 4)
    weight = torch.rand(2, 6, 5, 4)

    def values() -> list[torch.Tensor]:
        slices = [x[..., :5, 1:3], x[:, 0:6], x[:, ::2], x[..., 1:, :], x[:, 2], x[..., None], x[1]]
        product = torch.baddbmm(weight[0, :, :, :1], x[0], x[0].mT)
        shuffled = [F.pixel_shuffle(weight[:, :4], 2), F.pixel_unshuffle(weight[..., :4, :], 2)]
        curves = [x.softmax(dim=1), torch.sigmoid(100 * x), torch.lerp(x, -x, weight)]
        return [*x.chunk(3, dim=1), *curves, *slices, product, *shuffled]

    expected = values()
    with ShortForms():
        got = values()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, expected, strict=True))


def test_small_weights_keep_their_digits_in_onnxruntime() -> None:
    """Sigmoid of onnxruntime is 7 % off at -14 and 0 at -18; weights of measurements with low confidence lie there."""

    class Weight(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x) + x.sigmoid()

    x = torch.linspace(-40, 40, 2 * 7 * 9).reshape(1, 2, 7, 9)
    with ShortForms():
        model = trace(Weight(), (x,), ["x"], ["y"], {"x": {0: "b"}, "y": {0: "b"}})
    np.testing.assert_allclose(run(simplify(model), x.numpy()), 2 * torch.sigmoid(x).numpy(), rtol=1e-5)
