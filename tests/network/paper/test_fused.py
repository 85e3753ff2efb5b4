from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from omnidc.errors import ConfigError
from omnidc.network.checkpoint import save_network
from omnidc.network.paper import fused
from omnidc.network.paper.config import PaperConfig
from omnidc.network.paper.model import PaperNetwork

Build = Callable[[PaperConfig], PaperNetwork]
OWN = PaperConfig(released=False, tolerance=1e-12)


@pytest.mark.parametrize(
    "config",
    [
        OWN,
        replace(OWN, released=True, laplace=False),
        replace(OWN, spn_steps=0),
        replace(OWN, spn_steps=0, laplace=False),
    ],
    ids=["own", "released", "no-spn", "no-full-resolution-heads"],
)
def test_optimized_network_gives_the_same_numbers(
    formula_network: Build, config: PaperConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "STRIP_BYTES", 1)  # the shortest strips, so that this small image has several
    monkeypatch.setattr(fused, "TOKENS", 100)
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(2, 3, 64, 32, generator=generator, dtype=torch.float64)
    sparse = torch.rand(2, 1, 64, 32, generator=generator, dtype=torch.float64) + 1
    sparse *= torch.rand(sparse.shape, generator=generator) < 0.05
    network = formula_network(config).double()
    expected = network(image, sparse)
    network.for_inference()
    found = network(image, sparse)
    for name in ("depth", "depth_init", "log_depth", "laplace_scale"):
        if getattr(expected, name) is not None:
            torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)


def test_remembered_constants_follow_the_size(formula_network: Build) -> None:
    network = formula_network(PaperConfig())
    plain = {size: network.update_block.encode_zero(*size) for size in ((8, 8), (16, 8))}
    network.update_block.cache = True
    for size in ((8, 8), (16, 8), (8, 8), (8, 8)):
        assert torch.equal(network.update_block.encode_zero(*size), plain[size])


def test_an_optimized_network_cannot_be_saved(formula_network: Build, tmp_path: object) -> None:
    network = formula_network(PaperConfig(spn_steps=0)).for_inference()
    with pytest.raises(ConfigError, match="before calling for_inference"):
        save_network(network, f"{tmp_path}/x.safetensors")
