"""Measurements in the cells of a grid."""

from __future__ import annotations

import torch
from torch import Tensor

from omnidc.network.cells import Cells, central_slope, edge_slope, pixel_cells


def measurements(height: int = 16, width: int = 24) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    log_depth = torch.randn(2, 1, height, width, generator=generator, dtype=torch.float64)
    weight = torch.rand(log_depth.shape, generator=generator, dtype=torch.float64)
    return log_depth, weight * (torch.rand(log_depth.shape, generator=generator) < 0.3)


def slow_cells(log_depth: Tensor, weight: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Sums and offsets of cells of `size` pixels, one measurement after the other."""
    batch, _, height, width = log_depth.shape
    sums = torch.zeros(batch, 2, height // size, width // size, dtype=torch.float64)
    offset = torch.zeros_like(sums)
    for b, _, y, x in weight.nonzero().tolist():
        w, cell = weight[b, 0, y, x], (y // size, x // size)
        sums[b, 0][cell] += w
        sums[b, 1][cell] += w * log_depth[b, 0, y, x]
        offset[b, 0][cell] += w * ((x + 0.5) / size - cell[1] - 0.5)
        offset[b, 1][cell] += w * ((y + 0.5) / size - cell[0] - 0.5)
    return sums, offset


def test_coarser_cells_equal_sums_over_measurements() -> None:
    log_depth, weight = measurements()
    cells = pixel_cells(log_depth, weight)
    for size in (2, 4, 8):
        cells = cells.coarser()
        sums, offset = slow_cells(log_depth, weight, size)
        assert cells.offset is not None
        torch.testing.assert_close(cells.sums, sums)
        torch.testing.assert_close(cells.offset, offset)


def test_residual_of_plane_is_zero_wherever_it_was_measured() -> None:
    _, weight = measurements()
    y, x = torch.meshgrid(torch.arange(16.0) + 0.5, torch.arange(24.0) + 0.5, indexing="ij")
    plane = (0.3 + 0.02 * x - 0.05 * y).double().expand(2, 1, 16, 24)
    cells = pixel_cells(plane, weight).coarser().coarser()
    middle = torch.nn.functional.avg_pool2d(plane, 4)
    residual = cells.residual(middle, central_slope(middle))
    torch.testing.assert_close(residual, torch.zeros_like(residual), atol=1e-6, rtol=0)
    assert cells.residual(middle, None).abs().max() > 0.01  # without the slope it is not


def test_residual_of_cells_in_the_middle_needs_no_slope() -> None:
    log_depth, weight = measurements()
    cells = pixel_cells(log_depth, weight)
    zero = torch.zeros_like(log_depth)
    torch.testing.assert_close(cells.residual(zero, torch.ones_like(cells.sums)), weight * log_depth)


def test_edge_slope_with_equal_weights_is_central_slope() -> None:
    x, _ = measurements()
    gradients = torch.zeros(2, 2, 16, 24, dtype=torch.float64)
    gradients[:, :1, :, 1:] = x[..., 1:] - x[..., :-1]
    gradients[:, 1:, 1:, :] = x[..., 1:, :] - x[..., :-1, :]
    torch.testing.assert_close(edge_slope(gradients, torch.full_like(gradients, 0.3)), central_slope(x))


def test_edge_slope_ignores_gradient_across_outline() -> None:
    gradients, weights = torch.zeros(1, 2, 4, 6), torch.ones(1, 2, 4, 6)
    gradients[:, 0] = 0.1
    gradients[:, 0, :, 3], weights[:, 0, :, 3] = 2.0, 1e-6
    slope = edge_slope(gradients, weights)
    torch.testing.assert_close(slope[:, 0], torch.full((1, 4, 6), 0.1), atol=1e-4, rtol=0)


def test_crop_keeps_first_cells() -> None:
    log_depth, weight = measurements()
    cells = pixel_cells(log_depth, weight).coarser()
    small = cells.crop(3, 5)
    assert small.offset is not None
    assert cells.offset is not None
    assert torch.equal(small.sums, cells.sums[..., :3, :5])
    assert torch.equal(small.offset, cells.offset[..., :3, :5])
    assert Cells(cells.sums, None).crop(3, 5).offset is None
