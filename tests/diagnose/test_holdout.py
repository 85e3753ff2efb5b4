"""Folds, errors at hidden points, the mixture and the recalibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from known_room import Room, room
from omnidc.diagnose.folds import block_folds, gap_size, point_spacing
from omnidc.diagnose.holdout import HiddenPoints, compare, measure, score
from omnidc.diagnose.mixing import best, cross_fitted, fit_coverage, fit_mixture
from omnidc.errors import InputError
from omnidc.frame import Frame
from omnidc.pipeline import CompleteOptions, Completion


@dataclass
class FakeCompleter:
    """Returns the true depth times a factor, whatever it is given."""

    truth: Room
    factor: float = 1.0
    name: str = "fake"

    def complete(self, frame: Frame, options: CompleteOptions, /) -> Completion:
        depth = (self.truth.depth * self.factor).astype(np.float32)
        return Completion(depth, 0.01 * depth, np.full_like(depth, np.nan), frame.measurements(), frame.image)


def hidden_points(factor: float, share: float = 0.02) -> HiddenPoints:
    scene = room(1)
    sparse = scene.random(share)
    folds = block_folds(sparse, np.random.default_rng(0))
    return measure(FakeCompleter(scene, factor), Frame(scene.image, sparse), folds)


def laplace_points(scale: float, reported: float, count: int = 4000) -> HiddenPoints:
    """Errors of Laplace scale `scale` around 2 m; the network reports `reported`."""
    rng = np.random.default_rng(0)
    truth = np.full(count, 2.0)
    linear = truth + rng.laplace(0, 0.05, count)
    gap = rng.uniform(1, 30, count)
    b = np.full(count, reported)
    return HiddenPoints(truth, truth + rng.laplace(0, scale, count), linear, b, gap, np.arange(count) // 10)


@pytest.mark.parametrize("share", [0.005, 0.05, 1.0])
def test_folds_hide_a_tenth_of_the_measurements(share: float) -> None:
    sparse = room().random(share)
    for fold in block_folds(sparse, np.random.default_rng(0)):
        assert not (fold.hidden & (sparse == 0)).any()
        assert 0.02 <= fold.hidden.sum() / (sparse > 0).sum() <= 0.2


def test_folds_hide_whole_blocks() -> None:
    sparse = room().random(0.05)
    for fold in block_folds(sparse, np.random.default_rng(0)):
        hidden = np.unique(fold.block[fold.hidden])
        assert not np.isin(fold.block[(sparse > 0) & ~fold.hidden], hidden).any()


def test_folds_have_growing_blocks() -> None:
    sparse = room().random(0.01)
    sides = [fold.side for fold in block_folds(sparse, np.random.default_rng(0))]
    assert sides == sorted(sides)
    assert sides[0] == pytest.approx(point_spacing(sparse > 0), abs=1)
    assert sides[-1] == 60  # a quarter of 240


def test_folds_of_crowded_points_keep_some() -> None:
    sparse = np.zeros((100, 100), np.float32)
    sparse[40:48, 40:48] = 1.0  # all in one block
    for fold in block_folds(sparse, np.random.default_rng(0)):
        assert 0 < fold.hidden.sum() < 64


def test_folds_of_few_points_are_refused() -> None:
    sparse = np.zeros((50, 50), np.float32)
    sparse[0, :9] = 1
    with pytest.raises(InputError, match="9 points"):
        block_folds(sparse, np.random.default_rng(0))


def test_gap_size_is_distance_to_nearest_point() -> None:
    measured = np.zeros((20, 20), bool)
    measured[5, 5] = True
    assert gap_size(measured)[5, 9] == 4
    assert np.isinf(gap_size(np.zeros((3, 3), bool))).all()


def test_score_of_scaled_depth_has_its_bias() -> None:
    truth = np.linspace(1, 4, 100)
    result = score(1.02 * truth, truth)
    assert result.rel == pytest.approx(0.02)
    assert result.bias == pytest.approx(0.02)
    assert result.rmse == pytest.approx(0.02 * np.sqrt((truth**2).mean()))


def test_measure_reads_results_at_hidden_points_only() -> None:
    points = hidden_points(1.05)
    np.testing.assert_allclose(points.network, 1.05 * points.measured, rtol=1e-5)
    assert (points.gap > 0).all()


def test_compare_of_exact_network_is_not_worse() -> None:
    points = hidden_points(1.0)
    result = compare(points, np.random.default_rng(0))
    assert result.network.rel < 1e-6 < result.linear.rel
    assert not result.network_is_worse
    assert sum(row.count for row in result.by_distance) == len(points)


def test_compare_of_poor_network_says_it_is_worse() -> None:
    result = compare(hidden_points(1.5), np.random.default_rng(0))
    assert result.network_is_worse
    assert result.network.bias == pytest.approx(0.5, rel=1e-4)


def test_mixture_follows_the_better_method() -> None:
    assert (fit_mixture(hidden_points(1.0)).weight == 1).all()
    assert (fit_mixture(hidden_points(1.5)).weight < 0.2).all()


def test_mixture_changes_with_gap_size() -> None:
    rng = np.random.default_rng(0)
    count = 4000
    truth, gap = np.full(count, 2.0), rng.uniform(1, 64, count)
    noise = rng.normal(0, 1, (2, count))
    linear = truth * np.exp(noise[0] * 0.004 * gap)  # error grows with the gap
    network = truth * np.exp(noise[1] * 0.05)  # error does not
    points = HiddenPoints(truth, network, linear, None, gap, np.arange(count))
    mixture = fit_mixture(points)
    assert mixture.at(np.array([2.0]))[0] < 0.15
    assert mixture.at(np.array([60.0]))[0] > 0.6
    mixed = cross_fitted(points)
    assert mixed.rel < min(score(network, truth).rel, score(linear, truth).rel)


def test_coverage_is_recalibrated_to_its_level() -> None:
    coverage = fit_coverage(laplace_points(0.1, reported=0.05))
    assert coverage is not None
    assert coverage.factor == pytest.approx(2.0, rel=0.08)
    assert coverage.before[-1] < 0.8
    np.testing.assert_allclose(coverage.after, coverage.levels, atol=0.02)


def test_coverage_without_uncertainty_is_none() -> None:
    points = laplace_points(0.1, 0.1)
    without = HiddenPoints(points.measured, points.network, points.linear, None, points.gap, points.cluster)
    assert fit_coverage(without) is None


def test_best_takes_linear_depth_of_a_poor_network() -> None:
    scene = room(1)
    sparse = scene.random(0.02)
    poor = FakeCompleter(scene, 1.5)
    mixed = best(poor.complete(Frame(scene.image, sparse), CompleteOptions()), hidden_points(1.5))
    error = np.abs(mixed.depth / scene.depth - 1)
    assert np.median(error) < 0.1
    assert mixed.uncertainty is not None
    assert (mixed.uncertainty > 0.01 * 1.5 * scene.depth).all()  # b was far too small


def test_mixture_of_one_gap_size_and_a_rest_has_both_weights() -> None:
    """Near the points the network is exact, far from them linear interpolation is; the last size has few points."""
    gap = np.concatenate([np.full(200, 1.0), np.full(200, 30.0), np.full(3, 120.0)])
    measured = np.full(403, 2.0)
    exact_network = gap < 10
    points = HiddenPoints(
        measured,
        np.where(exact_network, 2.0, 4.0),
        np.where(exact_network, 4.0, 2.0),
        None,
        gap,
        np.arange(403),
    )
    mixture = fit_mixture(points)
    assert mixture.weight[0] == pytest.approx(1)
    assert mixture.weight[-1] == pytest.approx(0)
    one_size = fit_mixture(points.take(gap < 10))
    assert one_size.weight.tolist() == pytest.approx([1])
