from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from omnidc.errors import CheckpointError, ConfigError, FileError
from omnidc.network.checkpoint import BUNDLED, load_network
from omnidc.network.compact import CompactNetwork
from omnidc.network.paper.config import PaperConfig
from omnidc.network.paper.model import PaperNetwork
from omnidc.training.config import ExportConfig, NetworkConfig, load_config
from omnidc.training.networks import (
    build_network,
    check_export,
    export,
    freeze,
    initialize,
    set_iterations,
    set_style_noise,
)

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


def test_export_stores_halves_and_wider_laplace_scales(tmp_path: Path) -> None:
    config = NetworkConfig("compact", SMALL)
    network = build_network(config).eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    paths = [tmp_path / f"{name}.safetensors" for name in ("plain", "wide", "half")]
    for path, options in zip(paths, (None, ExportConfig(laplace_factor=1.5), ExportConfig(half=True))):
        export(network, config, path, {}, options)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    image = torch.rand(1, 3, 64, 96)
    sparse = torch.where(torch.rand(1, 1, 64, 96) < 0.01, 1 + torch.rand(1, 1, 64, 96), 0.0)
    with torch.no_grad():
        plain, wide, half = (load_network(path).eval()(image, sparse) for path in paths)
    assert torch.equal(wide.depth, plain.depth)
    far = sparse[0, 0] == 0
    ratio = (wide.laplace_scale / plain.laplace_scale)[0, 0][far]
    assert 1.2 < ratio.median() <= 1.5 + 1e-4  # the part that the residuals show stays
    torch.testing.assert_close(half.depth, plain.depth, rtol=1e-2, atol=0)
    assert paths[2].stat().st_size < 0.6 * paths[0].stat().st_size


def test_export_options_of_other_networks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"export\.laplace_factor needs the compact network"):
        check_export(PaperNetwork(PaperConfig(width=0.125)), ExportConfig(laplace_factor=1.2))


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
