"""The color encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from omnidc.errors import CheckpointError
from omnidc.network.efficientnet import CHANNELS, EfficientNetLite0, InvertedResidual, perturb_style


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
@pytest.mark.parametrize("rows", [4, 8, 20])
def test_inverted_residual_in_bands_equals_whole(kernel: int, stride: int, rows: int) -> None:
    torch.manual_seed(0)
    block = InvertedResidual(6, 6, kernel, stride, expansion=3)
    x = torch.randn(2, 6, 36, 20)
    with torch.no_grad():
        torch.testing.assert_close(block.run_in_bands(x, rows), block.run_whole(x))


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 2)])
@pytest.mark.parametrize("parts", [2, 3])
def test_inverted_residual_in_parts_equals_whole(kernel: int, stride: int, parts: int) -> None:
    torch.manual_seed(0)
    block = InvertedResidual(6, 6, kernel, stride, expansion=3)
    x = torch.randn(2, 6, 36, 20)
    with torch.no_grad():
        torch.testing.assert_close(block.run_in_parts(x, parts), block.run_whole(x))


def test_perturb_style_changes_only_channel_statistics() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 3, 8, 10, dtype=torch.float64) + 2
    y = perturb_style(x, 0.4)
    same = torch.isclose(y, x).flatten(1).all(1)
    assert 16 < int(same.sum()) < 48  # about half of the images stay as they are
    pattern, other = ((one - one.mean((2, 3), keepdim=True))[~same] for one in (x, y))
    factor = (other * pattern).sum((2, 3), keepdim=True) / pattern.square().sum((2, 3), keepdim=True)
    torch.testing.assert_close(other, factor * pattern)
    assert 0.3 < float(factor.std()) < 0.5
    of_mean = y[~same].mean((2, 3)) / x[~same].mean((2, 3))
    assert 0.3 < float(of_mean.std()) < 0.5


def test_style_noise_acts_in_training_mode_only() -> None:
    torch.manual_seed(0)
    encoder, image = EfficientNetLite0(), torch.rand(4, 3, 32, 32)
    with torch.no_grad():
        expected = encoder.eval()(image)
        encoder.style_noise = 0.4
        torch.testing.assert_close(encoder(image), expected)
        assert not torch.equal(encoder.train()(image)[0], expected[0])


def test_encoder_makes_a_pyramid_of_five() -> None:
    pyramid = EfficientNetLite0()(torch.rand(1, 3, 64, 96))
    assert [tuple(p.shape) for p in pyramid] == [
        (1, c, 64 >> s, 96 >> s) for c, s in zip(CHANNELS, range(1, 6), strict=True)
    ]


def test_folding_batch_normalization_changes_nothing(tmp_path: Path) -> None:
    """The package's file has a batch normalization behind every convolution; ours has none."""
    torch.manual_seed(0)
    encoder = EfficientNetLite0()
    tensors: dict[str, Tensor] = {}

    def invent(conv: str, bn: str, target: nn.Conv2d) -> None:
        n = target.out_channels
        tensors[f"{conv}.weight"] = torch.randn_like(target.weight)
        tensors[f"{bn}.weight"], tensors[f"{bn}.bias"] = torch.rand(n), torch.randn(n)
        tensors[f"{bn}.running_mean"], tensors[f"{bn}.running_var"] = torch.randn(n), torch.rand(n)

    invent("_conv_stem", "_bn0", encoder.stem)
    for i, block in enumerate(encoder.blocks):
        assert isinstance(block, InvertedResidual)
        if block.expand is not None:
            invent(f"_blocks.{i}._expand_conv", f"_blocks.{i}._bn0", block.expand)
        invent(f"_blocks.{i}._depthwise_conv", f"_blocks.{i}._bn1", block.depthwise)
        invent(f"_blocks.{i}._project_conv", f"_blocks.{i}._bn2", block.project)
    torch.save(tensors, tmp_path / "weights.pth")
    encoder.load_imagenet(tmp_path / "weights.pth")

    x = torch.rand(1, 3, 32, 32)
    raw = nn.functional.conv2d(nn.functional.pad(x, (0, 1, 0, 1)), tensors["_conv_stem.weight"], stride=2)
    bn = [tensors[f"_bn0.{k}"] for k in ("running_mean", "running_var", "weight", "bias")]
    expected = nn.functional.batch_norm(raw, *bn, eps=1e-3)
    torch.testing.assert_close(encoder.stem(x), expected, rtol=1e-4, atol=1e-4)


def test_weights_of_another_network_are_refused_in_a_sentence(tmp_path: Path) -> None:
    torch.save({"something": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(CheckpointError, match="does not hold EfficientNet-Lite0"):
        EfficientNetLite0().load_imagenet(tmp_path / "other.pth")
