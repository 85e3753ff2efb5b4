import numpy as np
import pytest

from omnidc.geometry.surface import depth_edges


def test_edges_are_counted_on_both_sides_and_not_beside_unknown_depth() -> None:
    depth = np.ones((10, 20), np.float32)
    depth[:, 10:] = 2
    for seen in (depth, depth.T, 1 / depth):
        assert depth_edges(seen).mean() == pytest.approx(2 / 20)
    depth[:, 10] = 0
    assert not depth_edges(depth).any()


def test_an_edge_is_a_ratio_whatever_the_unit() -> None:
    depth = np.array([[1.0, 1.04, 1.10]])
    for unit in (1.0, 1000.0):
        assert depth_edges(depth * unit).tolist() == [[False, True, True]]
        assert not depth_edges(depth * unit, ratio=1.2).any()
