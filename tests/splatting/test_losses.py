from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.splatting import losses
from omnidc.splatting.losses import DepthTarget, depth_loss, edge_weights, photometric_loss, uncertainty_weights


def conv_blur(x: Tensor) -> Tensor:
    """The window of SSIM as one 2D convolution."""
    offsets = torch.arange(11, dtype=x.dtype) - 5
    line = torch.exp(-(offsets**2) / (2 * 1.5**2))
    kernel = torch.outer(line, line) / line.sum() ** 2
    return F.conv2d(x.permute(2, 0, 1)[:, None], kernel[None, None], padding=5)[:, 0].permute(1, 2, 0)


def pictures(seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    a = torch.tensor(rng.random((13, 17, 3)), requires_grad=True)
    return a, torch.tensor(rng.random((13, 17, 3)))


def test_ssim_map_opencv_agrees_with_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pictures()
    ours = losses.ssim_map(a, b)
    (gradient,) = torch.autograd.grad(ours.mean(), a)
    monkeypatch.setattr(losses, "_blur", conv_blur)
    twin = losses.ssim_map(a, b)
    (expected,) = torch.autograd.grad(twin.mean(), a)
    assert torch.allclose(ours, twin, atol=1e-10)
    assert torch.allclose(gradient, expected, atol=1e-10)


def test_photometric_loss_equal_pictures_is_zero() -> None:
    a, b = pictures()
    assert float(photometric_loss(b, b)) == pytest.approx(0.0, abs=1e-9)
    assert torch.autograd.gradcheck(lambda x: photometric_loss(x, b), (a,), atol=1e-5)


def target(weight: Tensor | None = None, edges: bool = True) -> DepthTarget:
    depth = torch.full((6, 8), 2.0, dtype=torch.float64)
    image = torch.zeros(6, 8, 3, dtype=torch.float64)
    image[:, 4:] = 1.0
    mask = torch.ones_like(depth) if weight is None else weight
    return DepthTarget(depth, mask, edge_weights(image) if edges else None)


def test_depth_loss_right_depth_is_zero_and_gradcheck_passes() -> None:
    assert float(depth_loss(target().depth, target(), 1.0)) == 0.0
    depth = torch.tensor(np.random.default_rng(0).uniform(1, 4, (6, 8)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda d: depth_loss(d, target(), 1.5), (depth,))


def test_depth_loss_masked_pixels_get_no_gradient() -> None:
    weight = torch.ones(6, 8, dtype=torch.float64)
    weight[:3] = 0
    depth = torch.full((6, 8), 5.0, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(depth_loss(depth, target(weight), 1.0), depth)
    assert not gradient[:3].any()
    assert gradient[3:5, :7].all()


def test_depth_loss_counts_less_at_edges_of_the_picture() -> None:
    depth = torch.full((6, 8), 3.0, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(depth_loss(depth, target(), 1.0), depth)
    assert gradient[2, 3] < gradient[2, 2]


def test_depth_loss_no_known_depth_is_zero_and_finite() -> None:
    depth = torch.full((6, 8), 3.0, dtype=torch.float64, requires_grad=True)
    loss = depth_loss(depth, target(torch.zeros(6, 8, dtype=torch.float64)), 1.0)
    assert float(loss.detach()) == 0.0
    assert not torch.autograd.grad(loss, depth)[0].any()


def test_depth_loss_scaled_scene_and_unit_is_the_same() -> None:
    depth = torch.full((6, 8), 3.0, dtype=torch.float64)
    one = target()
    ten = DepthTarget(one.depth * 10, one.weight, one.edges)
    assert float(depth_loss(depth * 10, ten, 10.0)) == pytest.approx(float(depth_loss(depth, one, 1.0)))


def test_uncertainty_weights_have_mean_one_and_fall_with_b() -> None:
    depth = torch.full((4, 6), 2.0)
    depth[0] = 0
    b = torch.linspace(0.01, 1.0, 24).reshape(4, 6)
    weight = uncertainty_weights(depth, b)
    assert not weight[0].any()
    assert float(weight[1:].mean()) == pytest.approx(1.0, rel=1e-5)
    assert (weight[1:].flatten().diff() < 0).all()
