from __future__ import annotations

import numpy as np

from omnidc.patterns import radar
from omnidc.patterns.sample import Depth, Image


def test_returns_are_few(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    rng = np.random.default_rng(0)
    counts = [(radar()(depth, image, rng).sparse > 0).sum() for _ in range(50)]
    assert min(counts) > 10
    assert max(counts) <= 300


def test_only_ghosts_are_wrong_on_a_flat_wall() -> None:
    depth = np.full((100, 200), 5, np.float32)
    image = np.zeros((100, 200, 3), np.uint8)
    rng = np.random.default_rng(0)
    without = radar(500, ghosts=0)(depth, image, rng)
    assert not without.outlier_mask.any()
    at = without.sparse > 0
    assert 0.005 < np.std(without.sparse[at] / 5) < 0.015
    ghosts = radar(2000, ghosts=0.3)(depth, image, rng)
    assert abs(ghosts.outlier_mask.sum() / (ghosts.sparse > 0).sum() - 0.3) < 0.06
    assert ghosts.sparse.max() > 7
    assert 0 < ghosts.sparse[ghosts.sparse > 0].min() < 3


def test_angle_is_poor_upwards() -> None:
    """Depth that names its row shows from where each return came."""
    depth = np.repeat(np.linspace(10, 20, 200, dtype=np.float32)[:, None], 300, axis=1)
    image = np.zeros((200, 300, 3), np.uint8)
    rng = np.random.default_rng(0)
    shift = []
    for _ in range(30):
        sparse = radar(100, ghosts=0)(depth, image, rng).sparse
        rows, _ = np.nonzero(sparse)
        shift.append(np.std((sparse[sparse > 0] - 10) / 10 * 199 - rows))
    assert max(shift) > 10
