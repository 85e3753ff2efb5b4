"""Behavior of the integrator as users call it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from omnidc.errors import ConvergenceError, InputError
from omnidc.integrate import ConvergenceWarning, integrate
from omnidc.integrate.gallery import Problem, stepped_surface
from omnidc.integrate.reference import Reference

SIZES = [(1, 1), (1, 7), (9, 1), (2, 2), (5, 6), (7, 13), (16, 24), (17, 31)]


def reference_solution(p: Problem, alpha: float = 5.0) -> list[Reference]:
    out = []
    for b in range(p.sparse_log_depth.shape[0]):
        data_weight = alpha * p.mask[b, 0] * p.confidence[b, 0]
        out.append(
            Reference(
                [g[b].double().numpy() for g in p.gradients],
                p.sparse_log_depth[b, 0].double().numpy(),
                data_weight.double().numpy(),
                [w[b].double().numpy() for w in p.weights],
            )
        )
    return out


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_solution_equals_the_direct_solvers(size: tuple[int, int], levels: int) -> None:
    p = stepped_surface(*size, batch=2, levels=levels, points=0.1, weights="random", dtype=torch.float64)
    x, info = integrate(*p.arguments(), rtol=1e-12)
    assert bool(info.converged.all())
    for b, reference in enumerate(reference_solution(p)):
        np.testing.assert_allclose(x[b, 0].numpy(), reference.solve(), atol=1e-8)


@pytest.mark.parametrize("method", ["cg", "jacobi", "multigrid"])
def test_every_method_finds_the_same_solution(method: str) -> None:
    p = stepped_surface(30, 41, points=20, dtype=torch.float64)
    x, info = integrate(*p.arguments(), rtol=1e-10, method=method)  # type: ignore[arg-type]
    assert bool(info.converged.all())
    np.testing.assert_allclose(x[0, 0].numpy(), reference_solution(p)[0].solve(), atol=1e-6)


def test_gradients_equal_the_direct_solvers() -> None:
    p = stepped_surface(11, 14, batch=2, points=9, weights="random", dtype=torch.float64)
    leaves = [t.clone().requires_grad_() for t in (*p.gradients, *p.weights, p.sparse_log_depth, p.confidence)]
    x, _ = integrate(leaves[:3], leaves[6], p.mask, leaves[7], leaves[3:6], rtol=1e-13)
    upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    x.backward(upstream)  # type: ignore[no-untyped-call]
    for b, reference in enumerate(reference_solution(p)):
        reference.solve()
        expected = reference.backward(upstream[b, 0].numpy())
        for level in range(3):
            np.testing.assert_allclose(leaves[level].grad[b].numpy(), expected["gradients"][level], atol=1e-9)
            np.testing.assert_allclose(leaves[3 + level].grad[b].numpy(), expected["weights"][level], atol=1e-9)
        mask = p.mask[b, 0].numpy()
        np.testing.assert_allclose(leaves[6].grad[b, 0].numpy(), expected["sparse_log_depth"][0] * mask, atol=1e-9)
        np.testing.assert_allclose(leaves[7].grad[b, 0].numpy(), 5 * expected["data_weight"][0] * mask, atol=1e-9)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("size", [(4, 4), (5, 7)], ids=str)
def test_gradcheck_of_every_input(size: tuple[int, int], levels: int) -> None:
    p = stepped_surface(*size, batch=2, levels=levels, points=3, weights="random", dtype=torch.float64)
    alpha = torch.tensor(5.0, dtype=torch.float64)
    leaves = [t.clone().requires_grad_() for t in (*p.gradients, *p.weights, p.sparse_log_depth, p.confidence, alpha)]

    def run(*t: Tensor) -> Tensor:
        n = levels
        return integrate(t[:n], t[2 * n], p.mask, t[2 * n + 1], t[n : 2 * n], alpha=t[2 * n + 2], rtol=1e-14)[0]

    assert torch.autograd.gradcheck(run, leaves)


@pytest.mark.parametrize("case", [f"{s}_R{r}_B1" for s in ("24x32", "64x80") for r in (1, 2, 3)] + ["24x32_R3_B2"])
def test_agrees_with_the_released_layers_golden(shared: Path, case: str) -> None:
    with np.load(shared / "reference" / "golden" / "ddi.npz") as z:
        data = {k.removeprefix(case + "_"): torch.from_numpy(z[k]) for k in z.files if k.startswith(case + "_")}
    levels = data["grad"].shape[1] // 2

    def unpack(packed: Tensor) -> list[Tensor]:
        h, w = packed.shape[-2:]
        return [packed[:, 2 * r : 2 * r + 2, : h >> r, : w >> r].double() for r in range(levels)]

    gradients = [g.clone().requires_grad_() for g in unpack(data["grad"])]
    weights = [w.clone().requires_grad_() for w in unpack(data["grad_conf"])]
    confidence = data["input_conf"][:, :1].double().requires_grad_()
    sparse_log_depth = data["sparse_log"].double().requires_grad_()
    x, _ = integrate(gradients, sparse_log_depth, data["mask"].double(), confidence, weights, rtol=1e-13)
    # The golden inputs are stored as float32, the exact results were made before that rounding: 1e-7 is what is left.
    np.testing.assert_allclose(x.detach().numpy(), data["x_exact"].numpy(), atol=2e-7)
    np.testing.assert_allclose(x.detach().numpy(), data["x_official_f32"].numpy(), atol=3e-4)
    x.backward(data["upstream"].double())  # type: ignore[no-untyped-call]
    for r, (g, w) in enumerate(zip(gradients, weights, strict=True)):
        np.testing.assert_allclose(g.grad.numpy(), unpack(data["dgrad_exact"])[r].numpy(), atol=1e-6)
        np.testing.assert_allclose(w.grad.numpy(), unpack(data["dgrad_conf_exact"])[r].numpy(), atol=1e-6)
    np.testing.assert_allclose(confidence.grad.numpy(), data["dinput_conf_exact"][:, :1].numpy(), atol=1e-6)
    np.testing.assert_allclose(sparse_log_depth.grad.numpy(), data["dsparse_log_exact"].numpy(), atol=1e-6)

    single, _ = integrate(
        [g.detach().float() for g in gradients],
        data["sparse_log"].float(),
        data["mask"].float(),
        data["input_conf"][:, :1].float(),
        [w.detach().float() for w in weights],
    )
    np.testing.assert_allclose(single.numpy(), data["x_exact"].numpy(), atol=3e-4)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from(["uniform", "random"]),
    st.integers(0, 99),
)
def test_converges_within_twenty_iterations_at_any_size(h: int, w: int, points: int, weights: str, seed: int) -> None:
    p = stepped_surface(h, w, points=points, weights=weights, seed=seed)  # type: ignore[arg-type]
    x, info = integrate(*p.arguments(), on_failure="raise")
    assert bool(torch.isfinite(x).all())
    assert int(info.iterations.max()) <= 20


@pytest.mark.parametrize("points", [3, 0.01, 0.2])
def test_solve_weak_contours_need_few_iterations(points: float) -> None:
    p = stepped_surface(90, 121, points=points, weights="edges")
    _, info = integrate(*p.arguments(), alpha=30.0, on_failure="raise")
    assert int(info.iterations) <= 25


@given(st.floats(-13.8, 20.7), st.integers(1, 30))
def test_a_unit_shifts_log_depth_and_changes_nothing_else(log_unit: float, points: int) -> None:
    p = stepped_surface(24, 33, points=points)
    x, _ = integrate(*p.arguments())
    shifted, _ = integrate(p.gradients, p.sparse_log_depth + log_unit, p.mask, p.confidence, p.weights)
    assert float((shifted - x - log_unit).abs().max()) < 1e-5


def test_an_image_does_not_depend_on_its_neighbors_in_the_batch() -> None:
    p = stepped_surface(40, 52, batch=3, points=12, weights="random")
    x, info = integrate(*p.arguments())
    for b in range(3):
        part = slice(b, b + 1)
        alone, alone_info = integrate(
            [g[part] for g in p.gradients],
            p.sparse_log_depth[part],
            p.mask[part],
            p.confidence[part],
            [w[part] for w in p.weights],
        )
        assert int(alone_info.iterations) == int(info.iterations[b])
        torch.testing.assert_close(alone, x[part], rtol=0, atol=1e-6)


@pytest.mark.parametrize("how", ["no points", "no confidence"])
def test_solve_without_measurements_has_zero_mean(how: str) -> None:
    p = stepped_surface(20, 27, noise=0.0)
    mask = torch.zeros_like(p.mask) if how == "no points" else p.mask
    confidence = torch.zeros_like(p.confidence) if how == "no confidence" else p.confidence
    gradients = [g.clone().requires_grad_() for g in p.gradients]
    x, info = integrate(gradients, p.sparse_log_depth, mask, confidence, p.weights)
    assert not bool(info.is_constrained.any())
    assert bool(info.converged.all())
    assert abs(float(x.detach().mean())) < 1e-6
    torch.testing.assert_close(x, p.surface - p.surface.mean(), rtol=0, atol=1e-3)
    x.square().sum().backward()  # type: ignore[no-untyped-call]
    assert all(bool(torch.isfinite(g.grad).all()) for g in gradients if g.grad is not None)


def test_gradients_without_measurements_pass_gradcheck() -> None:
    p = stepped_surface(4, 5, levels=2, dtype=torch.float64)
    leaves = [t.clone().requires_grad_() for t in (*p.gradients, *p.weights)]
    mask = torch.zeros_like(p.mask)

    def run(*t: Tensor) -> Tensor:
        return integrate(t[:2], p.sparse_log_depth, mask, None, t[2:], rtol=1e-14)[0]

    assert torch.autograd.gradcheck(run, leaves)


def test_one_point_fixes_the_scale_exactly() -> None:
    p = stepped_surface(33, 50, points=1, noise=0.0)
    x, info = integrate(*p.arguments(), rtol=1e-6)
    assert bool(info.is_constrained.all())
    torch.testing.assert_close(x, p.surface, rtol=0, atol=1e-3)


def test_a_faint_point_is_still_followed() -> None:
    p = stepped_surface(33, 50, points=1, noise=0.0)
    x, _ = integrate(p.gradients, p.sparse_log_depth, p.mask, torch.full_like(p.confidence, 1e-4), p.weights, rtol=1e-6)
    torch.testing.assert_close(x, p.surface, rtol=0, atol=5e-3)


def test_a_warm_start_at_the_solution_needs_no_iteration() -> None:
    p = stepped_surface(40, 40, points=10)
    x, _ = integrate(*p.arguments(), rtol=1e-6)
    again, info = integrate(*p.arguments(), warm_start=x, rtol=1e-4)
    assert int(info.iterations) == 0
    torch.testing.assert_close(again, x)


def test_not_converging_is_never_silent() -> None:
    p = stepped_surface(40, 40, points=3)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        _, info = integrate(*p.arguments(), max_iterations=2)
    assert not bool(info.converged.any())
    with pytest.raises(ConvergenceError, match="relative residual"):
        integrate(*p.arguments(), max_iterations=2, on_failure="raise")


def test_residual_history_falls_below_the_tolerance() -> None:
    p = stepped_surface(40, 40, batch=2, points=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, info = integrate(*p.arguments(), rtol=1e-4)
    assert info.residuals.shape == (int(info.iterations.max()) + 1, 2)
    assert float(info.residuals[0].min()) == pytest.approx(1.0)
    assert bool((info.residuals[-1] <= 1e-4).all())


@pytest.mark.parametrize("alpha", [5.0, 5e3, 5e5])
@pytest.mark.parametrize("weights", ["uniform", "edges"])
def test_solve_accuracy_is_independent_of_data_weight(alpha: float, weights: str) -> None:
    problem = stepped_surface(60, 80, batch=2, weights=weights, dtype=torch.float64)  # type: ignore[arg-type]
    warm_start = problem.surface + 0.1 * torch.sin(torch.arange(80.0, dtype=torch.float64))
    warm_start = torch.where(
        problem.mask > 0, problem.surface, warm_start
    )  # meets the points, as an interpolation does
    exact, _ = integrate(*problem.arguments(), alpha=alpha, rtol=1e-12)
    x, info = integrate(*problem.arguments(), alpha=alpha, warm_start=warm_start, xtol=1e-3)
    spread = (exact - exact.mean((1, 2, 3), keepdim=True)).square().mean().sqrt()
    assert bool(info.converged.all())
    assert float((x - exact).square().mean().sqrt()) < 1e-2 * float(spread)  # the estimate is no bound
    if alpha > 1000:  # the residual says little there
        early, _ = integrate(*problem.arguments(), alpha=alpha, warm_start=warm_start, rtol=3e-3)
        assert float((early - exact).square().mean()) > float((x - exact).square().mean())


def test_solve_images_of_a_batch_stop_separately() -> None:
    problem = stepped_surface(40, 56, batch=3, weights="edges")
    together, info = integrate(*problem.arguments(), xtol=1e-3)
    for i in range(3):
        lists = [[one[i : i + 1] for one in part] for part in (problem.gradients, problem.weights)]
        maps = [part[i : i + 1] for part in (problem.sparse_log_depth, problem.mask, problem.confidence)]
        alone, own = integrate(lists[0], *maps, lists[1], xtol=1e-3)
        assert int(own.iterations) == int(info.iterations[i])
        torch.testing.assert_close(alone, together[i : i + 1], rtol=0, atol=1e-5)


def test_integrate_old_keyword_start_warns_and_works() -> None:
    p = stepped_surface(40, 40, points=10)
    x, _ = integrate(*p.arguments(), rtol=1e-6)
    with pytest.warns(DeprecationWarning, match="start is now warm_start"):
        _, info = integrate(*p.arguments(), start=x, rtol=1e-4)
    assert int(info.iterations) == 0
    with pytest.raises(TypeError, match="'stat'"):
        integrate(*p.arguments(), stat=x)


def test_solve_exact_warm_start_needs_no_iterations() -> None:
    problem = stepped_surface(40, 56, dtype=torch.float64)
    exact, _ = integrate(*problem.arguments(), rtol=1e-12)
    _, info = integrate(*problem.arguments(), warm_start=exact, xtol=1e-3)
    assert int(info.iterations) == 0
    flat = [torch.zeros_like(g) for g in problem.gradients]
    x, info = integrate(flat, torch.full_like(exact, 2.0), problem.mask, xtol=1e-3)
    assert bool(info.converged)
    torch.testing.assert_close(x, torch.full_like(exact, 2.0))


def test_backward_tolerance_leaves_result_unchanged() -> None:
    problem = stepped_surface(60, 80, weights="edges", dtype=torch.float64)
    gradients, sparse_log_depth, mask, confidence, weights = problem.arguments()
    upstream = torch.randn(sparse_log_depth.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    results, slopes = [], []
    for xtol in (1e-9, 1e-2):
        leaves = [g.detach().clone().requires_grad_() for g in gradients]
        x, _ = integrate(leaves, sparse_log_depth, mask, confidence, weights, alpha=5e3, xtol=1e-9, backward_xtol=xtol)
        x.backward(upstream)
        results.append(x.detach())
        slopes.append(torch.cat([g.grad.flatten() for g in leaves if g.grad is not None]))
    assert torch.equal(*results)
    error = float((slopes[1] - slopes[0]).norm() / slopes[0].norm())
    assert 1e-6 < error < 0.1


def test_solve_constant_needs_no_iterations() -> None:
    zeros = [torch.zeros(1, 2, 8, 8)]
    mask = torch.zeros(1, 1, 8, 8)
    mask[..., 2, 3] = mask[..., 5, 5] = 1
    x, info = integrate(zeros, torch.full((1, 1, 8, 8), 3.25), mask)
    assert int(info.iterations) == 0
    assert bool((x == 3.25).all())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gradients": [torch.zeros(1, 2, 4, 4)]}, r"level 0 must have shape \[1, 2, 8, 8\]"),
        ({"gradients": []}, "at least one resolution"),
        ({"weights": [-torch.ones(1, 2, 8, 8)]}, "must not be negative"),
        ({"weights": [torch.ones(1, 2, 8, 8)] * 2}, "1 levels of gradients but 2 of weights"),
        ({"mask": torch.ones(1, 1, 4, 8)}, r"both be \[B, 1, h, w\]"),
        ({"sparse_log_depth": torch.full((1, 1, 8, 8), torch.nan)}, "NaN or infinite"),
        ({"method": "gauss"}, "Unknown solver"),
    ],
)
def test_bad_input_is_one_sentence(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "gradients": [torch.zeros(1, 2, 8, 8)],
        "sparse_log_depth": torch.zeros(1, 1, 8, 8),
        "mask": torch.ones(1, 1, 8, 8),
    }
    with pytest.raises(InputError, match=message):
        integrate(**{**arguments, **change})  # type: ignore[arg-type]
