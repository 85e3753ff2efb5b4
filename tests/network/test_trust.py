"""What outliers are told by."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from omnidc.network.trust import FEATURES, WINDOWS, Trust, surroundings


def scene(height: int = 40, width: int = 56, share: float = 0.3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.rand(1, 1, height, width, generator=generator) < share).float()
    return torch.randn(1, 1, height, width, generator=generator) * mask, mask


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_features_are_those_of_a_plain_loop_over_the_other_measurements(share: float) -> None:
    log_depth, mask = scene(share=share)
    fast = surroundings(log_depth, mask)[0].numpy()
    values, known = log_depth[0, 0].numpy(), mask[0, 0].numpy() > 0
    slow = np.zeros_like(fast)
    for y, x in zip(*np.nonzero(known), strict=True):
        for k, size in enumerate(WINDOWS):
            top, left = (y // size - 1) * size, (x // size - 1) * size
            window = np.s_[max(top, 0) : top + 3 * size, max(left, 0) : left + 3 * size]
            others = known.copy()
            others[y, x] = False
            around = values[window][others[window]]
            if len(around):
                apart = values[y, x] - around.mean()
                slow[3 * k : 3 * k + 2, y, x] = np.clip([apart, apart / (around.std() + 0.02)], -6, 6)
                slow[3 * k + 2, y, x] = np.log1p(len(around))
    np.testing.assert_allclose(fast, slow, atol=5e-3)


def test_an_outlier_stands_out_and_its_neighbours_do_not() -> None:
    _, mask = scene()
    log_depth = 0.05 * torch.randn(mask.shape, generator=torch.Generator().manual_seed(1)) * mask
    mask[..., 20, 28] = 1
    log_depth[..., 20, 28] = 2.0
    apart = surroundings(log_depth, mask)[:, 0:1].abs()
    assert int(apart.argmax()) == 20 * mask.shape[-1] + 28
    assert float(apart.flatten().sort().values[-2]) < 0.5


def test_trust_starts_without_an_opinion() -> None:
    around = surroundings(*scene())
    assert around.shape[1] == FEATURES
    assert not Trust(8)(around, torch.rand(1, 8, *around.shape[-2:])).any()
