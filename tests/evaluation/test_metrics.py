from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.evaluation.metrics import (
    anchor_residual,
    calibration,
    depth_metrics,
    edge_band,
    edge_rel,
    laplace_quantile,
    mean_scores,
    sparsification,
)

GOLDEN_NAMES = {
    "RMSE": "rmse",
    "MAE": "mae",
    "iRMSE": "irmse",
    "iMAE": "imae",
    "REL": "rel",
    "D^1": "d1",
    "D^2": "d2",
    "D^3": "d3",
    "D102": "d102",
    "D105": "d105",
    "D110": "d110",
}


@pytest.mark.parametrize("image", ["m0", "m1"])
def test_metrics_equal_the_released_evaluation(shared: Path, image: str) -> None:
    golden = np.load(shared / "reference" / "golden" / "metrics.npz")
    prediction, truth = golden[f"{image}_pred"][0, 0], golden[f"{image}_gt"][0, 0]
    ours = depth_metrics(prediction, truth, released=True)
    expected = dict(zip(golden["names"], golden[f"{image}_values_f64"]))
    for theirs, name in GOLDEN_NAMES.items():
        assert ours[name] == pytest.approx(expected[theirs], rel=1e-9), name


@pytest.mark.parametrize("image", ["m0", "m1"])
def test_default_metrics_differ_from_the_release_only_by_its_negative_pixels(shared: Path, image: str) -> None:
    golden = np.load(shared / "reference" / "golden" / "metrics.npz")
    prediction, truth = golden[f"{image}_pred"][0, 0], golden[f"{image}_gt"][0, 0]
    ours = depth_metrics(prediction, truth)
    expected = dict(zip(golden["names"], golden[f"{image}_values_f64"]))
    known = truth > 1e-4
    negative = float(((prediction < 0) & known).sum() / known.sum())
    assert negative > 0
    for theirs, name in GOLDEN_NAMES.items():
        wrong = negative if name in ("d1", "d2", "d3", "d102", "d105", "d110") else 0.0
        assert ours[name] == pytest.approx(expected[theirs] - wrong, rel=1e-6), name


def test_scores_of_a_case_done_by_hand() -> None:
    truth = np.array([[1.0, 2.0, 0.0, 4.0]])
    prediction = np.array([[1.0, 2.2, 9.0, 6.0]])
    scores = depth_metrics(prediction, truth)
    assert scores["rel"] == pytest.approx((0 + 0.1 + 0.5) / 3)
    assert scores["mae"] == pytest.approx((0 + 0.2 + 2) / 3)
    assert scores["rmse"] == pytest.approx(math.sqrt((0.04 + 4) / 3))
    assert scores["rmse_median"] == pytest.approx(scores["rmse"] / 2)
    assert scores["imae"] == pytest.approx((0 + (1 / 2 - 1 / 2.2) + (1 / 4 - 1 / 6)) / 3)
    assert scores["d1"] == pytest.approx(2 / 3)
    assert scores["d2"] == pytest.approx(3 / 3)
    assert scores["d102"] == pytest.approx(1 / 3)
    assert scores["bad"] == 0


@pytest.mark.parametrize("wrong", [-2.0, 0.0, math.nan, math.inf, -math.inf])
def test_an_unusable_prediction_never_counts_as_right(wrong: float) -> None:
    truth = np.full((2, 2), 2.0)
    prediction = np.full((2, 2), 2.0)
    prediction[0, 0] = wrong
    scores = depth_metrics(prediction, truth)
    assert scores["d1"] == scores["d3"] == scores["d102"] == 0.75
    assert scores["rel"] >= 0.25
    assert scores["bad"] == 0.25
    assert all(math.isfinite(value) for value in scores.values())


