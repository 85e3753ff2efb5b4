"""The color encoder."""

from __future__ import annotations

import pytest
import torch

from omnidc.network.efficientnet import InvertedResidual


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
@pytest.mark.parametrize("rows", [4, 8, 20])
def test_inverted_residual_in_bands_equals_whole(kernel: int, stride: int, rows: int) -> None:
    torch.manual_seed(0)
    block = InvertedResidual(6, 6, kernel, stride, expansion=3)
    x = torch.randn(2, 6, 36, 20)
    with torch.no_grad():
        torch.testing.assert_close(block.run_in_bands(x, rows), block.run_whole(x))
