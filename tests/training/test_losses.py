from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.network.compact import CompactRefinement
from omnidc.network.interface import Fields, Prediction
from omnidc.network.normalize import masked_median
from omnidc.training import losses
from omnidc.training.batch import Batch
from omnidc.training.config import load_config
from omnidc.training.losses import Loss, LossConfig
from omnidc.training.networks import build_network


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def depths(*shape: int, seed: int = 0) -> Tensor:
    return torch.exp(torch.randn(*shape, generator=generator(seed), dtype=torch.float64) * 0.5)


def with_holes(truth: Tensor, seed: int = 0) -> Tensor:
    keep = torch.rand(truth.shape, generator=generator(seed + 100), dtype=truth.dtype) > 0.3
    return truth * keep


# ---------------------------------------------------------------------------------------------- the authors' release


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, np.ndarray]:
    with np.load(shared / "reference" / "golden" / "losses.npz") as file:
        return dict(file)


def leaf(golden: dict[str, np.ndarray], name: str) -> Tensor:
    return torch.from_numpy(golden[name]).double().requires_grad_()


def unpack(packed: Tensor) -> list[Tensor]:
    height, width = packed.shape[-2:]
    return [packed[:, 2 * r : 2 * r + 2, : height // 2**r, : width // 2**r] for r in range(packed.shape[1] // 2)]


def released_terms(golden: dict[str, np.ndarray], case: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    leaves = {
        name: leaf(golden, f"{case}_{name}")
        for name in ("pred", "pred_init", "log_scale", "log_depth_grad", "confidence_input")
    }
    truth, sparse = (torch.from_numpy(golden[f"{case}_{name}"]).double() for name in ("gt", "sparse"))
    terms = {
        "SeqLaplace": losses.laplace(leaves["pred"], truth, leaves["log_scale"], released=True),
        "SeqGradL1": losses.gradient_l1(unpack(leaves["log_depth_grad"]), truth, released=True),
        "ConfInput": losses.input_confidence(leaves["confidence_input"], sparse, truth, released=True),
        "SeqL1": losses.l1(leaves["pred"], truth, released=True),
        "GradMatchingScale": losses.gradient_matching(leaves["pred"], truth, released=True),
        "SeqLaplace_init": losses.laplace(leaves["pred_init"], truth, leaves["log_scale"], released=True),
        "SeqL1_init": losses.l1(leaves["pred_init"], truth, released=True),
    }
    return {name: term.sum() for name, term in terms.items()}, leaves


@pytest.mark.parametrize("case", ["c1", "c2"])
@pytest.mark.parametrize("name", ["SeqL1", "SeqLaplace", "SeqGradL1", "ConfInput", "GradMatchingScale"])
def test_each_released_term_has_the_golden_value_and_gradient(
    golden: dict[str, np.ndarray], case: str, name: str
) -> None:
    terms, leaves = released_terms(golden, case)
    assert terms[name].item() == pytest.approx(golden[f"{case}_single_{name}"].item(), rel=1e-10)
    terms[name].backward()
    compared = 0
    for of, tensor in leaves.items():
        expected = golden.get(f"{case}_single_{name}_d_{of}")
        if expected is not None:
            np.testing.assert_allclose(tensor.grad, expected, rtol=1e-8, atol=1e-13)
            compared += 1
    assert compared


@pytest.mark.parametrize("case", ["c1", "c2"])
def test_released_total_has_the_golden_value_and_gradients(golden: dict[str, np.ndarray], case: str) -> None:
    terms, leaves = released_terms(golden, case)
    weighted = [
        0.5 * (terms["SeqLaplace"] + terms["SeqLaplace_init"]),
        terms["SeqGradL1"],
        terms["ConfInput"],
        terms["SeqL1"] + terms["SeqL1_init"],
        2.0 * terms["GradMatchingScale"],
    ]
    total = torch.stack(weighted).sum()
    got = [term.item() for term in [*weighted, total]]
    np.testing.assert_allclose(got, golden[f"{case}_weighted_terms_and_total"], rtol=1e-10)
    total.backward()
    for of, tensor in leaves.items():
        np.testing.assert_allclose(tensor.grad, golden[f"{case}_dtotal_d_{of}"], rtol=1e-8, atol=1e-13)


def test_released_gradient_matching_pads_odd_sizes_by_repetition(golden: dict[str, np.ndarray]) -> None:
    pred = leaf(golden, "c3_pred")
    truth = torch.from_numpy(golden["c3_gt"]).double()
    value = losses.gradient_matching(pred, truth, released=True).sum()
    assert value.item() == pytest.approx(golden["c3_single_GradMatchingScale"].item(), rel=1e-10)
    value.backward()
    np.testing.assert_allclose(pred.grad, golden["c3_single_GradMatchingScale_d_pred"], rtol=1e-8, atol=1e-13)


# ------------------------------------------------------------------------------------------------------------ our own


def test_median_is_the_lower_middle_value_of_what_is_known() -> None:
    truth = torch.tensor([[4.0, 0, 1, 2, math.nan, 3], [0, 0, 0, 0, 0, 0]]).reshape(2, 1, 2, 3)
    assert masked_median(truth).flatten().tolist() == [2.0, 1.0]


def test_l1_is_the_mean_over_known_pixels_of_each_image() -> None:
    truth = torch.tensor([[1.0, 2.0, 0.0, math.nan], [4.0, 0.0, 0.0, 0.0]]).reshape(2, 1, 1, 4)
    depth = torch.tensor([[2.0, 5.0, 9.0, 9.0], [4.5, 9.0, 9.0, 9.0]]).reshape(2, 1, 1, 4)
    torch.testing.assert_close(losses.l1(depth, truth), torch.tensor([2.0, 0.5]))
    expected = torch.tensor([(math.log(2) + math.log(2.5)) / 2, math.log(4.5 / 4)])
    torch.testing.assert_close(losses.l1_log(depth, truth), expected)


def test_prediction_beyond_max_depth_is_clipped_near_truth() -> None:
    truth = torch.tensor([2.0, 50.0]).reshape(1, 1, 1, 2)
    depth = torch.tensor([30.0, 30.0]).reshape(1, 1, 1, 2).requires_grad_()
    losses.l1(depth, truth, max_depth=10.0).sum().backward()
    assert depth.grad is not None
    assert depth.grad.flatten().tolist() == [0.5, 0.0]


@given(st.floats(0.01, 2), st.floats(0.01, 2))
def test_laplace_log_is_least_where_the_scale_is_the_mean_error(error: float, factor: float) -> None:
    truth = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    depth = truth * math.exp(error)
    best = losses.laplace_log(depth, truth, depth * error)
    other = losses.laplace_log(depth, truth, depth * error * factor)
    assert best.item() == pytest.approx(1 + math.log(2 * error))
    assert best.item() <= other.item() + 1e-12


def test_laplace_is_the_negative_log_likelihood() -> None:
    truth, depth = depths(2, 1, 5, 6), depths(2, 1, 5, 6, seed=1)
    gamma = torch.randn(2, 1, 5, 6, dtype=torch.float64, generator=generator(3))
    expected = -torch.distributions.Laplace(depth, gamma.clamp(min=-2).exp()).log_prob(truth).flatten(1).mean(1)
    torch.testing.assert_close(losses.laplace(depth, truth, gamma), expected)


def test_depth_learns_nothing_from_a_relative_scale() -> None:
    """b = s d: the gradient of the depth is that of the error alone."""
    truth = depths(1, 1, 4, 4)
    log_depth = depths(1, 1, 4, 4, seed=1).log().requires_grad_()
    s = 0.1
    losses.laplace_log(log_depth.exp(), truth, s * log_depth.exp()).sum().backward()
    torch.testing.assert_close(log_depth.grad, (log_depth.detach() - truth.log()).sign() / s / 16)


def slow_gradient_l1(gradients: list[Tensor], truth: Tensor, cell_size: int) -> Tensor:
    """The equation cell by cell, for one image [1, 1, H, W]."""
    means = []
    for level, gradient in enumerate(gradients):
        size = cell_size * 2**level
        height, width = gradient.shape[-2:]
        log, share = np.zeros((height, width)), np.zeros((height, width))
        for i in range(height):
            for j in range(width):
                cell = truth[0, 0, i * size : (i + 1) * size, j * size : (j + 1) * size].numpy()
                seen = cell > 0
                share[i, j] = seen.mean()
                log[i, j] = np.log(cell[seen]).mean() if seen.any() else 0
        error = weight = 0.0
        for channel, (di, dj) in enumerate(((0, 1), (1, 0))):
            for i in range(di, height):
                for j in range(dj, width):
                    w = min(share[i, j], share[i - di, j - dj])
                    target = log[i, j] - log[i - di, j - dj]
                    error += w * abs(float(gradient[0, channel, i, j]) - target)
                    weight += w
        means.append(error / weight)
    return torch.tensor([np.mean(means)])


@pytest.mark.parametrize("cell", [2, 4])
@pytest.mark.parametrize("size", [(32, 48), (36, 44)])
def test_gradient_l1_agrees_with_its_equation_cell_by_cell(size: tuple[int, int], cell: int) -> None:
    truth = with_holes(depths(1, 1, *size))
    truth[..., :10, :10] = 0
    h, w = size[0] // cell, size[1] // cell
    gradients = []
    for _ in range(3):
        gradients.append(torch.randn(1, 2, h, w, dtype=torch.float64, generator=generator(h)))
        h, w = -(-h // 2), -(-w // 2)
    torch.testing.assert_close(losses.gradient_l1(gradients, truth), slow_gradient_l1(gradients, truth, cell))


def slow_gradient_nll(gradient: Tensor, weights: Tensor, truth: Tensor) -> Tensor:
    """The equation edge by edge, for one level, cells of two pixels and one image [1, 1, H, W] without holes."""
    log = np.log(truth[0, 0].numpy()).reshape(gradient.shape[2], 2, gradient.shape[3], 2).mean(axis=(1, 3))
    squares, logarithms = [], []
    for channel, (di, dj) in enumerate(((0, 1), (1, 0))):
        for i in range(di, log.shape[0]):
            for j in range(dj, log.shape[1]):
                error = float(gradient[0, channel, i, j]) - (log[i, j] - log[i - di, j - dj])
                weight = float(weights[0, channel, i, j])
                squares.append(weight * (error**2 + losses.LEAST_GRADIENT**2))
                logarithms.append(np.log(weight))
    return torch.tensor([np.log(np.mean(squares)) - np.mean(logarithms)])


def edge_problem() -> tuple[Tensor, Tensor, Tensor]:
    """Gradients and edge weights of one level, and the truth."""
    gradient = torch.randn(1, 2, 6, 8, dtype=torch.float64, generator=generator(1))
    weights = torch.rand(1, 2, 6, 8, dtype=torch.float64, generator=generator(2)) + 0.1
    return gradient, weights, depths(1, 1, 12, 16)


def test_gradient_nll_agrees_with_its_equation_edge_by_edge() -> None:
    gradient, weights, truth = edge_problem()
    expected = slow_gradient_nll(gradient, weights, truth)
    torch.testing.assert_close(losses.gradient_nll([gradient], [weights], truth), expected)


def test_gradient_nll_is_least_where_weights_are_inverse_squares_of_the_errors() -> None:
    gradient, weights, truth = edge_problem()
    target = torch.zeros_like(gradient)
    log = F.avg_pool2d(truth.log(), 2)
    target[:, :1, :, 1:], target[:, 1:, 1:] = log[..., 1:] - log[..., :-1], log[..., 1:, :] - log[..., :-1, :]
    best = 1 / ((gradient - target).square() + losses.LEAST_GRADIENT**2)
    least = losses.gradient_nll([gradient], [best], truth)
    torch.testing.assert_close(losses.gradient_nll([gradient], [7 * best], truth), least)
    assert losses.gradient_nll([gradient], [weights], truth) > least + 0.1
    assert losses.gradient_nll([gradient], [best * (1 + 0.1 * weights)], truth) > least


@pytest.mark.parametrize("space", ["log", "linear"])
def test_gradient_l1_vanishes_for_the_truth_of_its_space(space: str) -> None:
    truth = depths(1, 1, 32, 32)
    cells = torch.nn.functional.avg_pool2d(truth.log() if space == "log" else truth, 4)
    gradients = []
    for _ in range(3):
        gradient = torch.zeros(1, 2, *cells.shape[-2:], dtype=torch.float64)
        gradient[:, 0, :, 1:] = (cells[..., 1:] - cells[..., :-1])[:, 0]
        gradient[:, 1, 1:] = (cells[..., 1:, :] - cells[..., :-1, :])[:, 0]
        gradients.append(gradient)
        cells = torch.nn.functional.avg_pool2d(cells, 2)
    other = "linear" if space == "log" else "log"
    assert losses.gradient_l1(gradients, truth, space=space).item() < 1e-12
    assert losses.gradient_l1(gradients, truth, space=other).item() > 0.01


def test_linear_gradients_ignore_holes_and_far_truth() -> None:
    truth = torch.full((1, 1, 8, 16), 2.0, dtype=torch.float64)
    truth[..., :8] = 3.0
    truth[..., 2, 3] = 0  # a hole
    truth[..., 12:] = 50.0  # beyond max_depth
    gradient = torch.zeros(1, 2, 2, 4, dtype=torch.float64)
    gradient[0, 0, :, 2], gradient[0, 0, :, 3] = -1.0, 8.0
    assert losses.gradient_l1([gradient], truth, space="linear").item() < 1e-12


def test_laplace_init_is_laplace_of_the_depth_before_refinement() -> None:
    leaves = make_leaves()
    truth = with_holes(depths(2, 1, 12, 20))
    prediction = make_prediction(leaves)
    weights = {loss.name: 0.0 for loss in losses.LOSSES} | {"laplace": 1.0, "laplace_init": 1.0}
    terms = total(prediction, truth, truth, LossConfig(weights))
    median = masked_median(truth)
    expected = losses.laplace(prediction.depth_init / median, truth / median, (leaves["scale"] / median).log()).mean()
    torch.testing.assert_close(terms["laplace_init"], expected)
    assert terms["laplace_init"] != terms["laplace"]


@pytest.mark.parametrize(("space", "unit"), [("log", 1.0), ("linear", 1.0), ("linear", 250.0)])
def test_perfect_gradients_score_nothing_in_the_space_of_the_network(space: str, unit: float) -> None:
    """Through the configuration; `unit` is that of depth and measurements, which gradients of linear depth have."""
    overrides = [f"network.options.space={space}", "network.options.width=0.125", "network.options.resolutions=1"]
    config = load_config("paper", None, overrides)
    network = build_network(config.network).eval()
    truth = unit * depths(1, 1, 32, 64).float()
    with torch.no_grad():
        prediction = network(torch.rand(1, 3, 32, 64, generator=generator()), truth)
    values = torch.nn.functional.avg_pool2d(truth if space == "linear" else truth.log(), 4)
    perfect = torch.zeros(1, 2, 8, 16)
    perfect[:, :1, :, 1:], perfect[:, 1:, 1:] = values.diff(dim=3), values.diff(dim=2)
    prediction.fields.gradients = (perfect,)
    assert total(prediction, truth, truth, config.loss)["gradient_l1"].item() < 1e-5
    prediction.fields.gradients = (0 * perfect,)
    assert total(prediction, truth, truth, config.loss)["gradient_l1"].item() > 0.05


def test_network_without_integrator_has_no_gradient_loss() -> None:
    leaves = make_leaves()
    prediction = make_prediction(leaves)
    prediction.fields.gradients = ()
    truth = with_holes(depths(2, 1, 12, 20))
    with pytest.raises(ConfigError, match="no integrator"):
        total(prediction, truth, truth, LossConfig())


def test_gradient_matching_ignores_constant_offset() -> None:
    truth = depths(1, 1, 21, 27)
    assert losses.gradient_matching(truth + 3, truth, max_depth=None).item() < 1e-12
    assert losses.gradient_matching(truth * 3, truth, log=True).item() < 1e-12
    holes = with_holes(truth)
    depth = torch.where(holes > 0, truth + 3, 1e6)
    assert losses.gradient_matching(depth, holes, max_depth=None).item() < 1e-9


def test_noise_is_found_on_both_sides_and_where_it_was_injected() -> None:
    truth = torch.full((1, 1, 4, 20), 2.0)
    truth[..., 12:16] = 0
    sparse = torch.zeros_like(truth)
    sparse[0, 0, 1, 1] = 2.02  # right
    sparse[0, 0, 1, 5] = 1.0  # too near
    sparse[0, 0, 1, 9] = 4.0  # too far
    sparse[0, 0, 1, 13] = 3.0  # truth unknown
    target, valid = losses.noise_target(sparse, truth)
    assert target.flatten().tolist()[:3] == [1, 0, 0]
    assert valid.flatten().tolist() == [1, 1, 1, 0, 0]
    injected = torch.zeros_like(truth, dtype=torch.bool)
    injected[0, 0, 1, 13] = True
    injected[0, 0, 3, 18] = True  # nothing was measured here
    target, valid = losses.noise_target(sparse, truth, injected)
    assert target.flatten().tolist() == [1, 0, 0, 0, 1]
    assert valid.flatten().tolist() == [1, 1, 1, 1, 0]
    fine, _ = losses.noise_target(sparse, truth, cell=2)
    assert fine.shape == (1, 1, 2, 10)
    assert fine[0, 0, 0].tolist()[:6] == [1, 1, 0, 1, 0, 1]
    released, _ = losses.noise_target(sparse, truth, released=True)
    assert released.flatten().tolist()[:3] == [1, 1, 0]


def every_term(truth: Tensor, leaves: dict[str, Tensor], sparse: Tensor) -> dict[str, Tensor]:
    gradients = [leaves["g0"], leaves["g1"]]
    sky = torch.isfinite(truth) & (truth == 0) & (sparse.sum() > 0)
    return {
        "l1": losses.l1(leaves["depth"], truth),
        "l1_log": losses.l1_log(leaves["depth"], truth),
        "laplace": losses.laplace(leaves["depth"], truth, leaves["scale"].log()),
        "laplace_log": losses.laplace_log(leaves["depth"], truth, leaves["scale"]),
        "gradient_matching": losses.gradient_matching(leaves["depth"], truth),
        "gradient_matching_log": losses.gradient_matching(leaves["depth"], truth, log=True),
        "gradient_l1": losses.gradient_l1(gradients, truth),
        "gradient_nll": losses.gradient_nll(gradients, [one.exp() for one in gradients], truth),
        "input_confidence": losses.input_confidence(leaves["confidence"], sparse, truth),
        "sky": losses.sky_entropy(leaves["sky"], sky, truth),
    }


TERM_NAMES = sorted(loss.name for loss in losses.LOSSES)


def make_leaves(batch: int = 2, height: int = 12, width: int = 20) -> dict[str, Tensor]:
    h, w = height // 4, width // 4
    leaves = {
        "depth": depths(batch, 1, height, width, seed=5),
        "scale": 0.2 * depths(batch, 1, height, width, seed=6),
        "confidence": torch.rand(batch, 1, h, w, dtype=torch.float64, generator=generator(7)) * 0.8 + 0.1,
        "sky": torch.randn(batch, 1, height, width, dtype=torch.float64, generator=generator(10)),
        "g0": torch.randn(batch, 2, h, w, dtype=torch.float64, generator=generator(8)),
        "g1": torch.randn(batch, 2, -(-h // 2), -(-w // 2), dtype=torch.float64, generator=generator(9)),
    }
    return {name: tensor.requires_grad_() for name, tensor in leaves.items()}


@pytest.mark.parametrize("name", sorted(set(TERM_NAMES) - {"l1_init", "laplace_init"}))
def test_gradients_of_each_term_are_those_of_finite_differences(name: str) -> None:
    leaves = make_leaves(1, 8, 12)
    truth = with_holes(depths(1, 1, 8, 12))
    sparse = truth * (torch.rand(truth.shape, generator=generator(1), dtype=torch.float64) > 0.6)

    def function(*tensors: Tensor) -> Tensor:
        return every_term(truth, dict(zip(leaves, tensors)), sparse)[name]

    assert torch.autograd.gradcheck(function, tuple(leaves.values()), fast_mode=True)


@pytest.mark.parametrize("nothing", [0.0, math.nan])
def test_losses_without_depth_are_zero(nothing: float) -> None:
    leaves = make_leaves()
    truth = torch.full((2, 1, 12, 20), nothing, dtype=torch.float64)
    for name, term in every_term(truth, leaves, torch.zeros_like(truth)).items():
        assert term.tolist() == [0, 0], name
        grads = torch.autograd.grad(term.sum(), list(leaves.values()), allow_unused=True)
        for grad in grads:
            assert grad is None or not grad.any(), name


def make_prediction(leaves: dict[str, Tensor], *, scale: bool = True) -> Prediction:
    return Prediction(
        depth=leaves["depth"],
        depth_init=leaves["depth"] * 1.1,
        laplace_scale=leaves["scale"] if scale else None,
        fields=Fields(
            gradients=(leaves["g0"], leaves["g1"]),
            weights=(leaves["g0"].exp(), leaves["g1"].exp()),
            confidence=leaves["confidence"],
        ),
        log_depth=torch.zeros(1),
        median=torch.ones(1),
        info=None,  # type: ignore[arg-type]
        sky=leaves["sky"],
    )


ALL_TERMS = LossConfig(
    dict.fromkeys(("l1_log", "laplace_init", "laplace_log", "gradient_matching_log", "gradient_nll", "sky"), 1.0)
)


def total(prediction: Prediction, truth: Tensor, sparse: Tensor, config: LossConfig) -> dict[str, Tensor]:
    image = torch.zeros(len(truth), 3, *truth.shape[-2:], dtype=torch.uint8)
    nothing = torch.zeros_like(truth, dtype=torch.bool)
    return losses.total(prediction, Batch(image, sparse, truth, nothing, nothing), config)


def test_total_is_the_weighted_sum_and_names_every_term() -> None:
    leaves = make_leaves()
    truth = with_holes(depths(2, 1, 12, 20))
    terms = total(make_prediction(leaves), truth, truth, ALL_TERMS)
    assert sorted(terms) == sorted([*TERM_NAMES, "total"])
    expected = sum(ALL_TERMS.weight(loss) * terms[loss.name].item() for loss in losses.LOSSES)
    assert terms["total"].item() == pytest.approx(expected)
    without = total(make_prediction(leaves, scale=False), truth, truth, ALL_TERMS)
    assert "laplace" not in without


def test_gradient_nll_needs_edge_weights_of_log_depth() -> None:
    truth = depths(2, 1, 12, 20)
    prediction = make_prediction(make_leaves())
    for fields in (replace(prediction.fields, weights=None), replace(prediction.fields, space="linear")):
        with pytest.raises(ConfigError, match="gradient_nll"):
            total(replace(prediction, fields=fields), truth, truth, ALL_TERMS)


def test_sky_counts_where_sky_or_depth_is_known() -> None:
    logit = torch.tensor([5.0, -5.0, 5.0, 5.0]).reshape(1, 1, 1, 4)
    sky = torch.tensor([True, False, False, False]).reshape(1, 1, 1, 4)
    truth = torch.tensor([0.0, 2.0, 2.0, 0.0]).reshape(1, 1, 1, 4)
    expected = (2 * math.log1p(math.exp(-5)) + 5 + math.log1p(math.exp(-5))) / 3  # the last pixel is unknown
    assert losses.sky_entropy(logit, sky, truth).item() == pytest.approx(expected, rel=1e-6)


def test_total_adds_the_losses_of_earlier_iterations() -> None:
    truth = depths(2, 1, 16, 24)
    leaves = make_leaves(2, 16, 24)
    first, second, last = (make_prediction({**leaves, "depth": leaves["depth"] * k}) for k in (1.0, 1.5, 2.0))
    config = LossConfig(iteration_decay=0.5)
    alone = [total(one, truth, with_holes(truth), config) for one in (first, second, last)]
    together = total(replace(last, earlier=(first, second)), truth, with_holes(truth), config)
    assert together.keys() == alone[2].keys()
    for name, value in together.items():
        torch.testing.assert_close(value, alone[2][name] + 0.5 * alone[1][name] + 0.25 * alone[0][name])


def test_total_does_not_depend_on_the_unit() -> None:
    leaves = make_leaves()
    truth = with_holes(depths(2, 1, 12, 20))
    meters = total(make_prediction(leaves), truth, truth, ALL_TERMS)
    scaled = {**leaves, "depth": leaves["depth"] * 1000, "scale": leaves["scale"] * 1000}
    millimeters = total(make_prediction(scaled), truth * 1000, truth * 1000, ALL_TERMS)
    for name, term in meters.items():
        assert term.item() == pytest.approx(millimeters[name].item(), rel=1e-9), name


def test_batch_is_the_mean_of_its_images() -> None:
    leaves = make_leaves(batch=3)
    truth = with_holes(depths(3, 1, 12, 20))
    truth[1] = 0
    whole = total(make_prediction(leaves), truth, truth, ALL_TERMS)
    parts = [
        total(
            make_prediction({name: tensor[i : i + 1] for name, tensor in leaves.items()}),
            truth[i : i + 1],
            truth[i : i + 1],
            ALL_TERMS,
        )
        for i in range(3)
    ]
    for name, term in whole.items():
        assert term.item() == pytest.approx(np.mean([part[name].item() for part in parts])), name


def test_an_image_counts_by_how_well_it_could_be_interpolated() -> None:
    truth = torch.full((2, 1, 8, 8), 2.0)
    truth[:, :, 0] = 0
    guess = torch.full((2, 1, 4, 4), math.log(2.0))
    guess[1] += 0.3
    weight = losses.relative_weight(guess, truth, 0.01)
    torch.testing.assert_close(weight, losses.TYPICAL_ERROR / torch.tensor([0.01, 0.31]))


def test_relative_terms_need_a_network_that_interpolates() -> None:
    leaves = make_leaves()
    prediction = make_prediction(leaves)
    config = LossConfig({"l1_log": 1.0}, relative=0.02)
    truth, sparse = depths(2, 1, 12, 20, seed=1), depths(2, 1, 12, 20, seed=2)
    with pytest.raises(ConfigError, match="first guess"):
        total(prediction, truth, sparse, config)
    prediction.fields.refinement = CompactRefinement(torch.zeros(2, 1, 6, 10, dtype=truth.dtype))
    plain = total(prediction, truth, sparse, LossConfig({"l1_log": 1.0}))
    relative = total(prediction, truth, sparse, config)
    weight = losses.relative_weight(torch.zeros(2, 1, 6, 10, dtype=truth.dtype), truth / prediction.median, 0.02)
    depth = prediction.depth / masked_median(truth)
    torch.testing.assert_close(relative["l1_log"], (weight * losses.l1_log(depth, truth / masked_median(truth))).mean())
    torch.testing.assert_close(relative["l1"], plain["l1"])
    torch.testing.assert_close(relative["input_confidence"], plain["input_confidence"])


def test_total_new_entry_of_the_table_is_one_more_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    ssim = Loss("ssim", lambda inputs, config: inputs.depth.flatten(1).mean(1), weight=2.0)
    monkeypatch.setattr(losses, "LOSSES", (*losses.LOSSES, ssim))
    truth = depths(2, 1, 12, 20)
    without = total(make_prediction(make_leaves()), truth, truth, LossConfig({"ssim": 0.0}))
    terms = total(make_prediction(make_leaves()), truth, truth, LossConfig())
    assert "ssim" not in without
    assert terms["total"].item() == pytest.approx(without["total"].item() + 2 * terms["ssim"].item())


def test_total_without_any_weight_is_refused() -> None:
    truth = depths(2, 1, 12, 20)
    with pytest.raises(ConfigError, match="weight 0"):
        total(make_prediction(make_leaves()), truth, truth, LossConfig(dict.fromkeys(TERM_NAMES, 0.0)))
    with pytest.raises(ConfigError, match="no loss 'l3'"):
        LossConfig({"l3": 1.0})


def test_sky_entropy_counts_sky_and_known_depth_only() -> None:
    logit = torch.tensor([[[[5.0, -5.0, 5.0, -5.0]]]], requires_grad=True)
    sky, depth = torch.tensor([[[[True, False, False, False]]]]), torch.tensor([[[[0.0, 2.0, 2.0, 0.0]]]])
    value = losses.sky_entropy(logit, sky, depth)
    right, wrong = math.log1p(math.exp(-5)), 5 + math.log1p(math.exp(-5))
    assert value.item() == pytest.approx((2 * right + wrong) / 3, rel=1e-5)
    value.sum().backward()
    assert logit.grad is not None
    assert logit.grad[0, 0, 0, 3] == 0  # neither sky nor known depth


def test_resize_gt_agrees_with_pooling_and_skips_unknown() -> None:
    truth = depths(1, 1, 12, 20)
    half = losses.resize_gt(truth, (6, 10))
    torch.testing.assert_close(half.log(), torch.nn.functional.avg_pool2d(truth.log(), 2))
    truth[..., :2, :2] = torch.tensor([[3.0, 0], [3.0, 3.0]])
    truth[..., :2, 2:4] = torch.tensor([[3.0, 0], [0, 0]])
    half = losses.resize_gt(truth, (6, 10))
    assert half[0, 0, 0, :2].tolist() == pytest.approx([3.0, 0.0])


@pytest.mark.parametrize("working", [(16, 24), (24, 40)])
def test_gradient_loss_at_a_working_size_compares_that_size(working: tuple[int, int]) -> None:
    """Predicted gradients of the ground truth at the working size have no error, whatever the output size."""
    truth = depths(1, 1, 32, 48)
    log = torch.nn.functional.avg_pool2d(losses.resize_gt(truth, working).log(), 4)
    gradient = torch.zeros(1, 2, *log.shape[-2:], dtype=torch.float64)
    gradient[:, 0, :, 1:] = (log[..., 1:] - log[..., :-1])[:, 0]
    gradient[:, 1, 1:] = (log[..., 1:, :] - log[..., :-1, :])[:, 0]
    leaves = make_leaves(1, 32, 48) | {"g0": gradient, "confidence": torch.full((1, 1, 32, 48), 0.5).double()}
    prediction = make_prediction(leaves)
    prediction.fields.gradients = (gradient,)
    nothing = torch.zeros_like(truth, dtype=torch.bool)
    image = torch.zeros(1, 3, 32, 48, dtype=torch.uint8)
    batch = Batch(image, truth, truth, nothing, nothing, working_size=working)
    assert losses.total(prediction, batch, LossConfig())["gradient_l1"].item() < 1e-12
