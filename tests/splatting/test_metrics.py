from __future__ import annotations

import math

import numpy as np
import pytest

from omnidc.splatting.metrics import depth_errors, psnr, ssim


def pictures(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.random((40, 53, 3)).astype(np.float32)
    return a, np.clip(a + rng.normal(0, 0.1, a.shape), 0, 1).astype(np.float32)


@pytest.mark.parametrize("seed", [0, 1])
def test_psnr_and_ssim_agree_with_scikit_image(seed: int) -> None:
    reference = pytest.importorskip("skimage.metrics")
    a, b = pictures(seed)
    assert psnr(a, b) == pytest.approx(reference.peak_signal_noise_ratio(b, a, data_range=1), abs=1e-4)
    options = {"channel_axis": 2, "data_range": 1.0, "gaussian_weights": True, "sigma": 1.5}
    expected = reference.structural_similarity(a, b, use_sample_covariance=False, **options)
    assert ssim(a, b) == pytest.approx(expected, abs=1e-5)


def test_psnr_equal_pictures_is_infinite() -> None:
    a, _ = pictures(0)
    assert psnr(a, a) == math.inf
    assert ssim(a, a) == pytest.approx(1.0)


def test_depth_errors_unknown_truth_is_left_out() -> None:
    truth = np.array([[0.0, 2.0, 4.0, 50.0]], np.float32)
    depth = np.array([[9.0, 1.0, 4.0, 90.0]], np.float32)
    assert depth_errors(depth, truth, 10.0) == (pytest.approx(math.sqrt(0.5)), pytest.approx(0.25))
    assert depth_errors(depth, np.zeros_like(truth)) is None
