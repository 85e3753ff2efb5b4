from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import torch

import omnidc
from omnidc.deploy.bands import SolvedMaps
from omnidc.deploy.model_info import OUTPUTS, ModelInfo
from omnidc.deploy.onnx import export_network, export_onnx
from omnidc.deploy.runtime import OnnxCompleter, pass_through
from omnidc.errors import CheckpointError, ConfigError, FileError
from omnidc.network.compact import CompactConfig, CompactNetwork
from standin import DIVISOR, StandIn

SIZES = [(96, 128), (64, 48), (61, 77), (33, 200), (9, 17)]


def view(height: int, width: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
    sparse = np.where(rng.random((height, width)) < 0.05, rng.uniform(1, 5, (height, width)), 0).astype(np.float32)
    return image, sparse


def in_torch(image: np.ndarray, sparse: np.ndarray) -> list[np.ndarray]:
    """The stand-in with the padding that the contract asks for."""
    height, width = sparse.shape
    pad = tuple((0, max(side + -side % DIVISOR, 2 * DIVISOR) - side) for side in (height, width))
    picture = torch.from_numpy(np.pad(image, (*pad, (0, 0)), mode="edge")).permute(2, 0, 1)[None].float() / 255
    with torch.inference_mode():
        outputs = StandIn().eval()(picture, torch.from_numpy(np.pad(sparse, pad))[None, None])
    return [output.numpy()[0, 0, :height, :width] if output.ndim == 4 else output.numpy()[0] for output in outputs]


def assert_equals_torch(path: Path) -> None:
    completer = OnnxCompleter(path)
    for size in SIZES:
        image, sparse = view(*size)
        maps = completer.run(image, sparse)
        for name, expected in zip(OUTPUTS, in_torch(image, sparse)):
            assert np.allclose(getattr(maps, name), expected, rtol=1e-4, atol=1e-6), (name, size)


def test_export_equals_torch_at_any_size(model: Path) -> None:
    assert_equals_torch(model)


def test_fixed_size_model_takes_larger_and_smaller_images(tmp_path: Path) -> None:
    path = tmp_path / "fixed.onnx"
    export_onnx(StandIn(), path, ModelInfo("stand-in", DIVISOR), size=(64, 96))
    completer = OnnxCompleter(path)
    assert completer.fixed_size == (64, 96)
    for size in [(64, 96), (30, 40), (128, 150)]:
        assert completer.complete(*view(*size)).depth.shape == size


def test_batch_axis_is_dynamic(model: Path) -> None:
    session = OnnxCompleter(model).session
    pictures = np.random.default_rng(0).random((3, 3, 32, 40), np.float32)
    depth = session.run(["depth"], {"image": pictures, "sparse": np.ones((3, 1, 32, 40), np.float32)})[0]
    assert depth.shape == (3, 1, 32, 40)


def test_load_onnx_file_completes_a_view(model: Path) -> None:
    completer = omnidc.load(model)
    image, sparse = view(60, 80)
    result = completer.complete(image, sparse, (70, 70, 40, 30))
    assert result.depth.shape == (60, 80)
    assert (result.depth[result.sky < 0.5] > 0).all()
    assert result.uncertainty is not None
    assert np.isnan(result.input_confidence[sparse == 0]).all()
    assert np.allclose(result.input_confidence[sparse > 0], 0.9)
    assert result.sky is not None
    assert len(result.points()[0]) > 0


def test_scaled_measurements_scale_the_depth(model: Path) -> None:
    completer = OnnxCompleter(model)
    image, sparse = view(60, 80)
    once, thousand = completer.complete(image, sparse), completer.complete(image, 1000 * sparse)
    assert np.allclose(1000 * once.depth, thousand.depth, rtol=1e-4)


def test_large_image_is_computed_small_and_returned_large(model: Path) -> None:
    image, sparse = view(300, 400)
    result = OnnxCompleter(model).complete(image, sparse)
    assert result.depth.shape == (300, 400)
    assert (result.details.computed_width, result.details.computed_height) == (200, 150)


def test_no_measurements_give_relative_depth(model: Path) -> None:
    image, _ = view(40, 48)
    result = OnnxCompleter(model).complete(image, None)
    assert result.relative
    assert np.isfinite(result.depth).all()


def test_options_of_the_completer_are_kept(model: Path) -> None:
    completer = OnnxCompleter(model)
    image, sparse = view(60, 80)
    mask = np.ones((60, 80), bool)
    mask[:10] = False
    result = completer.complete(image, sparse, keep_input="hard", mask=mask, sky="keep")
    measured = result.sparse > 0
    assert np.array_equal(result.depth[measured], result.sparse[measured])
    assert (result.depth[:10] == 0).all()
    assert completer.complete(image, sparse, clip_depth=2.0).depth.max() <= 2.0
    assert (completer.complete(image, sparse, max_uncertainty=0.075).depth == 0).any()


def test_error_of_onnxruntime_becomes_a_sentence(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def run(self, *arguments: object) -> None:
            raise RuntimeError("out of\nmemory")

    completer = OnnxCompleter(model)
    monkeypatch.setattr(completer, "session", Broken())
    with pytest.raises(CheckpointError, match=r"cannot run at 64x80 \(out of memory\)"):
        completer.complete(*view(60, 80))


def test_pass_through_changes_nothing_far_away() -> None:
    depth = np.full((60, 60), 2.0, np.float32)
    sparse = np.zeros_like(depth)
    sparse[30, 30] = 3.0
    result = pass_through(depth, sparse)
    assert result[30, 30] == 3.0
    assert 2.0 < result[30, 32] < 3.0
    assert np.allclose(result[:, :15], 2.0)


def test_service_answers_with_an_onnx_model(model: Path) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    from omnidc.web.app import create_app
    from omnidc.web.settings import Settings

    room = Path(omnidc.__file__).parent / "examples" / "room"
    files = {"image": Path(f"{room}.jpg").read_bytes(), "sparse": Path(f"{room}_sparse.npz").read_bytes()}
    named = {name: (f"{name}{suffix}", files[name]) for name, suffix in (("image", ".jpg"), ("sparse", ".npz"))}
    with testclient.TestClient(create_app(OnnxCompleter(model), Settings()), base_url="http://localhost") as client:
        answer = client.post("/v1/complete", files=named)
    assert answer.status_code == 200
    assert np.load(io.BytesIO(answer.content)).shape == (240, 320)


def test_foreign_and_damaged_files_are_refused(model: Path, tmp_path: Path) -> None:
    import onnx

    foreign = onnx.load(str(model))
    del foreign.metadata_props[:]
    onnx.save(foreign, str(tmp_path / "foreign.onnx"))
    with pytest.raises(CheckpointError, match="not exported by omnidc"):
        OnnxCompleter(tmp_path / "foreign.onnx")
    (tmp_path / "half.onnx").write_bytes(model.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="not a readable ONNX model"):
        OnnxCompleter(tmp_path / "half.onnx")
    with pytest.raises(FileError, match="no model at"):
        OnnxCompleter(tmp_path / "none.onnx")
    with pytest.raises(ConfigError, match="cannot be used with this onnxruntime"):
        OnnxCompleter(model, "tpu")


def test_export_refuses_sizes_that_do_not_divide(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="multiples of 8"):
        export_onnx(StandIn(), tmp_path / "a.onnx", ModelInfo("x", DIVISOR), size=(30, 40))
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="no form that exports"):
        export_network(StandIn(), tmp_path / "a.onnx")


def test_runtime_that_does_not_fit_the_file_is_refused(model: Path) -> None:
    with pytest.raises(ConfigError, match="leave out --runtime torch"):
        omnidc.load(model, runtime="torch")
    with pytest.raises(ConfigError, match="export it first"):
        omnidc.load("interpolate", runtime="onnx")
    with pytest.raises(ConfigError, match="The runtime is"):
        omnidc.load(model, runtime="magic")  # type: ignore[arg-type]


def test_metadata_survives_the_file(model: Path) -> None:
    info = OnnxCompleter(model).info
    assert info == ModelInfo("stand-in", DIVISOR, max_side=200, license="Apache-2.0")


SHAPES = [(1, 64, 96), (1, 121, 163), (2, 96, 256), (3, 240, 70), (1, 256, 320), (1, 64, 550), (1, 9, 17)]


def test_exported_compact_network_equals_torch(tmp_path: Path) -> None:
    """One test, since the export takes most of its time."""
    torch.manual_seed(0)
    network = CompactNetwork(CompactConfig(channels=(16, 16, 24, 24, 24), attention_blocks=1, max_side=150)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter) if parameter.ndim > 1 else 0)
    report = export_network(network, tmp_path / "compact.onnx", iterations=8)
    assert report.nodes < 7000
    completer = OnnxCompleter(report.path)
    for batch, height, width in SHAPES:
        image, measured = torch.rand(batch, 3, height, width), torch.rand(batch, 1, height, width) < 0.02
        measured[..., 4, 4] = True  # few pixels may have no measurement at all
        assert_equals_network(network, completer, image, measured * (1 + torch.rand(batch, 1, height, width)))
    assert_equals_network(network, completer, torch.rand(1, 3, 64, 96), torch.zeros(1, 1, 64, 96))
    # Without measurements, and the coarsest grid is one cell: any scale is right, but there must be one.
    tiny = {"image": np.zeros((1, 3, 9, 17), np.float32), "sparse": np.zeros((1, 1, 9, 17), np.float32)}
    assert np.isfinite(completer.session.run(["depth"], tiny)[0]).all()
    relative = completer.complete(view(70, 90)[0], None)
    assert relative.relative
    assert np.isfinite(relative.depth).all()
    for size in [(61, 95), (150, 120), (401, 290)]:  # the last: three bands of another size than the working size
        assert_completes_as_torch(network, completer, *view(*size))
    assert_one_loop(report.path, iterations=8)


