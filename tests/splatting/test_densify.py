from __future__ import annotations

import pytest
import torch

pytest.importorskip("numba")
from omnidc.splatting.densify import DEAD_OPACITY, DensifyOptions, explore, relocate, split_opacity, split_to
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.numba_backend import rasterize
from omnidc.splatting.optimizer import SplatOptimizer, learning_rates
from worlds import NEAR, cameras, world


def start(dead: int = 0) -> tuple[Gaussians, SplatOptimizer]:
    gaussians = world()
    gaussians.logits[:dead] = -8.0
    optimizer = SplatOptimizer(gaussians, 1.0, 100)
    gaussians.render(rasterize, cameras()[0], NEAR).image.sum().backward()
    optimizer.step(0)
    return gaussians, optimizer


def test_split_opacity_pair_composites_to_the_old_one() -> None:
    old = torch.tensor([0.01, 0.3, 0.9])
    new, scale = split_opacity(old)
    assert torch.allclose(1 - (1 - new) ** 2, old, atol=1e-6)
    assert (scale <= 1).all()


def test_split_to_has_the_count_and_renders_alike() -> None:
    few = world()
    count = len(few) * 3
    many = split_to(few, count, torch.Generator().manual_seed(0))
    assert len(many) == count
    before, after = (one.render(rasterize, cameras()[0], NEAR) for one in (few, many))
    assert float((after.alpha - before.alpha).abs().mean()) < 0.02
    assert float((after.image - before.image).abs().mean()) < 0.1  # neighbors have random colors
    assert split_to(few, 5, torch.Generator()) is few


def test_relocate_dead_ones_move_and_number_stays() -> None:
    gaussians, optimizer = start(dead=20)
    before = gaussians.means.detach().clone()
    relocate(gaussians, optimizer, DensifyOptions(), False, torch.Generator().manual_seed(0))
    assert len(gaussians) == len(before)
    assert (gaussians.opacities > DEAD_OPACITY).all()
    moved = (gaussians.means.detach() - before).abs().max(dim=1).values > 0
    assert moved[:20].all()
    assert not moved[20:].any()


def test_relocate_growth_stops_at_the_cap() -> None:
    gaussians, optimizer = start()
    count = len(gaussians)
    options = DensifyOptions(cap=count + 10, growth=0.5)
    relocate(gaussians, optimizer, options, True, torch.Generator().manual_seed(0))
    assert len(gaussians) == count + 10
    relocate(gaussians, optimizer, options, True, torch.Generator().manual_seed(0))
    assert len(gaussians) == count + 10
    # Adam goes on with the new number.
    gaussians.render(rasterize, cameras()[0], NEAR).image.sum().backward()
    optimizer.step(1)


def test_relocate_render_changes_little() -> None:
    gaussians, optimizer = start()
    before = gaussians.render(rasterize, cameras()[0], NEAR).image.detach()
    relocate(gaussians, optimizer, DensifyOptions(growth=0.1), True, torch.Generator().manual_seed(0))
    after = gaussians.render(rasterize, cameras()[0], NEAR).image.detach()
    assert float((after - before).abs().mean()) < 0.03


def test_relocate_all_dead_does_nothing() -> None:
    gaussians, optimizer = start()
    with torch.no_grad():
        gaussians.logits.fill_(-9.0)
    relocate(gaussians, optimizer, DensifyOptions(), True, torch.Generator().manual_seed(0))
    assert len(gaussians) == len(world())


def test_explore_opaque_gaussians_stay() -> None:
    gaussians = world()
    gaussians.logits[:10] = -7.0
    before = gaussians.means.clone()
    explore(gaussians, 0.5, torch.Generator().manual_seed(0))
    assert (gaussians.means[:10] != before[:10]).any(dim=1).all()
    assert torch.equal(gaussians.means[10:], before[10:])


def test_learning_rates_long_run_are_those_of_3dgs() -> None:
    assert learning_rates(30_000)["means"] == pytest.approx(1.6e-4)
    assert learning_rates(100_000)["sh_dc"] == pytest.approx(2.5e-3)
    assert 1.6e-4 < learning_rates(5_000)["means"] < learning_rates(1_000)["means"]
