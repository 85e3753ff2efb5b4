from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from omnidc.deploy.compact_export import CompactExport
from omnidc.deploy.fixed_solver import (
    Edges,
    FixedMultigrid,
    apply,
    apply_stencil,
    coarsen,
    integrate_fixed,
    prolong,
    restrict,
    stencil,
)
from omnidc.integrate import integrate
from omnidc.integrate.energy import System, split_edges
from omnidc.network.compact import CompactNetwork

R = 4


def problem(height: int, width: int, share: float, seed: int = 0) -> tuple[list[torch.Tensor], ...]:
    random = torch.Generator().manual_seed(seed)
    sizes = [(height >> r, width >> r) for r in range(R)]
    gradients = [0.05 * torch.randn(2, 2, *size, generator=random) for size in sizes]
    weights = [torch.rand(2, 2, *size, generator=random) ** 3 + 1e-3 for size in sizes]
    mask = (torch.rand(2, 1, height, width, generator=random) < share).float()
    observed = torch.randn(2, 1, height, width, generator=random) * 0.3
    return gradients, weights, [observed, mask]


@pytest.mark.parametrize("size", [(64, 96), (40, 56), (8, 16)])
def test_fixed_solver_equals_the_integrator(size: tuple[int, int]) -> None:
    gradients, weights, (observed, mask) = problem(*size, share=0.05)
    mask[:, :, 0, 0] = 1
    expected, _ = integrate(gradients, observed, mask, weights=weights, alpha=50.0, rtol=1e-6)
    result, residual = integrate_fixed(
        gradients, observed, 50 * mask, weights, torch.zeros_like(observed), iterations=20, levels=3
    )
    assert residual.max() < 1e-4
    assert (result - expected).abs().max() < 1e-3


def test_fixed_solver_without_measurements_has_zero_mean() -> None:
    gradients, weights, (observed, mask) = problem(32, 48, share=0.0)
    expected, _ = integrate(gradients, observed, mask, weights=weights, rtol=1e-6)
    result, _ = integrate_fixed(gradients, observed, 0 * mask, weights, torch.ones_like(observed), 20, 3)
    assert result.mean((1, 2, 3)).abs().max() < 1e-4
    assert (result - expected).abs().max() < 1e-3


def as_edges(weights: list[torch.Tensor]) -> tuple[Edges, ...]:
    return tuple((F.pad(w[:, :1, :, 1:], (1, 0)), F.pad(w[:, 1:, 1:], (0, 0, 1, 0))) for w in weights)


def test_apply_equals_that_of_the_integrator() -> None:
    _, weights, (x, mask) = problem(24, 40, share=0.1)
    system = System(mask, [split_edges(w) for w in weights])
    assert torch.allclose(apply(mask, as_edges(weights), x), system.apply(x), atol=1e-5)


def test_stencil_equals_apply_of_one_resolution() -> None:
    _, weights, (x, mask) = problem(24, 40, share=0.1)
    edges = as_edges(weights[:1])
    assert torch.allclose(apply_stencil(stencil(mask, edges[0]), x), apply(mask, edges, x), atol=1e-5)


def test_restrict_is_the_transpose_of_prolong() -> None:
    _, weights, (fine, mask) = problem(24, 40, share=0.1)
    grid, coarse_anchor, _ = coarsen(mask, as_edges(weights))
    coarse = torch.randn(coarse_anchor.shape)
    assert torch.allclose(
        (prolong(grid.weights, coarse) * fine).sum(), (coarse * restrict(grid.weights, fine)).sum(), rtol=1e-4
    )


def test_preconditioner_is_symmetric_and_positive() -> None:
    _, weights, (x, mask) = problem(24, 40, share=0.1)
    y = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
    M = FixedMultigrid.build(10 * mask, as_edges(weights), 3)
    assert torch.allclose((M(x) * y).sum(), (x * M(y)).sum(), rtol=1e-3)
    assert (M(x) * x).sum() > 0


def test_exported_form_of_the_network_equals_the_network() -> None:
    torch.manual_seed(0)
    network = CompactNetwork().eval()
    image, sparse = torch.rand(2, 3, 64, 96), (torch.rand(2, 1, 64, 96) < 0.03) * (1 + torch.rand(2, 1, 64, 96))
    with torch.inference_mode():
        expected = network(image, sparse)
        depth, scale, confidence, sky, residual, *_ = CompactExport(network)(image, sparse)
    assert torch.allclose(depth, expected.depth, rtol=1e-4)
    assert expected.laplace_scale is not None
    assert torch.allclose(scale, expected.laplace_scale, rtol=1e-3)
    assert torch.equal(confidence, expected.fields.confidence)
    assert expected.sky is not None
    assert torch.allclose(sky, expected.sky.sigmoid(), atol=1e-5)
    assert residual.max() < 1e-4


@pytest.mark.parametrize("iterations", [1, 3, 8])
def test_fixed_solver_equals_unconverged_integrator(iterations: int) -> None:
    """With the same halvings both run the same operations: results agree however far they are from the solution."""
    gradients, weights, (observed, mask) = problem(64, 96, share=0.01)
    start = torch.zeros_like(observed)
    options = {"weights": weights, "alpha": 5.0, "warm_start": start, "iterations": iterations, "levels": 3}
    expected, info = integrate(gradients, observed, mask, **options)
    result, residual = integrate_fixed(gradients, observed, 5 * mask, weights, start, iterations, levels=3)
    assert torch.allclose(result, expected, atol=1e-4)
    assert torch.allclose(residual, info.residuals[-1], rtol=0.02)
