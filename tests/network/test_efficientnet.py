"""The color encoder."""

from __future__ import annotations

import pytest
import torch

from omnidc.network.efficientnet import EfficientNetLite0, InvertedResidual, perturb_style


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
@pytest.mark.parametrize("rows", [4, 8, 20])
def test_inverted_residual_in_bands_equals_whole(kernel: int, stride: int, rows: int) -> None:
    torch.manual_seed(0)
    block = InvertedResidual(6, 6, kernel, stride, expansion=3)
    x = torch.randn(2, 6, 36, 20)
    with torch.no_grad():
        torch.testing.assert_close(block.run_in_bands(x, rows), block.run_whole(x))


def test_perturb_style_changes_mean_and_deviation_of_channels_but_not_their_pattern() -> None:
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
