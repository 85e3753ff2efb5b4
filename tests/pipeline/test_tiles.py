from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from omnidc.network.interpolate import Interpolator
from omnidc.pipeline.tiles import TileBlender, run_in_tiles, tiles


def scene(height: int, width: int, points: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(1, 3, height, width, generator=generator)
    sparse = torch.zeros(1, 1, height, width)
    index = torch.randperm(height * width, generator=generator)[:points]
    sparse.view(-1)[index] = 1 + 9 * torch.rand(len(index), generator=generator)
    return image, sparse


@pytest.mark.parametrize("keep_bytes", [1 << 30, 0], ids=["refinement kept", "network run twice"])
@pytest.mark.parametrize("size", [(256, 416), (160, 640), (512, 96)])
def test_tiles_give_the_result_of_the_whole_image(
    Tiny: Callable[..., Any], size: tuple[int, int], keep_bytes: int
) -> None:
    image, sparse = scene(*size)
    network = Tiny(multiple=32).eval()
    whole = run_in_tiles(network, image, sparse)
    network.calls.clear()
    tiled = run_in_tiles(network, image, sparse, tile=128, overlap=64, keep_bytes=keep_bytes)
    windows = len(list(tiles(*size, 128, 64, 32)))
    assert windows >= 6
    assert len(network.calls) == windows * (1 if keep_bytes else 2)
    assert max(map(max, network.calls)) == 128
    torch.testing.assert_close(tiled.depth, whole.depth, rtol=2e-4, atol=0)
    assert whole.laplace_scale is not None
    assert tiled.laplace_scale is not None
    torch.testing.assert_close(tiled.laplace_scale, whole.laplace_scale, rtol=2e-4, atol=0)
    torch.testing.assert_close(tiled.depth_init, whole.depth_init, rtol=2e-4, atol=0)
    torch.testing.assert_close(tiled.fields.confidence, whole.fields.confidence)
    torch.testing.assert_close(tiled.log_depth, whole.log_depth, rtol=0, atol=2e-4)


def test_tiles_divide_by_what_the_network_divides_by(Tiny: Callable[..., Any]) -> None:
    class Metric(Tiny):  # type: ignore[misc, valid-type]
        def unit(self, sparse: torch.Tensor) -> torch.Tensor:
            return sparse.new_ones(len(sparse), 1, 1, 1)

    image, sparse = scene(160, 320)
    whole = run_in_tiles(Metric(multiple=32).eval(), image, sparse)
    tiled = run_in_tiles(Metric(multiple=32).eval(), image, sparse, tile=128, overlap=64)
    relative = run_in_tiles(Tiny(multiple=32).eval(), image, sparse)
    torch.testing.assert_close(tiled.depth, whole.depth, rtol=2e-4, atol=0)
    assert not torch.allclose(whole.depth, relative.depth, rtol=1e-3)


def test_where_tiles_disagree_the_overlap_spreads_the_bend() -> None:
    class Moody(Interpolator):
        """Predicts another slope in every tile, as networks with global context do."""

        def fields(self, image, sparse):  # type: ignore[no-untyped-def]
            fields = super().fields(image, sparse)
            return type(fields)((fields.gradients[0] + 0.01 * image.mean(),), None, fields.confidence)

    image, sparse = scene(256, 512, points=1)
    image[..., :256] *= 0.2

    def sharpest_bend(overlap: int) -> float:
        log_depth = run_in_tiles(Moody(), image, sparse, tile=256, overlap=overlap).log_depth
        return float(log_depth.diff(n=2, dim=-1)[..., 8:-8].abs().max())

    assert sharpest_bend(96) < 0.4 * sharpest_bend(8)


@pytest.mark.parametrize("size", [(1, 1), (7, 9), (33, 65), (200, 331)])
def test_any_size_comes_back_at_its_own_size(Tiny: Callable[..., Any], size: tuple[int, int]) -> None:
    image, sparse = scene(*size, points=20)
    output = run_in_tiles(Tiny(), image, sparse, tile=96)
    assert output.depth.shape == (1, 1, *size)
    assert output.laplace_scale is not None
    assert output.laplace_scale.shape == (1, 1, *size)
    assert (output.depth > 0).all()
    assert torch.isfinite(output.depth).all()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(32, 400), st.integers(8, 300))
def test_tiles_cover_every_cell_and_their_weights_blend(rows: int, columns: int, tile: int, overlap: int) -> None:
    grid = 32
    windows = list(tiles(rows * grid, columns * grid, tile, overlap, grid))
    for stride in (1, 4, 16):
        stitch = TileBlender(rows * grid, columns * grid)
        reference = torch.arange(rows * columns * (grid // stride) ** 2, dtype=torch.float32)
        reference = reference.view(1, 1, rows * grid // stride, columns * grid // stride)
        for window in windows:
            assert window.top % grid == window.left % grid == 0
            assert window.height <= max(tile, 2 * grid)
            stitch.add(window, window.crop(reference, stride))
        torch.testing.assert_close(stitch.result(), reference)


def test_depth_scales_with_the_measurements_in_tiles_too(Tiny: Callable[..., Any]) -> None:
    image, sparse = scene(192, 192)
    network = Tiny()
    once = run_in_tiles(network, image, sparse, tile=96, overlap=48).depth
    for factor in (2.0**-20, 2.0**10):
        torch.testing.assert_close(
            run_in_tiles(network, image, sparse * factor, tile=96, overlap=48).depth, once * factor
        )
