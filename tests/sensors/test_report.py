from __future__ import annotations

import numpy as np

from omnidc.frame import Frame
from omnidc.sensors.report import describe, point_warnings


def sparse(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    out = np.zeros((100, 200), np.float32)
    out[rows, columns] = 2.0
    return out


def test_few_crowded_and_missing_points_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    spread = sparse(rng.integers(0, 100, 500), rng.integers(0, 200, 500))
    assert point_warnings(spread) == []
    assert "few points" in point_warnings(sparse(rng.integers(0, 100, 20), rng.integers(0, 200, 20)))[0]
    [corner] = point_warnings(sparse(rng.integers(70, 100, 500), rng.integers(0, 40, 500)))
    assert "lower left" in corner
    assert "no points" in point_warnings(np.zeros((5, 5), np.float32))[0]


def test_a_frame_is_described_with_its_unit() -> None:
    image = np.zeros((100, 200, 3), np.uint8)
    depth = sparse(np.array([1, 2]), np.array([3, 4]))
    assert describe(Frame(image, depth, name="a", unit="m")) == "a: 2 points, depth 2 / 2 / 2 m (min/median/max)"
    assert "scene units" in describe(Frame(image, depth, name="a", unit="scene"))
    assert describe(Frame(image, None, name="a")) == "a: no points"
