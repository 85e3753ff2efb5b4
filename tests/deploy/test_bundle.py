"""A model that shares the weights of its checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import omnidc
from omnidc.deploy import loading
from omnidc.deploy.bundle import write_bundled
from omnidc.deploy.runtime import OnnxCompleter
from omnidc.errors import FileError
from omnidc.network.checkpoint import BUNDLED, save_network
from omnidc.network.compact import CompactConfig, CompactNetwork


@pytest.mark.parametrize("stored", [torch.float32, torch.float16])
def test_bundled_model_runs_from_the_weights_of_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: torch.dtype
) -> None:
    network = CompactNetwork(CompactConfig(channels=(16, 16, 24, 24, 24), attention_blocks=1)).eval()
    weights = tmp_path / "compact.safetensors"
    save_network(network.to(stored), weights)
    path = write_bundled(weights)
    whole = sum(parameter.numel() * 4 for parameter in network.parameters())
    assert path.stat().st_size < 0.8 * whole
    monkeypatch.setattr(loading, "WEIGHTS", tmp_path)
    monkeypatch.setitem(BUNDLED, "compact", weights)
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (64, 96, 3)).astype(np.uint8)
    sparse = np.where(rng.random((64, 96)) < 0.05, rng.uniform(1, 5, (64, 96)), 0).astype(np.float32)
    completers = {runtime: omnidc.load(runtime=runtime) for runtime in ("auto", "onnx", "torch")}
    assert isinstance(completers["onnx"], OnnxCompleter)
    assert {one.name for one in completers.values()} == {"compact"}
    depths = [one.complete(image, sparse, sky="keep").depth for one in completers.values()]
    for depth in depths[:2]:
        np.testing.assert_allclose(depth, depths[2], rtol=1e-3)
    weights.rename(tmp_path / "elsewhere.safetensors")
    with pytest.raises(FileError, match=r"keeps its weights in compact\.safetensors, which is not beside it"):
        OnnxCompleter(path)


@pytest.mark.parametrize(
    ("device", "driver", "cuda", "expected"),
    [
        ("auto", "libcuda.so.1", True, True),
        ("auto", "libcuda.so.1", False, False),
        ("auto", None, True, False),  # torch, slow to import, is not even asked
        ("cpu", "libcuda.so.1", True, False),
        ("cuda:1", None, False, True),  # asked for: torch says why not
    ],
)
def test_torch_runs_the_bundled_model_where_it_finds_a_gpu(
    monkeypatch: pytest.MonkeyPatch, device: str, driver: str | None, cuda: bool, expected: bool
) -> None:
    monkeypatch.setattr(loading, "find_library", lambda name: driver if name == "cuda" else None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)
    chosen = []
    monkeypatch.setattr("omnidc.pipeline.completer.load", lambda name, device: chosen.append((name, device)))
    completer = omnidc.load(device=device)
    assert chosen == ([("compact", device)] if expected else [])
    assert isinstance(completer, OnnxCompleter) != expected
