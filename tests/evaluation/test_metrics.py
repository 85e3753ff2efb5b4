from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidc.evaluation.metrics import (
    LABELS,
    OLD_NAMES,
    boundary_f1,
    calibration,
    depth_metrics,
    edge_band,
    edge_rel,
    laplace_quantile,
    mean_scores,
    rel_at_input,
    sparsification,
)

GOLDEN_NAMES = {
    "RMSE": "rmse",
    "MAE": "mae",
    "iRMSE": "irmse",
    "iMAE": "imae",
    "REL": "rel",
    "D^1": "delta_1",
    "D^2": "delta_2",
    "D^3": "delta_3",
    "D102": "delta_1.02",
    "D105": "delta_1.05",
    "D110": "delta_1.10",
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
def test_metrics_equal_release_but_for_negative_depth(shared: Path, image: str) -> None:
    golden = np.load(shared / "reference" / "golden" / "metrics.npz")
    prediction, truth = golden[f"{image}_pred"][0, 0], golden[f"{image}_gt"][0, 0]
    ours = depth_metrics(prediction, truth)
    expected = dict(zip(golden["names"], golden[f"{image}_values_f64"]))
    known = truth > 1e-4
    negative = float(((prediction < 0) & known).sum() / known.sum())
    assert negative > 0
    for theirs, name in GOLDEN_NAMES.items():
        wrong = negative if name in ("delta_1", "delta_2", "delta_3", "delta_1.02", "delta_1.05", "delta_1.10") else 0.0
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
    assert scores["delta_1"] == pytest.approx(2 / 3)
    assert scores["delta_2"] == pytest.approx(3 / 3)
    assert scores["delta_1.02"] == pytest.approx(1 / 3)
    assert scores["invalid_fraction"] == 0


@pytest.mark.parametrize("wrong", [-2.0, 0.0, math.nan, math.inf, -math.inf])
def test_an_unusable_prediction_never_counts_as_right(wrong: float) -> None:
    truth = np.full((2, 2), 2.0)
    prediction = np.full((2, 2), 2.0)
    prediction[0, 0] = wrong
    scores = depth_metrics(prediction, truth)
    assert scores["delta_1"] == scores["delta_3"] == scores["delta_1.02"] == 0.75
    assert scores["rel"] >= 0.25
    assert scores["invalid_fraction"] == 0.25
    assert all(math.isfinite(value) for value in scores.values())


@given(st.floats(0.01, 1e4), st.integers(0, 2**32 - 1))
def test_relative_scores_do_not_depend_on_the_unit(unit: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, prediction = rng.uniform(1, 9, (2, 6, 7))
    a, b = depth_metrics(prediction, truth), depth_metrics(prediction * unit, truth * unit)
    for name in ("rel", "rmse_median", "delta_1"):
        assert b[name] == pytest.approx(a[name], rel=1e-6, abs=0.025 if name == "delta_1" else 0)
    assert b["rmse"] == pytest.approx(a["rmse"] * unit)


def test_no_known_pixel_gives_nan_and_means_leave_it_out() -> None:
    nothing = depth_metrics(np.ones((3, 3)), np.zeros((3, 3)))
    assert all(math.isnan(value) for value in nothing.values())
    assert mean_scores([nothing, {"rel": 0.5}]) == {"rel": 0.5}


def test_depth_metrics_old_keyword_truth_warns_and_works() -> None:
    prediction, gt_depth = np.full((3, 3), 1.5), np.ones((3, 3))
    with pytest.warns(DeprecationWarning, match="truth is now gt_depth"):
        scores = depth_metrics(prediction, truth=gt_depth)
    assert scores == depth_metrics(prediction, gt_depth)


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


def test_rel_at_input_leaves_out_points_known_to_be_noise() -> None:
    sparse = np.zeros((4, 4))
    sparse[0, 0], sparse[1, 1] = 2.0, 4.0
    prediction = np.full((4, 4), 2.0)
    noise = np.zeros((4, 4), bool)
    assert rel_at_input(prediction, sparse) == pytest.approx(0.25)
    noise[1, 1] = True
    assert rel_at_input(prediction, sparse, noise) == 0


def test_calibration_of_laplace_errors_is_right() -> None:
    rng = np.random.default_rng(0)
    truth = np.full((200, 200), 10.0)
    scale = rng.uniform(0.05, 0.5, truth.shape)
    prediction = truth + rng.laplace(0, scale)
    honest = calibration(prediction, scale, truth)
    assert honest["coverage_50"] == pytest.approx(0.5, abs=0.01)
    assert honest["coverage_80"] == pytest.approx(0.8, abs=0.01)
    assert honest["coverage_95"] == pytest.approx(0.95, abs=0.01)
    boastful = calibration(prediction, scale / 2, truth)
    assert boastful["coverage_95"] == pytest.approx(1 - math.sqrt(0.05), abs=0.01)
    assert boastful["ause"] == pytest.approx(honest["ause"])
    assert laplace_quantile(95) == pytest.approx(math.log(20))


def test_sparsification_of_perfect_ranking_is_zero() -> None:
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


def slow_boundary_f1(prediction: np.ndarray, truth: np.ndarray) -> float:
    """The published definition, pair by pair, on inverse depth."""
    height, width = truth.shape
    total = weight = 0.0
    for ratio in np.linspace(1.05, 1.25, 10):
        precision = recall = 0.0
        for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            both = found = true = 0
            for y in range(height):
                for x in range(width):
                    y2, x2 = y + dy, x + dx
                    if not (0 <= y2 < height and 0 <= x2 < width) or truth[y, x] == 0 or truth[y2, x2] == 0:
                        continue
                    p, t = ((1 / d[y2, x2]) / (1 / d[y, x]) > ratio for d in (prediction, truth))
                    both, found, true = both + (p and t), found + p, true + t
            precision += both / max(found, 1) / 4
            recall += both / max(true, 1) / 4
        total += ratio * (2 * precision * recall / (precision + recall) if precision + recall else 0.0)
        weight += ratio
    return total / weight


def test_boundary_f1_agrees_with_its_definition() -> None:
    rng = np.random.default_rng(3)
    truth = np.exp(rng.normal(0, 0.15, (9, 11)))
    truth[rng.random(truth.shape) < 0.2] = 0
    prediction = np.where(truth > 0, truth, 1) * np.exp(rng.normal(0, 0.05, truth.shape))
    assert boundary_f1(prediction, truth) == pytest.approx(slow_boundary_f1(prediction, truth), rel=1e-9)


def test_boundary_f1_is_one_for_the_truth_in_any_unit() -> None:
    truth = np.exp(np.random.default_rng(0).normal(0, 0.5, (20, 30)))
    assert boundary_f1(7 * truth, truth) == pytest.approx(1)
    assert boundary_f1(np.ones_like(truth), truth) == 0


def test_boundary_f1_directions_without_boundary_count_zero() -> None:
    truth = two_walls()  # one vertical edge: one of four directions has a boundary
    assert boundary_f1(truth, truth) == pytest.approx(0.25)


def test_boundary_f1_counts_invalid_predictions_as_no_boundary() -> None:
    truth = two_walls()
    broken = truth.copy()
    broken[truth == truth.max()] = np.nan
    assert boundary_f1(broken, truth) == 0


def test_boundary_f1_without_a_boundary_is_nan() -> None:
    assert math.isnan(boundary_f1(np.ones((5, 5)), np.ones((5, 5))))
    sparse = np.zeros((20, 20))
    sparse[::5, ::5] = 2.0
    assert math.isnan(boundary_f1(np.ones((20, 20)), sparse))


def test_old_names_of_scores_are_all_current_names() -> None:
    assert set(OLD_NAMES.values()) <= set(LABELS)
    assert OLD_NAMES["d102"] == "delta_1.02"
    assert OLD_NAMES["d110"] == "delta_1.10"
