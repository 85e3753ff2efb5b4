from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("numba")
from omnidc.errors import CheckpointError, ConfigError, ConvergenceError, InputError
from omnidc.splatting.densify import DensifyOptions
from omnidc.splatting.gaussians import from_points
from omnidc.splatting.metrics import depth_errors, psnr
from omnidc.splatting.numba_backend import rasterize
from omnidc.splatting.trainer import SplatTrainer, TrainOptions
from omnidc.splatting.view import SplatView, scene_extent
from worlds import NEAR, points, views

SHORT = TrainOptions(steps=60, depth_weight=0.0, sh_degree=1, densify=DensifyOptions(cap=400, every=10))


def trainer(options: TrainOptions = SHORT, noise: float = 0.05, given: list[SplatView] | None = None) -> SplatTrainer:
    cloud, colors = points(noise=noise)
    used = given or views()
    extent = scene_extent(cloud, [view.camera for view in used])
    start = from_points(cloud, colors, extent, options.sh_degree, np.random.default_rng(0))
    return SplatTrainer(used, start, rasterize, extent, options)


def held_out(run: SplatTrainer) -> tuple[float, float]:
    """PSNR and depth RMSE at a view between the training views."""
    truth = views(5)[2]
    with torch.no_grad():
        render = run.gaussians.render(rasterize, truth.camera, NEAR)
    assert truth.gt_depth is not None
    errors = depth_errors(render.expected_depth().numpy(), truth.gt_depth)
    assert errors is not None
    return psnr(render.image.clamp(0, 1).numpy(), truth.image / np.float32(255)), errors[0]


def test_trainer_short_run_improves_a_held_out_view() -> None:
    run = trainer()
    before, _ = held_out(run)
    run.run()
    after, _ = held_out(run)
    assert after > before + 4
    assert len(run.gaussians) <= 400


def test_trainer_depth_loss_improves_depth() -> None:
    errors = []
    for weight in (0.0, 0.2):
        run = trainer(dataclasses.replace(SHORT, depth_weight=weight), noise=0.3)
        run.run()
        errors.append(held_out(run)[1])
    assert errors[1] < 0.8 * errors[0]


def test_trainer_sky_pixels_are_not_supervised() -> None:
    sky = [dataclasses.replace(view, sky=np.ones(view.image.shape[:2], dtype=bool)) for view in views()]
    options = dataclasses.replace(SHORT, steps=10)
    masked, plain = trainer(dataclasses.replace(options, depth_weight=0.5), given=sky), trainer(options)
    masked.run()
    plain.run()
    assert torch.allclose(masked.gaussians.means, plain.gaussians.means, atol=1e-6)


def test_trainer_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, first = trainer(), trainer()
    whole.run()
    for _ in range(33):
        first.train_step()
    first.save(tmp_path / "checkpoint.pt")
    second = trainer()
    second.load(tmp_path / "checkpoint.pt")
    second.run()
    for name, tensor in whole.gaussians.tensors().items():
        assert torch.equal(tensor, second.gaussians.tensors()[name]), name


def test_trainer_load_other_options_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    trainer().save(path)
    with pytest.raises(ConfigError, match="other options"):
        trainer(dataclasses.replace(SHORT, seed=3)).load(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="damaged"):
        trainer().load(path)


def test_trainer_two_views_is_a_sentence() -> None:
    with pytest.raises(InputError, match="at least 3 views"):
        trainer(given=views(2))


def test_trainer_loss_not_finite_is_a_sentence() -> None:
    run = trainer()
    with torch.no_grad():
        run.gaussians.sh_dc.fill_(float("nan"))
    with pytest.raises(ConvergenceError, match="not finite"):
        run.train_step()


def test_trainer_view_order_visits_each_view_once_an_epoch() -> None:
    run = trainer()
    count = len(run.views)
    for epoch in range(3):
        assert sorted(run.view_index(epoch * count + k) for k in range(count)) == list(range(count))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"sh_degree": 4}, {"depth_weight": -1.0}, {"depth_unit": 0.0}])
def test_train_options_impossible_values_are_sentences(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        TrainOptions(**wrong)  # type: ignore[arg-type]


def test_view_depth_of_other_size_or_nan_is_a_sentence() -> None:
    view = views(3)[0]
    with pytest.raises(InputError, match="size of the photograph"):
        dataclasses.replace(view, depth=np.ones((3, 4), np.float32))
    with pytest.raises(InputError, match="finite"):
        dataclasses.replace(view, depth=np.full(view.image.shape[:2], np.nan, np.float32))


@pytest.mark.parametrize("degree", [0, 3])
def test_trainer_other_degrees_train_and_grow(degree: int) -> None:
    run = trainer(dataclasses.replace(SHORT, sh_degree=degree, steps=30))
    before = len(run.gaussians)
    run.run()
    assert run.gaussians.sh_rest.shape == (len(run.gaussians), (degree + 1) ** 2 - 1, 3)
    assert len(run.gaussians) > before
    assert all(torch.isfinite(tensor).all() for tensor in run.gaussians.tensors().values())
