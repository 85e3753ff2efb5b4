"""The backbone's parts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from omnidc.network.trunk import convolve_pixels


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolve_pixels_equals_the_convolution(layout: torch.memory_format) -> None:
    generator = torch.Generator().manual_seed(0)
    conv = nn.Conv2d(16, 40, 1).to(memory_format=layout)  # type: ignore[call-overload]
    x = torch.randn(2, 16, 6, 10, generator=generator).contiguous(memory_format=layout).requires_grad_()
    upstream = torch.randn(2, 40, 6, 10, generator=generator)
    results = [convolve_pixels(conv, x), conv(x)]
    torch.testing.assert_close(*results)
    assert results[0].is_contiguous()
    inputs = [x, conv.weight, conv.bias]
    for fast, slow in zip(*(torch.autograd.grad(one, inputs, upstream) for one in results), strict=True):
        torch.testing.assert_close(fast, slow)
