"""The parts of the V-cycle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from omnidc.integrate import integrate
from omnidc.integrate.energy import System, pool, pool_transpose, split_edges
from omnidc.integrate.gallery import stepped_surface
from omnidc.integrate.multigrid import Multigrid, coarsen, smoother_diagonal

sizes = st.tuples(st.integers(1, 21), st.integers(1, 21))


def system_of(height: int, width: int, levels: int = 3, **kwargs: object) -> System:
    p = stepped_surface(height, width, levels=levels, dtype=torch.float64, **kwargs)  # type: ignore[arg-type]
    return System(5 * p.mask * p.confidence, [split_edges(w) for w in p.weights])


def dense(operator: object, height: int, width: int) -> torch.Tensor:
    n = height * width
    identity = torch.eye(n, dtype=torch.float64).reshape(n, 1, height, width)
    return torch.cat([operator(e[None]) for e in identity]).reshape(n, n)  # type: ignore[operator]


@given(sizes, st.integers(1, 3))
def test_pooling_and_its_transpose_are_adjoint(size: tuple[int, int], level: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, *size, generator=generator, dtype=torch.float64)
    pooled = pool(x, level)
    y = torch.randn(pooled.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close((pooled * y).sum(), (x * pool_transpose(y, level, size)).sum())


@given(sizes, st.sampled_from(["uniform", "random", "edges"]))
def test_restriction_is_the_transpose_of_prolongation(size: tuple[int, int], weights: str) -> None:
    generator = torch.Generator().manual_seed(0)
    _, transfer = coarsen(system_of(*size, weights=weights, points=2))
    coarse = torch.randn(1, 1, *transfer.coarse, generator=generator, dtype=torch.float64)
    fine = torch.randn(1, 1, *size, generator=generator, dtype=torch.float64)
    torch.testing.assert_close((transfer.prolong(coarse) * fine).sum(), (coarse * transfer.restrict(fine)).sum())


@given(sizes, st.sampled_from(["uniform", "random", "edges"]))
def test_prolongation_keeps_constants(size: tuple[int, int], weights: str) -> None:
    _, transfer = coarsen(system_of(*size, weights=weights, points=2))
    ones = torch.ones(1, 1, *transfer.coarse, dtype=torch.float64)
    torch.testing.assert_close(transfer.prolong(ones), torch.ones(1, 1, *size, dtype=torch.float64))


def test_prolongation_with_equal_weights_is_bilinear() -> None:
    system = system_of(12, 16, points=1)
    system.data_weight.zero_()
    _, transfer = coarsen(system)
    coarse = torch.rand(1, 1, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.nn.functional.interpolate(coarse, scale_factor=2, mode="bilinear")
    torch.testing.assert_close(transfer.prolong(coarse), expected)


@given(sizes, st.integers(1, 4))
def test_operator_is_symmetric_with_the_stated_diagonal(size: tuple[int, int], levels: int) -> None:
    system = system_of(*size, levels=levels, weights="random")
    matrix = dense(system.apply, *size)
    torch.testing.assert_close(matrix, matrix.T)
    torch.testing.assert_close(matrix.diagonal(), system.diagonal().flatten())


@given(sizes, st.integers(1, 4), st.sampled_from(["uniform", "random", "edges"]))
def test_smoother_diagonal_bounds_the_operator(size: tuple[int, int], levels: int, weights: str) -> None:
    system = system_of(*size, levels=levels, weights=weights, points=2)
    scale = smoother_diagonal(system).flatten().rsqrt()
    largest = torch.linalg.eigvalsh(scale[:, None] * dense(system.apply, *size) * scale[None, :]).max()
    assert float(largest) < 1.4 + 1e-9


def test_coarse_system_keeps_total_data_weight() -> None:
    system = system_of(13, 18)
    coarse, _ = coarsen(system)
    assert coarse.size == (7, 9)
    assert len(coarse.edges) == 2
    torch.testing.assert_close(coarse.data_weight.sum(), system.data_weight.sum())


def test_coarse_pooled_term_is_the_fine_one_on_blocks() -> None:
    fine = system_of(16, 16, levels=3)
    fine.edges[0] = (torch.zeros_like(fine.edges[0][0]), torch.zeros_like(fine.edges[0][1]))
    coarse, _ = coarsen(fine)
    x = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    blocks = x.repeat_interleave(2, -1).repeat_interleave(2, -2)
    torch.testing.assert_close(4 * pool(fine.apply(blocks), 1), coarse.apply(x))


@given(st.tuples(st.integers(12, 21), st.integers(12, 21)), st.sampled_from(["uniform", "random", "edges"]))
def test_v_cycle_is_symmetric_and_positive(size: tuple[int, int], weights: str) -> None:
    system = system_of(*size, weights=weights, points=3)
    matrix = dense(Multigrid(system), *size)
    torch.testing.assert_close(matrix, matrix.T, rtol=1e-6, atol=1e-9)
    assert float(torch.linalg.eigvalsh(matrix).min()) > 0


@pytest.mark.parametrize("seed", range(3))
def test_cycle_weak_beside_strong_edges_keeps_rounding_small(seed: int) -> None:
    """Strong edges along x, weak and uneven ones along y: M⁻¹ A has no eigenvalue far above 1."""
    random = torch.Generator().manual_seed(seed)
    weights = []
    for level in range(4):
        shape = (1, 1, 64 >> level, 96 >> level)
        along_x = torch.full(shape, 2.5e-4 if level else 0.5)
        along_y = 2.5e-4 * torch.exp(4 * torch.rand(shape, generator=random))
        weights.append(torch.cat([along_x, along_y], dim=1).double())
    measured = (torch.rand(1, 1, 64, 96, generator=random) < 0.01).double()
    system = System(8 * measured, [split_edges(w) for w in weights])
    cycle = Multigrid(system, levels=3)
    x = torch.randn(1, 1, 64, 96, generator=random, dtype=torch.float64)
    for _ in range(60):  # power iteration
        x = cycle(system.apply(x))
        eigenvalue = float(x.norm())
        x /= eigenvalue
    assert eigenvalue < 1.4

    gradients = [0.05 * torch.randn(w.shape, generator=random, dtype=torch.float64) for w in weights]
    sparse = measured * torch.randn(measured.shape, generator=random, dtype=torch.float64)
    results = []
    for dtype in (torch.float32, torch.float64):
        problem = [g.to(dtype) for g in gradients], sparse.to(dtype), measured.to(dtype), None
        x, _ = integrate(*problem, [w.to(dtype) for w in weights], alpha=8.0, iterations=16, levels=3)
        results.append(x.double())
    torch.testing.assert_close(*results, rtol=0, atol=2e-5)
