"""Points where structure from motion finds them: at SIFT or ORB keypoints of the photograph."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from omnidc.errors import ConfigError, InputError
from omnidc.patterns.noise import replace
from omnidc.patterns.numbers import Number, fraction
from omnidc.patterns.sample import Depth, Image, Pattern, SparseSample, is_outlier, sample_at, sanitize
from omnidc.patterns.scatter import fallback

FEWEST = 20  # with fewer keypoints the picture has no texture to speak of


def sift_detector() -> cv2.Feature2D:
    return cv2.SIFT.create()


def orb_detector(features: int = 100_000, score: str = "fast") -> cv2.Feature2D:
    scores = {"fast": cv2.ORB_FAST_SCORE, "harris": cv2.ORB_HARRIS_SCORE}
    if score not in scores:
        raise ConfigError(f"ORB knows the scores fast and harris, not {score!r}.")
    return cv2.ORB.create(nfeatures=features, scoreType=scores[score])


def detect(image: Image, detector: cv2.Feature2D) -> NDArray[np.intp]:
    """Return the rows and columns [2, N] of the keypoints, rounded to pixels (half to even)."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise InputError(f"Keypoints need a uint8 RGB image [H, W, 3], not {image.dtype} {list(image.shape)}.")
    h, w = image.shape[:2]
    if min(h, w) < 3:
        return np.zeros((2, 0), np.intp)
    found = detector.detect(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), None)
    xy = np.array([point.pt for point in found], np.float64).reshape(-1, 2)
    return np.rint(xy[:, ::-1]).astype(np.intp).clip(0, [h - 1, w - 1]).T


def keypoints(
    detector: Callable[[], cv2.Feature2D],
    fewest: int = FEWEST,
    released: bool = False,
    released_noise: Number | None = None,
) -> Pattern:
    """Make a pattern: true depth at keypoints. Where fewer than `fewest` of them have a depth (released: where fewer
    are found at all), 1000 random points, density-matched; `fewest` = 0 never falls back.

    `released_noise` is the rate of outliers as the release adds them: on keypoints of unknown depth as well. Anywhere
    else, use the modifier `omnidc.patterns.noise.outliers`.
    """

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        if image.shape[:2] != depth.shape:
            raise InputError(f"The image {list(image.shape)} and the depth {list(depth.shape)} differ in size.")
        rows, columns = detect(image, detector())
        chosen = np.zeros(depth.shape, np.bool_)
        chosen[rows, columns] = True
        if (rows.size if released else np.count_nonzero(depth[chosen])) < fewest:
            sample = fallback(depth, rng, released)
            chosen = sample.sparse > 0
        else:
            sample = sample_at(depth, chosen)
        if released_noise is None:
            return sample
        rate = fraction(released_noise, "The rate of noise").draw(rng)
        sparse = replace(sample.sparse, np.flatnonzero(chosen), depth, rate, rng, released=True)
        return SparseSample(sparse, is_outlier(sparse, depth, released=True))

    return draw


def sift(fewest: int = FEWEST, released: bool = False, released_noise: Number | None = None) -> Pattern:
    """Make a pattern: SIFT with OpenCV's own parameters."""
    return keypoints(sift_detector, fewest, released=released, released_noise=released_noise)


def orb(
    features: int = 100_000,
    score: str = "fast",
    fewest: int = FEWEST,
    released: bool = False,
    released_noise: Number | None = None,
) -> Pattern:
    """Make a pattern: ORB, at most `features` of the best `score` ("fast" or "harris")."""
    orb_detector(features, score)  # complains now, not at the first frame
    return keypoints(lambda: orb_detector(features, score), fewest, released=released, released_noise=released_noise)
