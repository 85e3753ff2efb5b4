from __future__ import annotations

import torch

from omnidc.training.ema import EMA
from tiny import TinyNetwork


def test_average_follows_its_equation_and_takes_buffers_over() -> None:
    torch.manual_seed(0)
    network = TinyNetwork()
    average = EMA(network, 0.5)
    expected = network.stem.weight.detach().clone()
    for n in range(1, 6):
        with torch.no_grad():
            network.stem.weight.add_(torch.randn_like(network.stem.weight))
            network.calls += 1
        average.update_parameters(network)
        delta = min(0.5, (1 + n) / (10 + n))
        expected = delta * expected + (1 - delta) * network.stem.weight.detach()
    averaged = average.network
    assert isinstance(averaged, TinyNetwork)
    torch.testing.assert_close(averaged.stem.weight, expected)
    assert averaged.calls == 5
    assert not averaged.training


def test_decay_0_is_the_network_itself() -> None:
    network = TinyNetwork()
    average = EMA(network, 0.0)
    with torch.no_grad():
        network.stem.weight.add_(1)
    average.update_parameters(network)
    averaged = average.network
    assert isinstance(averaged, TinyNetwork)
    torch.testing.assert_close(averaged.stem.weight, network.stem.weight)
