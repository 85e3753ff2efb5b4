"""From the output size to the working size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from omnidc.network.compact import CompactConfig, CompactNetwork
from omnidc.network.resize import bilinear_rows, enlarge, nearest_rows, resize_sparse, shrink, source_rows


def test_resize_sparse_keeps_the_nearest_of_each_pixel() -> None:
    sparse = torch.zeros(1, 1, 4, 6)
    sparse[0, 0, 0, 0], sparse[0, 0, 1, 2], sparse[0, 0, 3, 5] = 5.0, 2.0, 3.0
    expected = torch.tensor([[[[2.0, 0.0], [0.0, 3.0]]]])
    assert torch.equal(resize_sparse(sparse, (2, 2)), expected)


def test_resize_sparse_moves_each_measurement_to_its_pixel() -> None:
    sparse = torch.zeros(2, 1, 37, 53)
    sparse[0, 0, 36, 52], sparse[1, 0, 0, 20] = 1.5, 2.5
    small = resize_sparse(sparse, (18, 26))
    assert small[0].nonzero().tolist() == [[0, 17, 25]]
    assert small[1].nonzero().tolist() == [[0, 0, int(20.5 * 26 / 53)]]


def test_shrink_same_size_changes_nothing() -> None:
    image, sparse = torch.rand(1, 3, 5, 6), torch.rand(1, 1, 5, 6)
    same = shrink(image, sparse, (5, 6))
    assert same[0] is image
    assert same[1] is sparse


@pytest.mark.parametrize("size", [(37, 61), (90, 31), (18, 26), (5, 7)])
@pytest.mark.parametrize("rows", [(0, 5), (2, 4), (4, 5)])
def test_rows_equal_those_of_the_whole_map(size: tuple[int, int], rows: tuple[int, int]) -> None:
    maps = torch.rand(2, 3, 18, 26)
    low, high = source_rows(*rows, 18, size[0])
    whole = F.interpolate(maps, size=size, mode="bilinear", align_corners=False)
    part = bilinear_rows(maps[..., low:high, :], low, 18, size, rows)
    torch.testing.assert_close(part, whole[..., rows[0] : rows[1], :], rtol=1e-5, atol=1e-6)
    nearest = F.interpolate(maps, size=size, mode="nearest-exact")
    assert torch.equal(nearest_rows(maps, size, rows), nearest[..., rows[0] : rows[1], :])


@pytest.mark.parametrize("working", [(64, 96), (96, 128), (96, 160)])
def test_every_measurement_finds_its_confidence_at_the_output(working: tuple[int, int]) -> None:
    """Whatever the ratio of the sizes, no measurement loses the verdict of its working pixel."""
    torch.manual_seed(0)
    network = CompactNetwork(CompactConfig(channels=(8, 16, 16, 24, 24), attention_blocks=1, heads=2)).eval()
    sparse = (1 + torch.rand(1, 1, 160, 224)) * (torch.rand(1, 1, 160, 224) < 0.01)
    with torch.no_grad():
        prediction = network(torch.rand(1, 3, 160, 224), sparse, working_size=working)
    assert (prediction.fields.confidence[sparse > 0] > 0).all()


@pytest.mark.parametrize("factor", [2, 16])
@pytest.mark.parametrize(("height", "width"), [(3, 5), (1, 4)])
def test_enlarge_equals_interpolation(factor: int, height: int, width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, height, width, generator=generator, dtype=torch.float64, requires_grad=True)
    slow = F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)
    upstream = torch.randn(slow.shape, generator=generator, dtype=torch.float64)
    fast = enlarge(x, factor)
    assert torch.equal(fast, slow)
    assert torch.equal(enlarge(x.detach(), factor), slow)
    torch.testing.assert_close(*(torch.autograd.grad(one, x, upstream)[0] for one in (fast, slow)))
