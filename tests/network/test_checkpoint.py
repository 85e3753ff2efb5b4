from __future__ import annotations

import argparse
import json
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from typer.testing import CliRunner

from omnidc.errors import CheckpointError, FileError
from omnidc.network import checkpoint
from omnidc.network.checkpoint import load_network, save_network
from omnidc.network.compact import CompactConfig, CompactNetwork
from omnidc.network.paper.config import PRESETS, PaperConfig
from omnidc.network.paper.model import PaperNetwork

Build = Callable[[PaperConfig], PaperNetwork]
SMALL = {"backbone.conv1_dep.0.weight": torch.zeros(16, 1, 3, 3)}


@pytest.fixture(scope="module")
def weights(formula_network: Build) -> dict[str, Tensor]:
    """An as-trained v1.0 state dict: with the Laplace head."""
    return formula_network(PRESETS["paper-v1.0-as-trained"]).state_dict()


@pytest.fixture(scope="module")
def released_pt(weights: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the authors' training script writes."""
    path = tmp_path_factory.mktemp("released") / "model_best_72epochs.pt"
    args = argparse.Namespace(GRU_iters=1, spn_type="dyspn", prop_time=6, integration_alpha=4.5, whiten_sparse_depths=1)
    scheduler = {"milestones": Counter({36: 1, 48: 1}), "last_epoch": 72}
    torch.save({"epoch": 72, "net": weights, "args": args, "scheduler": scheduler, "optimizer": {}}, path)
    return path


def test_the_authors_checkpoint_loads_and_converts(
    released_pt: Path, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    network = load_network(released_pt)
    assert isinstance(network, PaperNetwork)
    assert network.config == replace(PRESETS["paper-v1.0"], laplace=True, alpha=4.5)
    assert not network.training

    from omnidc.cli import app

    out = tmp_path / "ours.safetensors"
    result = CliRunner().invoke(app, ["convert", str(released_pt), "-o", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "85.4" in result.output
    again = load_network(out)
    assert again.config == network.config
    state = again.state_dict()
    assert list(state) == list(weights)
    assert all(torch.equal(state[name], tensor) for name, tensor in weights.items())


def test_the_hugging_face_file_of_v11_loads_without_its_prior(weights: dict[str, Tensor], tmp_path: Path) -> None:
    tensors = {**weights, "backbone.conv1_dep.0.weight": torch.zeros(16, 2, 3, 3)}
    tensors["depth_module.pretrained.cls_token"] = torch.zeros(1, 1, 1024)
    save_file(tensors, tmp_path / "model.safetensors")
    network = load_network(tmp_path / "model.safetensors")
    assert isinstance(network, PaperNetwork)
    assert network.config == replace(PRESETS["paper-v1.1"], laplace=True)
    assert network.prior is not None
    assert not any(name.startswith("depth_module") for name in network.state_dict())


def test_the_compact_network_comes_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = CompactNetwork(CompactConfig(channels=(8, 8, 12, 18, 24), resolutions=2)).eval()
    save_network(network, tmp_path / "compact.safetensors")
    monkeypatch.setitem(checkpoint.BUNDLED, "compact", tmp_path / "compact.safetensors")
    again = load_network("compact")
    assert again.config == network.config
    image, sparse = torch.rand(1, 3, 32, 32), torch.rand(1, 1, 32, 32)
    with torch.no_grad():
        assert torch.equal(again(image, sparse).depth, network(image, sparse).depth)
        assert all(not tensor.is_meta for tensor in (*again.parameters(), *again.buffers()))


def test_missing_unknown_and_misshapen_tensors_are_listed(weights: dict[str, Tensor], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    less = {name: tensor for name, tensor in weights.items() if not name.startswith("update_block.mask.2")}
    save_file(less, path)
    with pytest.raises(CheckpointError, match=r"lacks 2 \(update_block.mask.2.weight, update_block.mask.2.bias\)"):
        load_network(path)
    save_file({**weights, "extra.weight": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match=r"1 unknown ones \(extra.weight\)"):
        load_network(path)
    save_file({**weights, "backbone.cf_dec0.bias": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match=r"backbone.cf_dec0.bias \[2\] instead of \[1\]"):
        load_network(path)


def test_truncated_files_are_called_damaged(released_pt: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pt"
    path.write_bytes(released_pt.read_bytes()[:1_000_000])
    with pytest.raises(CheckpointError, match="damaged, truncated"):
        load_network(path)
    save_file(SMALL, tmp_path / "whole.safetensors")
    path = tmp_path / "cut.safetensors"
    path.write_bytes((tmp_path / "whole.safetensors").read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged, truncated"):
        load_network(path)
    for content in (b"", b"<!doctype html>", pickle.dumps({"net": {}})):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="not a safetensors file or PyTorch checkpoint"):
            load_network(path)


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("code of the file ran",)


def test_pickled_code_is_never_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"net": SMALL, "args": Malicious()}, tmp_path / "bad.pt")
    with pytest.raises(CheckpointError, match="not safe to open"):
        load_network(tmp_path / "bad.pt")
    assert "ran" not in capsys.readouterr().out


def test_other_models_are_recognized(tmp_path: Path) -> None:
    path = tmp_path / "other"
    torch.save({"state_dict": SMALL}, path)
    with pytest.raises(CheckpointError, match="no table of weights called 'net'"):
        load_network(path)
    torch.save({"net": {"conv.weight": torch.zeros(3)}}, path)
    with pytest.raises(CheckpointError, match="another network"):
        load_network(path)
    torch.save({"net": SMALL, "args": argparse.Namespace(spn_type="nlspn")}, path)
    with pytest.raises(CheckpointError, match="spn_type='nlspn'"):
        load_network(path)
    for config in ({"architecture": "tomorrow"}, {"architecture": "paper", "magic": 1}, {"no": 1}):
        save_file(SMALL, path, {"omnidc": "1", "config": json.dumps(config)})
        with pytest.raises(CheckpointError, match="update omnidc"):
            load_network(path)


def test_model_of_version_01_is_refused_in_a_sentence(tmp_path: Path) -> None:
    config = {"architecture": "compact", "channels": [24, 48, 96, 144, 192], "resolutions": 4, "xtol": 3e-4}
    save_file(SMALL, tmp_path / "old.safetensors", {"omnidc": "1", "config": json.dumps(config)})
    with pytest.raises(CheckpointError, match=r"old\.safetensors is a model of omnidc 0\.1,.*bundled model.*\.$"):
        load_network(tmp_path / "old.safetensors")


@pytest.mark.parametrize(
    "wrong",
    [
        {"channels": ["a"] * 5},
        {"channels": [8, 8]},
        {"channels": [0] * 5},
        {"channels": [8 * 10**9] * 5},
        {"channels": [8 * 10**30] * 5},
        {"heads": 0},
        {"heads": 5},
        {"attention_blocks": 1.5},
        {"attention_blocks": 10**6},  # would take half an hour to build
        {"architecture": []},
    ],
    ids=str,
)
def test_impossible_networks_are_refused_before_they_are_built(tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = tmp_path / "weights.safetensors"
    config = {**CompactConfig(channels=(8,) * 5, heads=2).to_dict(), **wrong}
    save_file(SMALL, path, {"omnidc": "1", "config": json.dumps(config)})
    with pytest.raises(CheckpointError, match="update omnidc") as caught:
        load_network(path)
    assert "\n" not in str(caught.value)


def test_a_value_that_fails_when_the_network_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    for wrong in ({"max_side": "9"}, {"half_steps": 10**9}, {"iterations": 0}):
        config = {**CompactConfig(channels=(8,) * 5, heads=2).to_dict(), **wrong}
        save_file(SMALL, path, {"omnidc": "1", "config": json.dumps(config)})
        with pytest.raises(CheckpointError, match="update omnidc"):
            load_network(path)


def test_a_missing_file_and_a_missing_bundled_model_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint .*nowhere.pt"):
        load_network(tmp_path / "nowhere.pt")
    monkeypatch.setitem(checkpoint.BUNDLED, "compact", tmp_path / "compact.safetensors")
    with pytest.raises(CheckpointError, match="'compact' is missing from this installation"):
        load_network("compact")


def test_save_keeps_metadata_or_writes_nothing(tmp_path: Path) -> None:
    class Tiny(torch.nn.Module):
        config = PaperConfig()

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

    save_network(Tiny(), tmp_path / "deep" / "x.safetensors", {"trained on": "rooms"})  # type: ignore[arg-type]
    tensors, metadata, _ = checkpoint.read(tmp_path / "deep" / "x.safetensors")
    assert metadata["trained on"] == "rooms"
    assert PaperConfig(**json.loads(metadata["config"])) == PaperConfig()
    assert torch.equal(tensors["weight"], torch.ones(3))
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileError, match="Cannot write"):
        save_network(Tiny(), tmp_path / "file" / "x.safetensors")  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "file"]


def test_convert_writes_only_safetensors(tmp_path: Path) -> None:
    from omnidc.cli import app
    from omnidc.errors import ConfigError

    with pytest.raises(ConfigError, match=r"\.safetensors"):
        CliRunner().invoke(app, ["convert", "x.pt", "-o", str(tmp_path / "y.pt")], catch_exceptions=False)
