from __future__ import annotations

import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.patterns import clusters, ghosts, hidden, materials, parse
from omnidc.patterns.regions import highest, smooth_field
from omnidc.patterns.sample import Depth, Image, Mask, sample_at

WALL = np.full((96, 128), 5, np.float32)
GRAY = np.full((96, 128, 3), 120, np.uint8)


def neighbor_share(mask: Mask) -> float:
    """The share of the chosen pixels whose right neighbor is chosen too: near 1 for patches."""
    return float(mask[:, 1:][mask[:, :-1]].mean())


def test_highest_pixels_of_a_smooth_field_form_patches() -> None:
    for seed in range(10):
        field = smooth_field((96, 128), np.random.default_rng(seed))
        mask = np.zeros(field.size, bool)
        mask[highest(field, np.arange(field.size), 0.1)] = True
        assert mask.sum() == round(0.1 * field.size)
        assert neighbor_share(mask.reshape(field.shape)) > 0.8
    assert highest(field, np.arange(10), 0).size == 0


def test_ghosts_lie_farther_by_one_factor_in_patches() -> None:
    dense = sample_at(WALL, WALL > 0)
    for seed in range(10):
        sample = ghosts(0.1)(dense, WALL, GRAY, np.random.default_rng(seed))
        ghost = sample.sparse != WALL
        assert ghost.mean() == pytest.approx(0.1, abs=0.001)
        assert np.unique(sample.sparse[ghost]).size == 1
        assert 1.14 * 5 < sample.sparse[ghost][0] < 3.01 * 5
        assert neighbor_share(ghost) > 0.8
        np.testing.assert_array_equal(sample.outlier_mask, ghost)


def test_hidden_points_have_the_depth_of_the_surface_behind() -> None:
    depth = WALL.copy()
    depth[:, 40:90] = 2
    dense = sample_at(depth, depth > 0)
    for seed in range(10):
        sample = hidden(0.5)(dense, depth, GRAY, np.random.default_rng(seed))
        changed = sample.sparse != depth
        assert changed.sum() > 50
        assert np.all(depth[changed] == 2), "nothing lies behind the wall"
        np.testing.assert_allclose(sample.sparse[changed], 5, rtol=0.1)
        columns = np.nonzero(changed)[1]
        assert np.minimum(columns - 40, 89 - columns).max() < 0.15 * 128
        np.testing.assert_array_equal(sample.outlier_mask, changed)


def test_clusters_keep_their_share_in_patches() -> None:
    dense = sample_at(WALL, WALL > 0)
    for seed in range(5):
        kept = clusters(0.2)(dense, WALL, GRAY, np.random.default_rng(seed)).sparse > 0
        assert kept.mean() == pytest.approx(0.2, abs=0.001)
        assert neighbor_share(kept) > 0.8
    three = parse("3 & clusters(0.01)")(WALL, GRAY, np.random.default_rng(0))
    assert (three.sparse > 0).sum() == 1


def test_materials_take_away_or_show_what_is_behind(scene: tuple[Depth, Image]) -> None:
    image = GRAY.copy()
    image[30:60, 30:80] = (200, 40, 40)
    dense = sample_at(WALL, WALL > 0)
    lost = behind = 0
    for seed in range(40):
        sample = materials(2)(dense, WALL, image, np.random.default_rng(seed))
        at = sample.sparse > 0
        lost += int((~at).sum())
        behind += int(sample.outlier_mask.sum())
        assert np.all(sample.sparse[at] >= 5)
    assert lost > behind > 0
    with pytest.raises(InputError, match="uint8 image"):
        materials()(dense, WALL, image[:10], np.random.default_rng(0))
