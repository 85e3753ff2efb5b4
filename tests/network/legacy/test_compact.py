"""The compact network."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from omnidc.errors import ConfigError
from omnidc.network.legacy.compact import CompactConfig, CompactNetwork
from omnidc.network.legacy.trust import Surroundings, Trust
from omnidc.network.upsample import bilinear_logits, convex_upsample

SMALL = CompactConfig(channels=(8, 16, 16, 24, 32), attention_blocks=1, heads=2, xtol=1e-6)


def scene(batch: int = 1, height: int = 64, width: int = 96, points: float = 0.02) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(batch, 3, height, width, generator=generator)
    depth = 1 + 4 * torch.rand(batch, 1, height, width, generator=generator)
    return image, depth * (torch.rand(depth.shape, generator=generator) < points)


@pytest.fixture
def network() -> CompactNetwork:
    torch.manual_seed(0)
    network = CompactNetwork(SMALL).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))  # heads start at zero, where every test would pass
    return network


def test_prediction_is_finite_positive_and_of_the_inputs_size(network: CompactNetwork) -> None:
    image, sparse = scene(batch=2)
    out = network(image, sparse)
    for tensor in (out.depth, out.depth_init, out.laplace_scale):
        assert tensor.shape == sparse.shape
        assert bool((torch.isfinite(tensor) & (tensor > 0)).all())
    assert [tuple(g.shape) for g in out.fields.gradients] == [(2, 2, 32 >> r, 48 >> r) for r in range(4)]
    assert bool(out.info.converged.all())


@pytest.mark.parametrize("beta", [1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6])
@torch.no_grad()
def test_depth_scales_exactly_with_its_input(network: CompactNetwork, beta: float) -> None:
    image, sparse = scene()
    one, scaled = network(image, sparse), network(image, beta * sparse)
    torch.testing.assert_close(scaled.depth / beta, one.depth, rtol=1e-5, atol=0)
    torch.testing.assert_close(scaled.laplace_scale / beta, one.laplace_scale, rtol=1e-5, atol=0)


@torch.no_grad()
def test_without_a_single_point_depth_is_finite_and_flagged(network: CompactNetwork) -> None:
    image, sparse = scene()
    out = network(image, torch.zeros_like(sparse))
    assert bool(torch.isfinite(out.depth).all())
    assert not bool(out.info.is_constrained.any())


@torch.no_grad()
def test_an_image_does_not_depend_on_its_batch(network: CompactNetwork) -> None:
    image, sparse = scene(batch=2)
    both, alone = network(image, sparse), network(image[1:], sparse[1:])
    torch.testing.assert_close(both.depth[1:], alone.depth, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_warm_start_changes_the_iterations_and_not_the_depth(network: CompactNetwork) -> None:
    image, sparse = scene()
    cold = network(image, sparse)
    warm = network(image, sparse, start=cold.log_depth + cold.median.log())
    assert int(warm.info.iterations) < int(cold.info.iterations)
    torch.testing.assert_close(warm.depth, cold.depth, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_an_untrained_network_interpolates_slopes_between_points() -> None:
    """Gradients start as those of the pre-fill, so that training begins at plain interpolation."""
    network = CompactNetwork(SMALL).eval()
    image, noise = scene(height=96, width=128)
    y, x = torch.linspace(0, 1, 96)[:, None], torch.linspace(0, 1, 128)
    truth = (0.5 * x + y).exp().expand(1, 1, 96, 128)
    out = network(image, truth * (noise > 0))
    inside = (..., slice(8, -8), slice(8, -8))
    assert float((out.depth / truth - 1).abs()[inside].mean()) < 0.02


@torch.no_grad()
def test_gradients_grow_with_the_relief_that_the_points_show(network: CompactNetwork) -> None:
    """log O → a log O gives a times the gradients, once the network may not look at the relief itself."""
    image, sparse = scene(points=0.5)
    sparse = sparse / sparse[sparse > 0].median()
    network.join2.weight[:, -1] = 0  # the channel that tells the relief
    flat = torch.where(sparse > 0, sparse.clamp_min(1e-9) ** 0.25, 0)
    deep, shallow = network.fields(image, sparse), network.fields(image, flat)
    for g, h in zip(deep.gradients, shallow.gradients, strict=True):
        torch.testing.assert_close(4 * h, g, rtol=0, atol=0.05 * float(g.abs().max()))


def test_every_parameter_learns_from_depth_scale_and_confidence() -> None:
    torch.manual_seed(0)
    network = CompactNetwork(SMALL)
    image, sparse = scene()
    out = network(image, sparse)
    # A loss that is not symmetric: at the start all gradients are zero and a mean of log depth would hide their use.
    target = torch.linspace(0, 1, 96).expand_as(out.depth)
    gradients = sum((g - 0.1).abs().sum() for g in out.fields.gradients)
    loss = ((out.depth.log() - target) ** 2).mean() + out.laplace_scale.mean()
    loss = loss + out.fields.confidence.mean() + gradients
    loss.backward()
    missing = [
        name for name, p in network.named_parameters() if p.grad is None or not bool(torch.isfinite(p.grad).all())
    ]
    assert missing == []


def test_switches_of_the_ablations_make_smaller_networks() -> None:
    image, sparse = scene()
    off = dict.fromkeys(("edge_weights", "prefill", "relief", "detail"), False)
    plain = CompactNetwork(CompactConfig(**{**SMALL.to_dict(), "resolutions": 1, **off}))
    out = plain(image, sparse)
    assert len(out.fields.gradients) == 1
    assert out.fields.weights is None
    with pytest.raises(ConfigError, match="1 to 4 resolutions"):
        CompactConfig(resolutions=5)


@pytest.mark.parametrize("factor", [2, 4])
def test_upsampling_starts_as_bilinear_interpolation(factor: int) -> None:
    x = torch.rand(1, 1, 5, 7, generator=torch.Generator().manual_seed(0))
    logits = torch.tensor(bilinear_logits(factor)).reshape(1, -1, 1, 1).expand(1, -1, 5, 7)
    expected = nn.functional.interpolate(x, scale_factor=factor, mode="bilinear")
    inside = (..., slice(factor, -factor), slice(factor, -factor))
    torch.testing.assert_close(convex_upsample(x, logits, factor)[inside], expected[inside], rtol=0, atol=0.02)


def test_default_size_keeps_its_promise() -> None:
    assert sum(p.numel() for p in CompactNetwork().parameters()) * 4 < 25e6


def test_config_survives_a_round_trip_through_json_types() -> None:
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in SMALL.to_dict().items()}
    assert CompactConfig.from_dict(values) == SMALL


class Strict(Trust):
    """Doubts whatever lies three scatters from the plane through those around it."""

    def forward(self, around: Surroundings) -> torch.Tensor:
        return 10 * (3 - around.features[:, 5].abs())


@torch.no_grad()
def test_screened_measurements_change_nothing(network: CompactNetwork) -> None:
    strict = CompactNetwork(network.config)
    strict.load_state_dict(network.state_dict())
    strict.trust = Strict()
    depth = torch.linspace(1, 3, 96).view(1, 1, 96, 1).expand(1, 1, 96, 128)
    generator = torch.Generator().manual_seed(0)
    sparse = depth * (torch.rand(depth.shape, generator=generator) < 0.05)
    sparse[..., 40:42, 60:62] = sparse[..., 70:72, 20:22] = 0
    wrong = sparse.clone()
    wrong[..., 40, 60], wrong[..., 70, 20] = 9.0, 0.3
    image = torch.rand(1, 3, 96, 128, generator=generator)
    for judge, least, most in ((network, 0.5, math.inf), (strict, 0.0, 0.02)):
        clean, polluted = (judge.eval()(image, points).depth.log() for points in (sparse, wrong))
        assert least <= float((polluted - clean).abs().max()) < most


@torch.no_grad()
def test_the_scale_survives_a_judge_who_doubts_everything(network: CompactNetwork) -> None:
    image, sparse = scene()
    final = network.trust.layers[-1]
    assert isinstance(final, nn.Conv2d)
    assert final.bias is not None
    final.bias.fill_(-5.0)
    near, far = (network.eval()(image, factor * sparse).depth for factor in (1, 10))
    torch.testing.assert_close(far, 10 * near, rtol=1e-4, atol=0)


def test_files_from_before_the_colours_of_pixels_load_without_them() -> None:
    values = CompactConfig().to_dict()
    assert CompactConfig.from_dict(values).detail
    del values["detail"]
    config = CompactConfig.from_dict(values)
    assert not config.detail
    assert not any(name.startswith("detail.") for name in CompactNetwork(config).state_dict())
