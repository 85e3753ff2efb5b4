"""Depth brought back to the pixels of a lens with distortion."""

from __future__ import annotations

from functools import partial

import cv2
import numpy as np

from omnidc.frame import OriginalPixels
from omnidc.geometry.camera import undistort, undistorted_places
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.original import to_original

K = np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]])
LENS = np.array([-0.2, 0.05, 0.001, 0.0])
SHAPE = (48, 64)


def slanted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """z where the ray (x, y, 1) meets the plane z = 5 + x / 2 + y / 4."""
    return 5.0 / (1 - 0.5 * x - 0.25 * y)


def test_original_pixels_have_the_depth_of_their_rays() -> None:
    picture = np.zeros((*SHAPE, 3), np.uint8)
    _, new_K = undistort(picture, K, LENS)
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]].astype(np.float64)
    depth = slanted((columns - new_K[0, 2]) / new_K[0, 0], (rows - new_K[1, 2]) / new_K[1, 1]).astype(np.float32)
    sparse = np.zeros(SHAPE, np.float32)
    sparse[10::7, 9::8] = depth[10::7, 9::8]
    confidence = np.where(sparse > 0, np.float32(0.5), np.float32(np.nan))
    original = OriginalPixels(picture + 7, partial(undistorted_places, SHAPE, K, new_K, LENS))
    result = to_original(Completion(depth, depth / 100, confidence, sparse, picture, new_K), original)

    pixels = np.stack([columns.ravel(), rows.ravel()], axis=1)[:, None]
    criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-9)
    straight = np.asarray(cv2.undistortImagePoints(pixels, K, LENS, None, criteria)).reshape(-1, 2)
    rays = (straight - K[:2, 2]) / K[[0, 1], [0, 1]]
    expected = slanted(rays[:, 0], rays[:, 1]).reshape(SHAPE)
    inner = np.s_[3:-3, 3:-3]
    kept = result.depth[inner] > 0
    assert kept.mean() > 0.95
    assert np.abs(result.depth[inner] / expected[inner] - 1)[kept].max() < 2e-3
    assert result.uncertainty is not None
    assert (result.uncertainty > 0).all()
    assert (result.image == 7).all()
    assert result.intrinsics is None
    measured = result.sparse > 0
    assert 0.9 * (sparse > 0).sum() <= measured.sum() <= (sparse > 0).sum()
    assert np.abs(result.sparse / expected - 1)[measured].max() < 0.01  # within a pixel of its ray
    assert np.array_equal(np.isfinite(result.input_confidence), measured)
