from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.errors import ConfigError
from omnidc.frame import Frame
from omnidc.training.augment import (
    AugmentConfig,
    color_jitter,
    compress_log_depth,
    degrade_image,
    random_resized_crop,
    resize_depth,
)

EVERYTHING = AugmentConfig(
    stretch=0.3, hue=1, exposure=0.4, white_balance=0.1, vignette=1, defocus=1, motion=1, noise=1, jpeg=1
)  # every effect on every picture


def plane_frame(axis: str = "x", height: int = 60, width: int = 80) -> Frame:
    """Depth and picture are linear in the pixel coordinates, so where a pixel came from can be read off."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    image = np.stack((x * 3, y * 3, np.full_like(x, 100)), axis=2).astype(np.uint8)
    depth = 1 + (x if axis == "x" else y)
    depth[:5, :7] = 0
    intrinsics = np.array([[50.0, 0, 39.0], [0, 55.0, 31.0], [0, 0, 1]])
    return Frame(image=image, depth=depth.astype(np.float32), intrinsics=intrinsics, name="plane")


@given(
    st.integers(0, 10_000), st.sampled_from([(60, 80), (48, 64), (30, 40), (90, 64), (64, 120)]), st.sampled_from("xy")
)
def test_geometry_keeps_picture_depth_and_intrinsics_together(seed: int, size: tuple[int, int], axis: str) -> None:
    frame = plane_frame(axis)
    result = random_resized_crop(frame, size, AugmentConfig(stretch=0.3), np.random.default_rng(seed))
    assert result.image.shape == (*size, 3)
    assert result.depth is not None
    assert result.depth.shape == size
    assert result.intrinsics is not None
    assert frame.intrinsics is not None
    place = np.nonzero(result.depth)
    source = result.depth[place] - 1
    # the ray of each pixel must be that of the place its depth came from; mirrored pictures have mirrored rays
    n = "xy".index(axis)
    ray = (place[1 - n] - result.intrinsics[n, 2]) / result.intrinsics[n, n]
    true = (source - frame.intrinsics[n, 2]) / frame.intrinsics[n, n]
    if np.corrcoef(ray, true)[0, 1] < 0:
        true = -true
    half = 0.51 * max(1.0, 60 / size[0], 80 / size[1])
    assert np.abs(ray - true).max() * frame.intrinsics[n, n] <= half
    assert result.intrinsics[0, 0] > 0


def test_enlarged_depth_is_smooth_with_sharp_edges() -> None:
    depth = np.full((20, 30), 2.0, dtype=np.float32) + 0.01 * np.arange(30, dtype=np.float32)
    depth[:, 15:] += 3
    depth[:4] = 0
    large = resize_depth(depth, (40, 60))
    row = large[30]
    steps = np.diff(row)
    assert np.argmax(steps) == 29
    assert steps[29] > 2.9
    away = np.abs(np.arange(59) - 29) > 3
    np.testing.assert_allclose(steps[away][1:-1], 0.005, atol=1e-4)
    assert not large[:8].any()
    assert large[8:].min() >= 2


def test_picture_and_depth_do_not_drift_apart_when_enlarged() -> None:
    frame = plane_frame()
    config = AugmentConfig(scale_min=1.5, scale_max=1.5, flip=0)
    result = random_resized_crop(frame, (60, 80), config, np.random.default_rng(0))
    assert result.depth is not None
    seen = result.depth > 0
    column = result.depth[seen] - 1
    drift = result.image[..., 0][seen] / 3 - column
    assert abs(drift[(column > 3) & (column < 76)].mean()) < 0.2


def test_depths_beside_unknown_ones_are_never_mixed() -> None:
    frame = plane_frame()
    assert frame.depth is not None
    frame.depth[::2] = 0
    result = random_resized_crop(frame, (90, 120), AugmentConfig(), np.random.default_rng(3))
    assert result.depth is not None
    assert np.isin(result.depth, frame.depth).all()
    assert (result.depth == 0).any()


def test_flip_and_scale_can_be_switched_off() -> None:
    frame = plane_frame()
    still = AugmentConfig(scale_max=1.0, flip=0)
    result = random_resized_crop(frame, (60, 80), still, np.random.default_rng(0))
    np.testing.assert_array_equal(result.image, frame.image)
    np.testing.assert_array_equal(result.depth, frame.depth)
    np.testing.assert_allclose(result.intrinsics, frame.intrinsics)
    mirrored = random_resized_crop(frame, (60, 80), AugmentConfig(scale_max=1.0, flip=1), np.random.default_rng(0))
    np.testing.assert_array_equal(mirrored.image, frame.image[:, ::-1])
    assert mirrored.intrinsics is not None
    assert frame.intrinsics is not None
    assert mirrored.intrinsics[0, 2] == 79 - frame.intrinsics[0, 2]


@pytest.mark.parametrize("effect", [color_jitter, degrade_image])
def test_effects_depend_on_the_generator_alone(effect) -> None:  # type: ignore[no-untyped-def]
    image = plane_frame().image
    first = effect(image, EVERYTHING, np.random.default_rng(5))
    np.testing.assert_array_equal(first, effect(image, EVERYTHING, np.random.default_rng(5)))
    assert (first != effect(image, EVERYTHING, np.random.default_rng(6))).any()
    assert first.shape == image.shape
    assert first.dtype == np.uint8


def test_nothing_happens_when_everything_is_off() -> None:
    image = cv2.resize(np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8), (40, 30))
    off = AugmentConfig(brightness=0, contrast=0, saturation=0)
    np.testing.assert_array_equal(color_jitter(image, off, np.random.default_rng(0)), image)
    np.testing.assert_array_equal(degrade_image(image, off, np.random.default_rng(0)), image)


@pytest.mark.parametrize("name", ["vignette", "defocus", "motion", "noise", "jpeg"])
def test_each_effect_changes_the_picture_a_little(name: str) -> None:
    rng = np.random.default_rng(1)
    image = cv2.resize(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), (160, 120), interpolation=cv2.INTER_CUBIC)
    config = AugmentConfig(**{name: 1.0})
    change = np.abs(degrade_image(image, config, np.random.default_rng(2)).astype(int) - image).mean()
    assert 0.05 < change < 40


def test_saturation_is_an_interpolation_between_gray_and_color() -> None:
    image = plane_frame().image
    config = AugmentConfig(brightness=0, contrast=0, saturation=0.99)
    spreads = [
        np.ptp(color_jitter(image, config, np.random.default_rng(seed)).astype(int), axis=2).mean()
        for seed in range(20)
    ]
    assert min(spreads) < 0.6 * np.ptp(image.astype(int), axis=2).mean() < max(spreads)


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="scale_min"):
        AugmentConfig(scale_min=0.5)
    with pytest.raises(ConfigError, match="jpeg"):
        AugmentConfig(jpeg=2.0)


def test_flattened_relief_keeps_median_order_and_unknown_depth() -> None:
    rng = np.random.default_rng(0)
    depth = rng.uniform(1, 20, (31, 41)).astype(np.float32)
    depth[:5] = 0
    known = depth > 0
    for seed in range(5):
        flat = compress_log_depth(depth, AugmentConfig(compress_log_depth=1), np.random.default_rng(seed))
        assert not flat[:5].any()
        assert np.median(flat[known]) == pytest.approx(np.median(depth[known]), rel=1e-5)
        assert np.std(np.log(flat[known])) <= np.std(np.log(depth[known]))
        np.testing.assert_array_equal(np.argsort(flat[known]), np.argsort(depth[known]))
    assert compress_log_depth(depth, AugmentConfig(), rng) is depth
    assert not compress_log_depth(0 * depth, AugmentConfig(compress_log_depth=1), rng).any()


def test_stretch_zooms_one_side_more_than_the_other() -> None:
    frame = plane_frame()
    config = AugmentConfig(scale_max=1.0, flip=0, stretch=0.5)
    ratios = []
    for seed in range(40):
        intrinsics = random_resized_crop(frame, (60, 80), config, np.random.default_rng(seed)).intrinsics
        assert intrinsics is not None
        ratios.append(intrinsics[0, 0] / intrinsics[1, 1] * 55 / 50)
    assert 0.6 < min(ratios) < 0.8
    assert 1.25 < max(ratios) < 1.6


def test_hue_turns_colors_and_keeps_grays() -> None:
    config = AugmentConfig(brightness=0, contrast=0, saturation=0, hue=1)
    gray = np.full((4, 4, 3), 130, np.uint8)
    red = np.full((4, 4, 3), (150, 90, 90), np.uint8)
    turned = [color_jitter(red, config, np.random.default_rng(seed)) for seed in range(20)]
    np.testing.assert_allclose(color_jitter(gray, config, np.random.default_rng(0)), gray, atol=1)
    assert {int(image[0, 0].argmax()) for image in turned} == {0, 1, 2}
    for image in turned:
        assert abs(float(image.mean()) - float(red.mean())) < 1.5


def test_gray_removes_colors() -> None:
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    result = color_jitter(image, AugmentConfig(gray=1, hue=1), np.random.default_rng(0))
    assert np.ptp(result.astype(int), axis=2).max() == 0
