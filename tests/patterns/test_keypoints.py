from __future__ import annotations

import cv2
import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.patterns import orb, parse, sift
from omnidc.patterns.keypoints import detect, orb_detector, sift_detector
from omnidc.patterns.sample import Depth, Image


@pytest.mark.parametrize("name", ["sift", "orb"])
def test_depth_is_true_at_every_keypoint_and_nowhere_else(name: str, scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    sample = parse(name)(depth, image, np.random.default_rng(0))
    detector = cv2.SIFT_create() if name == "sift" else cv2.ORB_create(100_000, scoreType=cv2.ORB_FAST_SCORE)
    expected = np.zeros_like(depth)
    for point in detector.detect(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), None):
        u, v = round(point.pt[0]), round(point.pt[1])
        expected[v, u] = depth[v, u]
    assert (expected > 0).sum() > 20
    np.testing.assert_array_equal(sample.sparse, expected)


def test_textureless_image_gets_random_points(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    gray = np.full_like(image, 100)
    fallback = sift()(depth, gray, np.random.default_rng(0))
    assert (fallback.sparse > 0).sum() == round(1000 * (depth > 0).mean())
    assert not sift(fewest=0)(depth, gray, np.random.default_rng(0)).sparse.any()


def test_fallback_counts_keypoints_with_depth(scene: tuple[Depth, Image]) -> None:
    _, image = scene
    depth = np.zeros(image.shape[:2], np.float32)
    depth[:, :8] = 2  # too near the border for ORB: keypoints, but none with a depth
    assert detect(image, orb_detector()).shape[1] >= 20
    assert (orb()(depth, image, np.random.default_rng(0)).sparse > 0).sum() > 20
    assert not orb(released=True)(depth, image, np.random.default_rng(0)).sparse.any()


def test_noise_skips_unknown_depth_unless_released(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    half = depth.copy()
    half[:, :64] = 0
    for text in ("sift", "orb"):
        released = parse(text, noise="1", released=True)(half, image, np.random.default_rng(0))
        assert released.sparse[:, :64].any()
        assert not parse(text, noise="1")(half, image, np.random.default_rng(0)).sparse[:, :64].any()


def test_orb_keeps_the_best(scene: tuple[Depth, Image]) -> None:
    _, image = scene
    assert detect(image, orb_detector(50, "harris")).shape[1] <= 50
    assert detect(image, sift_detector()).min() >= 0


def test_sizes_that_differ_are_an_error(scene: tuple[Depth, Image]) -> None:
    depth, image = scene
    with pytest.raises(InputError, match="differ in size"):
        sift()(depth[1:], image, np.random.default_rng(0))
