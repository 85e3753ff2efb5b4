from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from omnidc.errors import ConfigError
from omnidc.network.compact import CompactNetwork
from omnidc.training.config import OptimizerConfig, load_config
from omnidc.training.muon import MuonAdamW, orthogonalize
from omnidc.training.networks import build_network
from omnidc.training.optimizer import load_optimizer, make_optimizer

MUON = OptimizerConfig(muon=["trunk.up", "trunk.bottleneck", "gradient_heads."], muon_lr=3.0, decay_all=False)


@pytest.mark.parametrize("shape", [(16, 16), (24, 150), (150, 24)])
def test_orthogonalize_keeps_singular_vectors_and_levels_values(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    inside = u.T @ orthogonalize(matrix) @ v.T
    torch.testing.assert_close(inside, torch.diag(inside.diagonal()), atol=1e-4, rtol=0)
    steep = values > 0.1 * values[0]  # smaller ones need more steps
    assert inside.diagonal()[steep].min() > 0.5
    assert inside.diagonal().max() < 1.3


def _layer() -> nn.Conv2d:
    torch.manual_seed(1)
    return nn.Conv2d(16, 32, 3)


def _optimizer(layer: nn.Conv2d) -> MuonAdamW:
    groups = [{"params": [layer.weight], "muon": True}, {"params": [layer.bias]}]
    return MuonAdamW(groups, lr=1e-2, weight_decay=0.0, fused=True)


def _train(layer: nn.Conv2d, optimizer: torch.optim.Optimizer, steps: range, factor: float = 1.0) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for parameter in layer.parameters():
            parameter.grad = factor * torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_muon_does_not_depend_on_the_size_of_gradients() -> None:
    results: list[Tensor] = []
    for factor in (1.0, 1000.0):
        layer = _layer()
        _train(layer, _optimizer(layer), range(3), factor)
        results.append(layer.weight.detach())
    torch.testing.assert_close(results[0], results[1])


def test_muon_moves_a_weight_as_far_as_adamw_does() -> None:
    layer = _layer()
    before = layer.weight.detach().clone()
    _train(layer, _optimizer(layer), range(1))
    moved = (layer.weight.detach() - before).square().mean().sqrt()
    assert 0.1e-2 < moved < 0.3e-2  # 0.2 of the rate


def test_other_groups_are_updated_as_by_adamw() -> None:
    layer, twin = _layer(), _layer()
    _train(layer, _optimizer(layer), range(4))
    _train(twin, torch.optim.AdamW([twin.bias], lr=1e-2, weight_decay=0.0), range(4))
    torch.testing.assert_close(layer.bias, twin.bias)


def test_a_loaded_state_goes_on_as_before() -> None:
    whole, first, second = _layer(), _layer(), _layer()
    _train(whole, _optimizer(whole), range(4))
    optimizer = _optimizer(first)
    _train(first, optimizer, range(2))
    second.load_state_dict(first.state_dict())
    later = _optimizer(second)
    load_optimizer(later, optimizer.state_dict())
    _train(second, later, range(2, 4))
    torch.testing.assert_close(second.weight, whole.weight)


def test_a_step_that_overflowed_is_left_out() -> None:
    layer, before = _layer(), _layer()
    optimizer = _optimizer(layer)
    optimizer.grad_scale, optimizer.found_inf = None, torch.ones(())  # type: ignore[attr-defined]
    _train(layer, optimizer, range(1))
    assert torch.equal(layer.weight, before.weight)


def test_make_optimizer_gives_muon_the_matrices_of_its_prefixes() -> None:
    network = CompactNetwork()
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    optimizer = make_optimizer(network, MUON)
    found = {names[id(one)] for group in optimizer.param_groups if group.get("muon") for one in group["params"]}
    assert isinstance(optimizer, MuonAdamW)
    assert {"trunk.up2.conv1.weight", "trunk.bottleneck.0.qkv.weight", "gradient_heads.0.1.weight"} <= found
    assert not found & {
        "gradient_heads.0.3.weight",  # the outputs of a head
        "trunk.bottleneck.0.position.weight",  # depth-wise
        "trunk.up2.conv1.bias",
        "trunk.down4.weight",  # no prefix of it is listed
    }
    assert {group["lr_scale"] for group in optimizer.param_groups if group.get("muon")} == {3.0}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)


@pytest.mark.parametrize("blocks", [0, 2])
def test_preset_compact_gives_muon_the_trunk_with_and_without_attention(blocks: int) -> None:
    settings = ["schedule.steps=1", f"network.options.attention_blocks={blocks}"]
    config = load_config("compact", None, settings)
    network = build_network(config.network)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    groups = make_optimizer(network, config.optimizer).param_groups
    found = {names[id(one)] for group in groups if group.get("muon") for one in group["params"]}
    assert {"trunk.block8.conv1.weight", "trunk.down32.weight", "refine2.0.weight"} <= found
    assert ("trunk.bottleneck.0.qkv.weight" in found) == (blocks > 0)
    assert not any(name.startswith(("trunk.encoder.", "screen.")) for name in found)


def test_a_muon_prefix_without_parameters_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"optimizer\.muon.*'nose'"):
        make_optimizer(CompactNetwork(), replace(MUON, muon=["nose"]))
