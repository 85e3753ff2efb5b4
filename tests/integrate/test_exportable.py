"""The solver that exports agrees with the one that does not."""

from __future__ import annotations

import pytest
import torch

from omnidc.integrate import integrate
from omnidc.integrate.exportable import integrate_fixed
from omnidc.integrate.gallery import stepped_surface


@pytest.mark.parametrize("weights", ["uniform", "random", "edges"])
@pytest.mark.parametrize("size", [(32, 48), (120, 160), (56, 88)])
def test_fixed_solver_reaches_the_solution(size: tuple[int, int], weights: str) -> None:
    problem = stepped_surface(*size, batch=2, levels=4, weights=weights, dtype=torch.float64)  # type: ignore[arg-type]
    exact, _ = integrate(*problem.arguments(), alpha=100.0, rtol=1e-10)
    data_weight = 100.0 * problem.mask * problem.confidence
    start = torch.zeros_like(exact)
    x, residual = integrate_fixed(
        problem.gradients, problem.observed * problem.mask, data_weight, problem.weights, start, 80
    )
    assert residual.max() < 1e-6
    torch.testing.assert_close(x, exact, atol=5e-4, rtol=0)


def test_fixed_solver_from_the_solution_stays_there() -> None:
    problem = stepped_surface(40, 64, levels=3, dtype=torch.float64)
    exact, _ = integrate(*problem.arguments(), rtol=1e-12)
    data_weight = 5.0 * problem.mask * problem.confidence
    x, _ = integrate_fixed(problem.gradients, problem.observed * problem.mask, data_weight, problem.weights, exact, 3)
    torch.testing.assert_close(x, exact, atol=1e-8, rtol=0)


def test_fixed_solver_residual_falls_with_iterations() -> None:
    problem = stepped_surface(64, 96, levels=4, weights="edges")
    arguments = (
        problem.gradients,
        problem.observed * problem.mask,
        100.0 * problem.mask,
        problem.weights,
        torch.zeros(1, 1, 64, 96),
    )
    residuals = [float(integrate_fixed(*arguments, n)[1]) for n in (2, 6, 12)]
    assert residuals[0] > 3 * residuals[1] > 9 * residuals[2]