def assert_completes_as_torch(
    network: CompactNetwork, completer: OnnxCompleter, image: np.ndarray, sparse: np.ndarray
) -> None:
    in_torch = omnidc.DepthCompleter(network)
    for keep_input in ("soft", "hard"):
        ours, theirs = (
            one.complete(image, sparse, keep_input=keep_input, sky="keep")  # type: ignore[arg-type]
            for one in (completer, in_torch)
        )
        assert ours.details.computed_height == theirs.details.computed_height
        assert (np.abs(ours.depth / theirs.depth - 1) < 1e-3).mean() > 0.999
        assert (np.abs(ours.uncertainty / theirs.uncertainty - 1) < 1e-3).mean() > 0.999
        np.testing.assert_allclose(ours.sky, theirs.sky, atol=1e-3)
        np.testing.assert_allclose(ours.input_confidence, theirs.input_confidence, atol=1e-3)


def assert_equals_network(
    network: CompactNetwork, completer: OnnxCompleter, image: torch.Tensor, sparse: torch.Tensor
) -> None:
    with torch.inference_mode():
        expected = network(image, sparse)
    got = completer.session.run(list(OUTPUTS), {"image": image.numpy(), "sparse": sparse.numpy()})
    assert expected.laplace_scale is not None
    for ours, theirs in ((got[0], expected.depth), (got[1], expected.laplace_scale)):
        assert (np.abs(ours / theirs.numpy() - 1) < 1e-3).mean() >= 0.999
    assert np.allclose(got[2], expected.fields.confidence.numpy(), atol=1e-4)
    assert got[4].max() < 1e-4


def assert_one_loop(path: Path, iterations: int) -> None:
    """The solver is one loop of standard nodes, and every value has a shape."""
    import onnx

    graph = onnx.load(str(path)).graph
    (loop,) = [node for node in graph.node if node.op_type == "Loop"]
    (count,) = [tensor for tensor in graph.initializer if tensor.name == loop.input[0]]
    assert onnx.numpy_helper.to_array(count) == iterations
    assert {node.domain for node in graph.node} == {""}
    named = {value.name for value in graph.value_info}
    assert {name for node in graph.node for name in node.output if name} - named == {*OUTPUTS, *SolvedMaps.names()}
    (branch,) = [node for node in graph.node if node.op_type == "If"]  # stage 4, which bands replace
    assert {*branch.output} == {*OUTPUTS} - {"residual"}
