"""The compact network: what `forward` promises, whatever its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.network.compact import CompactConfig, CompactNetwork

SMALL = CompactConfig(channels=(8, 8, 12, 12, 16), attention_blocks=1, heads=2, max_side=128)


def scene(height: int = 64, width: int = 96, points: float = 0.02, batch: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(batch, 3, height, width, generator=generator)
    depth = 1 + 4 * torch.rand(batch, 1, height, width, generator=generator)
    return image, depth * (torch.rand(depth.shape, generator=generator) < points)


@pytest.fixture(scope="module", params=[2, 4], ids=["cell2", "cell4"])
def network(request: pytest.FixtureRequest) -> CompactNetwork:
    torch.manual_seed(0)
    config = CompactConfig(**{**SMALL.to_dict(), "cell": request.param})
    network = CompactNetwork(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))  # heads start at zero, where every test would pass
    return network.requires_grad_(False)


@pytest.mark.parametrize("size", [(64, 96), (33, 50), (1, 40), (100, 7)])
def test_forward_any_size_is_finite_and_positive(network: CompactNetwork, size: tuple[int, int]) -> None:
    out = network(*scene(*size, points=0.1))
    assert out.laplace_scale is not None
    assert out.sky is not None
    for values in (out.depth, out.laplace_scale, out.sky, out.fields.confidence):
        assert values.shape == (1, 1, *size)
        assert torch.isfinite(values).all()
    assert (out.depth > 0).all()
    assert (out.laplace_scale > 0).all()


@pytest.mark.parametrize(("cell", "expected"), [(2, [3, 4, 5, 6]), (4, [4, 5, 6, 7])])
def test_gradient_heads_have_the_hidden_channels_of_their_level(cell: int, expected: list[int]) -> None:
    network = CompactNetwork(replace(SMALL, cell=cell, head_hidden=(3, 4, 5, 6, 7)))
    assert [head[1].out_channels for head in network.gradient_heads] == expected


def test_configurations_without_hidden_channels_are_those_of_earlier_files() -> None:
    """Their blocks are as wide as the features, and their heads half as wide but for the first."""
    values = SMALL.to_dict()
    hidden = ("down_hidden", "up_hidden", "head_hidden", "refine_hidden", "slope")
    config = CompactConfig.from_dict({name: one for name, one in values.items() if name not in hidden})
    assert config.down_hidden == (8, 12, 12)
    assert config.up_hidden == (8, 8, 12, 12)
    assert config.head_hidden == (32, 4, 6, 6, 8)
    assert config.refine_hidden == 8
    assert config.slope == 0
    assert CompactConfig.from_dict(values) == SMALL


@pytest.mark.parametrize("slope", [-0.1, 1.0, float("nan")])
def test_configuration_refuses_slopes_that_are_none_of_a_leaky_relu(slope: float) -> None:
    with pytest.raises(ConfigError, match="slope"):
        replace(SMALL, slope=slope)


@pytest.mark.parametrize(("slope", "learns"), [(0.0, False), (0.1, True)])
def test_hidden_channels_below_zero_learn_unless_they_are_relus(slope: float, learns: bool) -> None:
    torch.manual_seed(0)
    network = CompactNetwork(replace(SMALL, slope=slope))
    convolutions = [network.trunk.up2.conv1, network.gradient_heads[0][1]]
    with torch.no_grad():
        for convolution in convolutions:
            convolution.bias.fill_(-100.0)
    network(*scene(32, 32)).log_depth.sum().backward()
    assert [bool(convolution.weight.grad.any()) for convolution in convolutions] == [learns] * 2


def test_forward_is_less_certain_of_noisy_measurements(network: CompactNetwork) -> None:
    image, sparse = scene()
    smooth = 2 * (sparse > 0).float()
    noisy = smooth * (1 + 0.1 * torch.randn(sparse.shape, generator=torch.Generator().manual_seed(1)))
    clean, doubtful = (network(image, one) for one in (smooth, noisy))
    assert (doubtful.laplace_scale / doubtful.depth > clean.laplace_scale / clean.depth).float().mean() > 0.9


@pytest.mark.parametrize("factor", [1e-6, 0.3, 1e6])
def test_forward_scales_with_measurements(network: CompactNetwork, factor: float) -> None:
    image, sparse = scene()
    one, scaled = network(image, sparse), network(image, factor * sparse)
    torch.testing.assert_close(scaled.depth / factor, one.depth, rtol=1e-5, atol=0)
    torch.testing.assert_close(scaled.laplace_scale / factor, one.laplace_scale, rtol=1e-5, atol=0)


def test_forward_result_does_not_depend_on_batch(network: CompactNetwork) -> None:
    image, sparse = scene(batch=3)
    batched = network(image, sparse)
    for k in (2, 0):
        alone = network(image[k : k + 1], sparse[k : k + 1])
        torch.testing.assert_close(batched.depth[k : k + 1], alone.depth, rtol=1e-5, atol=0)
        torch.testing.assert_close(batched.laplace_scale[k : k + 1], alone.laplace_scale, rtol=1e-5, atol=0)


def test_forward_without_measurements_is_relative_depth(network: CompactNetwork) -> None:
    image, _ = scene()
    out = network(image, torch.zeros(1, 1, 64, 96))
    assert torch.isfinite(out.depth).all()
    assert float(out.median) == 1.0
    assert torch.equal(out.fields.confidence, torch.zeros(1, 1, 64, 96))


def test_forward_single_measurement_sets_the_scale(network: CompactNetwork) -> None:
    image, sparse = scene(points=0)
    sparse[0, 0, 30, 40] = 7.0
    out = network(image, sparse)
    assert float(out.depth[0, 0, 30, 40]) == pytest.approx(7.0, rel=0.05)


def test_forward_keeps_dense_measurements_that_the_image_objects_to(monkeypatch: pytest.MonkeyPatch) -> None:
    network = CompactNetwork(SMALL).eval()
    gradients = CompactNetwork._gradients

    def object_to_all(self: CompactNetwork, *arguments: Any) -> Any:
        *fields, seen = gradients(self, *arguments)
        return *fields, torch.full_like(seen, -20)

    monkeypatch.setattr(CompactNetwork, "_gradients", object_to_all)
    image, points = scene()
    depth = torch.linspace(2, 4, 96).expand(points.shape).contiguous()
    with torch.no_grad():
        dense = network(image, depth).fields.confidence
        sparse = network(image, depth * (points > 0)).fields.confidence
    assert dense.median() > 0.9
    assert sparse.max() < 0.01


def test_forward_keep_input_passes_through_measurements(network: CompactNetwork) -> None:
    image, sparse = scene()
    out = network(image, sparse, keep_input=True)
    torch.testing.assert_close(out.depth[sparse > 0], sparse[sparse > 0], rtol=1e-5, atol=0)


def test_forward_working_size_gives_output_size(network: CompactNetwork) -> None:
    image, sparse = scene(96, 128)
    out = network(image, sparse, working_size=(48, 64))
    assert out.depth.shape == (1, 1, 96, 128)
    kept = network(image, sparse, working_size=(48, 64), keep_input=True)
    torch.testing.assert_close(kept.depth[sparse > 0], sparse[sparse > 0], rtol=1e-5, atol=0)


@pytest.mark.parametrize("working_size", [None, (48, 64)], ids=["whole", "smaller"])
@pytest.mark.parametrize("keep_input", [False, True])
def test_forward_in_bands_equals_whole(
    network: CompactNetwork, monkeypatch: pytest.MonkeyPatch, working_size: tuple[int, int] | None, keep_input: bool
) -> None:
    image, sparse = scene(101, 128, points=0.05)
    whole = network(image, sparse, working_size=working_size, keep_input=keep_input)
    monkeypatch.setattr("omnidc.network.compact.MIN_BAND_ROWS", 7)
    monkeypatch.setattr("omnidc.network.compact.BAND_PIXELS", 1)
    with torch.no_grad():
        banded = network(image, sparse, working_size=working_size, keep_input=keep_input)
    for name in ("depth", "depth_init", "laplace_scale", "sky"):
        torch.testing.assert_close(getattr(banded, name), getattr(whole, name), rtol=1e-5, atol=1e-6)
    assert torch.equal(banded.fields.confidence, whole.fields.confidence)


def test_forward_last_bits_of_input_change_only_last_bits(network: CompactNetwork) -> None:
    image, sparse = scene(points=0.2)
    noise = 1 + 1e-6 * torch.randn(sparse.shape, generator=torch.Generator().manual_seed(1))
    one, other = network(image, sparse), network(image, sparse * noise)
    torch.testing.assert_close(other.depth, one.depth, rtol=1e-3, atol=0)


def test_forward_gradients_equal_finite_differences() -> None:
    torch.manual_seed(0)
    network = CompactNetwork(SMALL).double().eval()
    image, sparse = (value.double() for value in scene(32, 32, points=0.1))
    # One of each kind of layer, and all single numbers: every tensor costs two passes.
    kinds = ("screen.layer1.weight", "fuse2.weight", "block8.conv1.weight", "bottleneck.0.qkv.weight", "up4.gain")
    kinds += ("gradient_heads.0.1.weight", "gradient_heads.3.3.bias", "refine2.0.weight", "half_head.weight")
    kinds += ("full_head.weight",)
    parameters = [p for name, p in network.named_parameters() if name.endswith(kinds) or p.ndim == 0]
    assert len(parameters) == len(kinds) + 4
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))

    def run(image: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        out = network(image, sparse)
        return out.depth, out.laplace_scale, out.sky, out.fields.confidence  # type: ignore[return-value]

    inputs = (image.requires_grad_(), *parameters)
    assert torch.autograd.gradcheck(run, inputs, eps=1e-7, atol=1e-5, rtol=1e-4, fast_mode=True)


def test_config_roundtrip_makes_equal_network() -> None:
    again = CompactConfig.from_dict(SMALL.to_dict())
    assert again == SMALL
    assert CompactNetwork(again).state_dict().keys() == CompactNetwork(SMALL).state_dict().keys()


@pytest.mark.parametrize(("cell", "most"), [(2, 5), (4, 4)])
def test_config_refuses_resolutions_that_the_trunk_lacks(cell: int, most: int) -> None:
    assert len(CompactNetwork(replace(SMALL, cell=cell, resolutions=most)).gradient_heads) == most
    with pytest.raises(ConfigError, match=f"1 to {most} resolutions, not {most + 1}"):
        CompactConfig(cell=cell, resolutions=most + 1)


def test_every_parameter_learns() -> None:
    torch.manual_seed(0)
    network = CompactNetwork(SMALL)
    image, sparse = scene()
    out = network(image, sparse)
    # A loss that is not symmetric: at the start all gradients are zero and a mean of log depth would hide their use.
    target = torch.linspace(0, 1, 96).expand_as(out.depth)
    loss = ((out.depth.log() - target) ** 2).mean() + out.laplace_scale.mean() + out.sky.mean()
    loss = loss + out.fields.confidence.mean() + sum((g - 0.1).abs().sum() for g in out.fields.gradients)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    assert [name for name, grad in gradients.items() if grad is None or not bool(torch.isfinite(grad).all())] == []


def test_new_network_interpolates_slopes_between_points() -> None:
    torch.manual_seed(0)
    network = CompactNetwork(SMALL).eval()
    image, noise = scene(height=96, width=128)
    y, x = torch.linspace(0, 1, 96)[:, None], torch.linspace(0, 1, 128)
    gt_depth = (0.5 * x + y).exp().expand(1, 1, 96, 128)
    with torch.no_grad():
        depth = network(image, gt_depth * (noise > 0)).depth
    inside = (..., slice(8, -8), slice(8, -8))
    assert float((depth / gt_depth - 1).abs()[inside].mean()) < 0.02


def test_default_network_is_below_25_megabytes() -> None:
    assert sum(parameter.numel() for parameter in CompactNetwork().parameters()) * 4 < 25e6
