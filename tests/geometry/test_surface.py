import numpy as np
import pytest

from omnidc.geometry.surface import depth_edges, surface_mask

SHAPE = (48, 64)


def test_edges_count_both_sides_of_known_depth() -> None:
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


def plane(normal: tuple[float, float, float]) -> np.ndarray:
    """z-depth of the plane n · X = 1."""
    v, u = np.mgrid[: SHAPE[0], : SHAPE[1]]
    rays = np.stack([(u - 31.5) / 100, (v - 23.5) / 110, np.ones(SHAPE)], -1)
    return (1 / (rays @ np.array(normal))).astype(np.float32)


def step() -> np.ndarray:
    depth = np.full(SHAPE, 1.0, np.float32)
    depth[:, 32:] = 3
    depth[:, 32] = 2  # the flying column
    return depth


def test_flying_pixels_are_dropped_and_surfaces_kept() -> None:
    mask = surface_mask(step())
    assert not mask[:, 32].any()
    assert mask[:, :30].all()
    assert mask[:, 35:].all()


@pytest.mark.parametrize("normal", [(0.0, 0.0, 0.5), (0.3, 0.0, 0.12), (0.0, 1.9, 0.42)])
def test_a_plane_has_no_flying_pixels_however_steep(normal: tuple[float, float, float]) -> None:
    depth = plane(normal)
    assert depth.min() > 0
    assert surface_mask(depth).all()


def test_no_depth_is_no_surface() -> None:
    depth = plane((0, 0, 0.5))
    depth[3, 4] = 0
    depth[10, 10] = np.nan
    mask = surface_mask(depth)
    assert not mask[3, 4]
    assert not mask[10, 10]


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1)])
def test_tiny_maps_are_surfaces(shape: tuple[int, int]) -> None:
    assert surface_mask(np.ones(shape, np.float32)).all()
