from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from omnidc.network.legacy.detail import COLOUR, EVEN, HIDDEN, Detail, steps, unlikeness


def slow_unlikeness(image: Tensor, f: int) -> Tensor:
    """The definition, pixel by pixel."""
    batch, _, height, width = image.shape
    h, w = height // f, width // f
    out = torch.zeros(batch, 9 * f * f, h, w, dtype=image.dtype)
    for n, y, x, k, a, b in np.ndindex(batch, h, w, 9, f, f):
        row, column = min(max(y + k // 3 - 1, 0), h - 1), min(max(x + k % 3 - 1, 0), w - 1)
        cell = image[n, :, row * f : row * f + f, column * f : column * f + f].mean(dim=(1, 2))
        distance = (image[n, :, y * f + a, x * f + b] - cell) / COLOUR
        out[n, k * f * f + a * f + b, y, x] = (distance.square().sum() + 1e-4).sqrt()
    return out


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("cells", [(1, 1), (2, 5), (4, 3)])
def test_unlikeness_agrees_with_its_definition(factor: int, cells: tuple[int, int]) -> None:
    image = torch.rand(2, 3, cells[0] * factor, cells[1] * factor, dtype=torch.float64)
    torch.testing.assert_close(unlikeness(image, factor), slow_unlikeness(image, factor))
    last = image.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(unlikeness(last, factor), slow_unlikeness(image, factor))


def test_steps_span_the_cells_around_and_tell_how_far_apart_they_are() -> None:
    log_depth = torch.zeros(1, 1, 4, 6, dtype=torch.float64)
    log_depth[..., 3:] = 1.0
    result = steps(log_depth)[0]
    across, level = result[:, 1, 3], result[:, 1, 1]
    limit = 1 / (1 + EVEN)
    assert across[:9].tolist() == pytest.approx([-limit, limit, limit] * 3)
    assert level[:9].abs().max() == 0
    assert level[9] == 0
    assert across[9] == pytest.approx(np.log(1 / EVEN + 1) / 3)


def test_steps_do_not_change_when_everything_is_farther() -> None:
    log_depth = torch.randn(2, 1, 5, 7, dtype=torch.float64)
    torch.testing.assert_close(steps(log_depth + 3), steps(log_depth))


def test_begins_without_corrections_and_then_learns() -> None:
    detail = Detail(features=4, factor=2)
    features, image = torch.randn(1, 4, 3, 5), torch.rand(1, 3, 6, 10)
    log_depth = torch.randn(1, 1, 3, 5)

    corrections, hidden = detail.before(features, image)
    assert hidden.shape == (1, HIDDEN, 3, 5)
    total = corrections + detail.after(hidden, log_depth)
    assert total.shape == (1, 36, 3, 5)
    assert total.abs().max() == 0

    (total * torch.randn_like(total)).sum().backward()
    assert detail.gain.grad is not None
    assert detail.gain.grad.abs().min() > 0
    assert detail.last.weight.grad is not None
    assert detail.last.weight.grad.abs().max() > 0


def test_gain_prefers_cells_of_the_pixels_own_colour() -> None:
    detail = Detail(features=1, factor=2)
    with torch.no_grad():
        detail.gain.fill_(1.0)
    image = torch.zeros(1, 3, 6, 12)
    image[..., 6:] = 1.0
    corrections = detail.before(torch.zeros(1, 1, 3, 6), image)[0].view(9, 4, 3, 6)
    left, right = corrections[3, :, 1, 2], corrections[5, :, 1, 2]  # of the last dark cell: its dark, its bright side
    assert (left > right + 10).all()
