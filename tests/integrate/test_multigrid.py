"""The parts of the V-cycle."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

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
def test_majorant_bounds_the_operator(size: tuple[int, int], levels: int, weights: str) -> None:
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