@given(st.floats(0.01, 1e4), st.integers(0, 2**32 - 1))
def test_relative_scores_do_not_depend_on_the_unit(unit: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, prediction = rng.uniform(1, 9, (2, 6, 7))
    a, b = depth_metrics(prediction, truth), depth_metrics(prediction * unit, truth * unit)
    for name in ("rel", "rmse_median", "d1"):
        assert b[name] == pytest.approx(a[name], rel=1e-6, abs=0.025 if name == "d1" else 0)
    assert b["rmse"] == pytest.approx(a["rmse"] * unit)


def test_no_known_pixel_gives_nan_and_means_leave_it_out() -> None:
    nothing = depth_metrics(np.ones((3, 3)), np.zeros((3, 3)))
    assert all(math.isnan(value) for value in nothing.values())
    assert mean_scores([nothing, {"rel": 0.5}]) == {"rel": 0.5}


def two_walls() -> np.ndarray:
    truth = np.ones((40, 60))
    truth[:, 30:] = 2.0
    return truth


def test_edge_band_is_five_pixels_to_both_sides_of_a_jump() -> None:
    columns = np.flatnonzero(edge_band(two_walls())[20])
    # Both pixels at the jump (29 and 30) are edge pixels.
    assert columns.min() == 24
    assert columns.max() == 35


def test_edge_band_ignores_a_slope_and_bridges_a_narrow_gap() -> None:
    slope = np.broadcast_to(np.linspace(1, 3, 200), (20, 200)).copy()
    assert not edge_band(slope).any()
    truth = two_walls()
    truth[:, 28:32] = 0
    band = edge_band(truth)
    assert band[20, 27]
    assert band[20, 32]
    assert not band[20, 28:32].any()


def test_edge_rel_sees_only_errors_near_edges() -> None:
    truth = two_walls()
    far, near = truth.copy(), truth.copy()
    far[:, :10] *= 2
    near[:, 28:30] *= 2
    assert edge_rel(far, truth) == 0
    assert edge_rel(near, truth) == pytest.approx(2 / 12)


def test_a_sparse_truth_has_no_edge_score() -> None:
    truth = np.zeros((40, 60))
    truth[::4, ::4] = two_walls()[::4, ::4]
    assert math.isnan(edge_rel(two_walls(), truth))


def test_anchor_residual_leaves_out_points_known_to_be_noise() -> None:
    sparse = np.zeros((4, 4))
    sparse[0, 0], sparse[1, 1] = 2.0, 4.0
    prediction = np.full((4, 4), 2.0)
    noise = np.zeros((4, 4), bool)
    assert anchor_residual(prediction, sparse) == pytest.approx(0.25)
    noise[1, 1] = True
    assert anchor_residual(prediction, sparse, noise) == 0


def test_laplace_errors_are_found_calibrated_and_halved_scales_are_not() -> None:
    rng = np.random.default_rng(0)
    truth = np.full((200, 200), 10.0)
    scale = rng.uniform(0.05, 0.5, truth.shape)
    prediction = truth + rng.laplace(0, scale)
    honest = calibration(prediction, scale, truth)
    assert honest["cover50"] == pytest.approx(0.5, abs=0.01)
    assert honest["cover80"] == pytest.approx(0.8, abs=0.01)
    assert honest["cover95"] == pytest.approx(0.95, abs=0.01)
    boastful = calibration(prediction, scale / 2, truth)
    assert boastful["cover95"] == pytest.approx(1 - math.sqrt(0.05), abs=0.01)
    assert boastful["ause"] == pytest.approx(honest["ause"])
    assert laplace_quantile(95) == pytest.approx(math.log(20))


def test_sparsification_is_zero_for_a_perfect_ranking_and_worst_for_the_reversed_one() -> None:
    error = np.random.default_rng(1).exponential(size=4000)
    curve, oracle, area = sparsification(error, error)
    assert area == pytest.approx(0)
    assert curve[0] == pytest.approx(1)
    assert np.all(np.diff(oracle) <= 1e-12)
    random = sparsification(error, np.random.default_rng(2).random(4000))[2]
    reverse = sparsification(error, -error)[2]
    assert 0 < random < reverse


def test_sparsification_equals_its_slow_definition() -> None:
    rng = np.random.default_rng(3)
    error, uncertainty = rng.exponential(size=137), rng.random(137)
    curve, _, _ = sparsification(error, uncertainty, steps=10)
    ranked = error[np.argsort(-uncertainty)]
    slow = [ranked[(k * 137) // 10 :].mean() / error.mean() for k in range(10)]
    assert np.allclose(curve, slow)
