from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from omnidc.errors import CheckpointError, ConfigError, FileError
from omnidc.network.checkpoint import BUNDLED, load_network
from omnidc.network.compact import CompactNetwork
from omnidc.training.config import NetworkConfig, load_config
from omnidc.training.networks import build_network, export, freeze, initialize, set_iterations, set_style_noise

SMALL = {"channels": [8, 16, 16, 24, 24], "attention_blocks": 1, "heads": 2}


def test_trained_network_is_what_users_load(tmp_path: Path) -> None:
    config = NetworkConfig("compact", SMALL)
    network = build_network(config)
    assert isinstance(network, CompactNetwork)
    assert network.config.channels == (8, 16, 16, 24, 24)
    path = tmp_path / "last.safetensors"
    export(network, config, path, {"step": 7})
    loaded = load_network(path)
    for name, tensor in network.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["training"]) == {"step": 7}
    again = build_network(config)
    some = next(name for name in network.state_dict() if name.endswith("weight") and "encoder" not in name)
    initialize(again, NetworkConfig("compact", SMALL, init_checkpoint=str(path)))
    assert torch.equal(again.state_dict()[some], network.state_dict()[some])
    with pytest.raises(CheckpointError, match="another network"):
        initialize(
            build_network(NetworkConfig("compact", {**SMALL, "resolutions": 2})),
            NetworkConfig(init_checkpoint=str(path)),
        )
    with pytest.raises(CheckpointError, match=r"--set network\.options\.slope=0\.1"):
        initialize(
            build_network(NetworkConfig("compact", {**SMALL, "slope": 0.0})), NetworkConfig(init_checkpoint=str(path))
        )


def test_preset_compact_can_start_from_the_shipped_weights() -> None:
    # as docs/training.md shows it
    settings = ["schedule.steps=1", "network.init_checkpoint=compact"]
    config = load_config("compact", None, settings).network
    network = build_network(config)
    initialize(network, config)
    shipped = load_network(BUNDLED["compact"]).state_dict()
    assert all(torch.equal(tensor, shipped[name]) for name, tensor in network.state_dict().items())


def test_wrong_encoder_files_are_refused(tmp_path: Path) -> None:
    network = build_network(NetworkConfig("compact", SMALL))
    with pytest.raises(FileError, match=r"none\.pth"):
        initialize(network, NetworkConfig(encoder=str(tmp_path / "none.pth")))
    (tmp_path / "some.pth").write_bytes(b"something")
    with pytest.raises(CheckpointError, match="encoder_sha256"):
        initialize(network, NetworkConfig(encoder=str(tmp_path / "some.pth"), encoder_sha256="0" * 64))
    tiny = NetworkConfig("tiny:TinyNetwork", encoder=str(tmp_path / "some.pth"))
    with pytest.raises(ConfigError, match="no encoder"):
        initialize(build_network(tiny), tiny)


def test_networks_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="choose one of compact, paper"):
        build_network(NetworkConfig("nothing"))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        build_network(NetworkConfig("no_such_module:Net"))
    with pytest.raises(ConfigError, match="no DepthNetwork"):
        build_network(NetworkConfig("torch.nn:Identity"))


def test_freeze_keeps_parameters_and_refuses_unknown() -> None:
    network = build_network(NetworkConfig("compact", SMALL))
    freeze(network, ["trunk.encoder.stem", "trunk.encoder.blocks.0."])
    still = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    assert still
    assert all(name.startswith(("trunk.encoder.stem", "trunk.encoder.blocks.0.")) for name in still)
    with pytest.raises(ConfigError, match="no parameter that begins with 'nothing'"):
        freeze(network, ["nothing"])


def test_iterations_of_a_phase_leave_the_network_of_users_alone() -> None:
    network, original = (build_network(NetworkConfig("compact", SMALL)) for _ in range(2))
    set_iterations(network, 3, original)
    assert (network.config.iterations, original.config.iterations) == (3, 16)
    set_iterations(network, 0, original)
    assert network.config.iterations == 16
    tiny = build_network(NetworkConfig("tiny:TinyNetwork"))
    with pytest.raises(ConfigError, match=r"network\.iterations"):
        set_iterations(tiny, 3, tiny)


def test_style_noise_needs_the_encoder_of_the_compact_network() -> None:
    network = build_network(NetworkConfig("compact", SMALL))
    set_style_noise(network, 0.4)
    assert network.encoder.style_noise == 0.4
    tiny = build_network(NetworkConfig("tiny:TinyNetwork"))
    set_style_noise(tiny, 0.0)
    with pytest.raises(ConfigError, match=r"network\.style_noise"):
        set_style_noise(tiny, 0.4)
