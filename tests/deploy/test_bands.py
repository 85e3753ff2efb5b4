"""NumPy's way to the working size against torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from omnidc.deploy.bands import CELL, shrink_image, shrink_sparse
from omnidc.network.compact import CompactConfig
from omnidc.network.refine import NOISE_CELL, SPREAD_CELLS
from omnidc.network.resize import shrink

SIZES = [((48, 64), (48, 64)), ((61, 95), (40, 33)), ((100, 37), (99, 36)), ((130, 90), (13, 9)), ((7, 5), (1, 1))]


@pytest.mark.parametrize(("shape", "size"), SIZES)
def test_shrinking_equals_that_of_torch(shape: tuple[int, int], size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (*shape, 3)).astype(np.uint8)
    sparse = np.where(rng.random(shape) < 0.3, rng.uniform(1, 5, shape), 0).astype(np.float32)
    small, points = shrink(
        torch.from_numpy(image).permute(2, 0, 1)[None] / 255, torch.from_numpy(sparse)[None, None], size
    )
    np.testing.assert_allclose(shrink_image(image, size), small[0].numpy(), atol=1e-6)
    np.testing.assert_array_equal(shrink_sparse(sparse, size), points[0, 0].numpy())


def test_bands_begin_where_the_largest_cells_of_the_network_do() -> None:
    assert max(*SPREAD_CELLS, NOISE_CELL) == CELL  # a copy, since bands are run without torch
    assert CompactConfig().refine_margin % CELL == 0
