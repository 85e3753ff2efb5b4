from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.network.upsample import convex_upsample


def slow_twin(x: Tensor, logits: Tensor, f: int, borders: str) -> Tensor:
    """The definition, pixel by pixel."""
    batch, _, height, width = x.shape
    out = torch.zeros(batch, 1, f * height, f * width, dtype=x.dtype)
    for n, y, j, a, b in np.ndindex(batch, height, width, f, f):
        weights, values = [], []
        for k in range(9):
            row, column = y + k // 3 - 1, j + k % 3 - 1
            inside = 0 <= row < height and 0 <= column < width
            if inside or borders == "zero":
                weights.append(math.exp(logits[n, k * f * f + a * f + b, y, j]))
                values.append(float(x[n, 0, row, column]) if inside else 0.0)
        out[n, 0, f * y + a, f * j + b] = sum(w * v for w, v in zip(weights, values)) / sum(weights)
    return out


@pytest.mark.parametrize("borders", ["zero", "renormalized"])
@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("size", [(1, 1), (1, 5), (4, 3)])
def test_agrees_with_its_definition(borders: str, factor: int, size: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 1, *size, generator=generator, dtype=torch.float64)
    logits = 3 * torch.randn(2, 9 * factor**2, *size, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        convex_upsample(x, logits, factor, borders), slow_twin(x, logits, factor, borders), rtol=1e-12, atol=1e-12
    )


def test_gradients_are_right_at_renormalized_borders() -> None:
    x = torch.randn(1, 1, 2, 3, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(1, 36, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: convex_upsample(a, b, 2), (x, logits))


def test_renormalized_borders_keep_constant_without_weight() -> None:
    logits = torch.zeros(1, 144, 3, 3)
    logits[:, :48] = 1000.0  # all weight on the row above, which the first row does not have
    torch.testing.assert_close(convex_upsample(torch.full((1, 1, 3, 3), 5.0), logits), torch.full((1, 1, 12, 12), 5.0))


def test_unknown_border_mode_is_named() -> None:
    with pytest.raises(ConfigError, match="mirror"):
        convex_upsample(torch.zeros(1, 1, 2, 2), torch.zeros(1, 144, 2, 2), borders="mirror")


def test_released_code_is_reproduced_with_gradients(shared: Path) -> None:
    arrays = np.load(shared / "reference/golden/convex_upsample.npz")
    golden = {name: torch.from_numpy(array).double() for name, array in arrays.items()}
    depth = golden["depth"].requires_grad_()
    logits = golden["mask_logits"].requires_grad_()
    out = convex_upsample(depth, logits, 4, "zero")
    out.backward(golden["upstream"])
    torch.testing.assert_close(out.detach(), golden["out"], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(depth.grad, golden["ddepth"], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(logits.grad, golden["dmask_logits"], rtol=1e-12, atol=1e-12)
