from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import InputError
from omnidc.patterns import blocks, depth_camera, hole, limit_range, parse
from omnidc.patterns.holes import exposure_mask, glass_region, occlusion_mask, quantized_disparity
from omnidc.patterns.sample import Depth, Image, sample_at


@given(part=st.floats(0, 1), seed=st.integers(0, 100))
def test_hole_is_one_rectangle_of_the_size_asked_for(part: float, seed: int) -> None:
    depth = np.ones((20, 30), np.float32)
    image = np.zeros((20, 30, 3), np.uint8)
    sample = hole(part)(sample_at(depth, depth > 0), depth, image, np.random.default_rng(seed))
    missing = sample.sparse == 0
    rows, columns = np.flatnonzero(missing.any(1)), np.flatnonzero(missing.any(0))
    assert missing.sum() == int(20 * part) * int(30 * part)
    if missing.any():
        assert missing[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].all()


def test_erase_boxes_removes_measurements_and_flags(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    sample = blocks(3, 0.2)(sample_at(depth, depth > 0), depth, image, np.random.default_rng(0))
    missing = (sample.sparse == 0) & (depth > 0)
    assert 0 < missing.sum() <= 3 * 19 * 25
    np.testing.assert_array_equal(sample.sparse[~missing], depth[~missing])


def test_crop_keeps_the_nearer_part_of_the_scene(scene: tuple[Depth, Image]) -> None:
    _, image = scene
    depth = np.random.default_rng(0).permutation(np.linspace(1, 5, 96 * 128)).astype(np.float32).reshape(96, 128)
    sample = limit_range(0.5, near=0.1)(sample_at(depth, depth > 0), depth, image, np.random.default_rng(0))
    kept = sample.sparse[sample.sparse > 0]
    assert abs(kept.min() - 1.4) < 0.01
    assert abs(kept.max() - 3) < 0.01
    assert abs(kept.size / depth.size - 0.4) < 0.01


def test_camera_is_blind_beside_depth_edges_only(scene: tuple[Depth, Image]) -> None:
    depth, _ = scene
    distance = 13  # twice the radius (≤ 2) plus the shadow (≤ 6), with room
    far_from_edges = np.ones(depth.shape, np.bool_)
    far_from_edges[40 - distance : 80 + distance, 30 - distance : 70 + distance] = False
    far_from_edges[:12] = False
    far_from_edges[50:70, 45:55] = True
    rng = np.random.default_rng(0)
    for _ in range(20):
        blind = occlusion_mask(depth, rng)
        assert blind[40, 30:70].all()
        assert not (blind & far_from_edges).any()


def test_camera_is_blind_in_the_dark(scene: tuple[Depth, Image]) -> None:
    _, image = scene
    even = np.full_like(image, 120)
    even[70:, 100:] = 0
    even[:20, :20] = 255
    rng = np.random.default_rng(0)
    masks = [exposure_mask(even, rng) for _ in range(30)]
    assert np.mean([mask[80:, 110:].mean() for mask in masks]) > 0.6
    assert np.mean([mask[5:15, 5:15].all() for mask in masks]) > 0.9
    assert not any(mask[30:60, 30:90].any() for mask in masks)


def test_glass_follows_the_colors_of_the_picture() -> None:
    image = np.zeros((60, 80, 3), np.uint8)
    image[:] = np.random.default_rng(0).integers(0, 256, (60, 80, 3))
    image[20:40, 20:50] = 90
    rng = np.random.default_rng(1)
    regions = [glass_region(image, rng) for _ in range(60)]
    panes = [region for region in regions if region[30, 35]]
    assert panes
    for pane in panes:
        assert pane[20:40, 20:50].all()
        assert pane.sum() < 22 * 32 + 30  # its own pixels, one around, and a few of the noise that happen to match


def test_disparity_steps_grow_with_the_square_of_depth() -> None:
    rng = np.random.default_rng(0)
    depth = np.concatenate([rng.uniform(0.95, 1.05, 5000), np.full(10001, 2), rng.uniform(7.6, 8.4, 5000)])
    error = np.abs(quantized_disparity(depth.astype(np.float32)[None], 0.004, rng)[0] - depth)
    near, far = error[:5000].mean(), error[-5000:].mean()
    assert 55 < far / near < 75  # (8 / 1)² = 64


def test_camera_measures_most_and_flags_glass(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    rng = np.random.default_rng(0)
    samples = [depth_camera()(depth, image, rng) for _ in range(60)]
    shares = [np.count_nonzero(sample.sparse) / np.count_nonzero(depth) for sample in samples]
    assert np.median(shares) > 0.5
    assert min(shares) < 0.9
    assert any(sample.outlier_mask.any() for sample in samples)
    assert all(not sample.sparse[depth == 0].any() for sample in samples)


def test_camera_needs_the_photograph(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    with pytest.raises(InputError, match="image"):
        parse("camera")(depth, image[:, 1:], np.random.default_rng(0))
