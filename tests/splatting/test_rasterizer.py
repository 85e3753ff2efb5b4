"""The numba rasterizer against its twin: values and gradients."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.splatting.camera import Camera
from omnidc.splatting.rasterizer import Render, load_rasterizer
from reference import rasterize_reference

pytest.importorskip("numba")
from omnidc.splatting.numba_backend import rasterize

NAMES = ("means", "scales", "quats", "opacities", "colors")


def random_camera(seed: int, width: int = 52, height: int = 37) -> Camera:
    view = np.eye(4)
    view[:3, :3] = Rotation.from_rotvec(np.random.default_rng(seed).normal(0, 0.2, 3)).as_matrix()
    view[:3, 3] = 0.1, -0.1, 0.2
    return Camera(60.0, 64.0, 25.0, 18.5, width, height, view)


def random_gaussians(seed: int, n: int) -> list[Tensor]:
    """n Gaussians around the camera: a fifth behind it, some off screen, some overlapping, one clamped at MAX_ALPHA."""
    g = torch.Generator().manual_seed(seed)
    size, corner = torch.tensor([5.0, 4.0, 6.0], dtype=torch.float64), torch.tensor([2.5, 2.0, 1.2])
    means = torch.rand(n, 3, generator=g, dtype=torch.float64) * size - corner
    scales = torch.exp(torch.randn(n, 3, generator=g, dtype=torch.float64) * 0.8 - 2.2)
    quats = torch.randn(n, 4, generator=g, dtype=torch.float64)
    opacities = torch.sigmoid(torch.randn(n, generator=g, dtype=torch.float64) * 2)
    opacities[0] = 0.9999
    means[1:4] = torch.tensor([0.0, 0.0, 2.0]) + 0.02 * torch.randn(3, 3, generator=g, dtype=torch.float64)
    colors = torch.rand(n, 3, generator=g, dtype=torch.float64)
    return [p.requires_grad_() for p in (means, scales, quats, opacities, colors)]


def gradients(render: Render, parameters: list[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of a random linear function of image, depth and alpha."""
    g = torch.Generator().manual_seed(5)
    loss = sum(
        (out * torch.randn(out.shape, generator=g, dtype=out.dtype)).sum()
        for out in (render.image, render.depth, render.alpha)
    )
    assert isinstance(loss, Tensor)
    return torch.autograd.grad(loss, parameters)


@pytest.mark.parametrize(("seed", "n"), [(0, 50), (1, 120), (2, 200), (3, 1)])
def test_numba_random_gaussians_agrees_with_reference(seed: int, n: int) -> None:
    parameters, camera = random_gaussians(seed, max(n, 4)), random_camera(seed)
    parameters = [p.detach()[:n].requires_grad_() for p in parameters]
    if n == 1:
        parameters[0] = torch.tensor([[0.1, 0.2, 2.0]], dtype=torch.float64, requires_grad=True)
    ours, twin = rasterize(*parameters, camera), rasterize_reference(*parameters, camera)
    for a, b in ((ours.image, twin.image), (ours.depth, twin.depth), (ours.alpha, twin.alpha)):
        assert float((a - b).detach().abs().max()) < 1e-4
    assert float(ours.alpha.detach().mean()) > 5e-4
    assert not (twin.visible & ~ours.visible).any()
    for name, a, b in zip(NAMES, gradients(ours, parameters), gradients(twin, parameters)):
        assert float((a - b).norm() / b.norm()) < 2e-5, name
        assert float((a - b).abs().max() / b.abs().max()) < 2e-5, name


def test_numba_float32_agrees_with_float64_for_all_tiles() -> None:
    parameters, camera = random_gaussians(7, 150), random_camera(7)
    exact = rasterize(*parameters, camera)
    single = [p.detach().float().requires_grad_() for p in parameters]
    grads = gradients(exact, parameters)
    for tile in ((8, 8), (32, 16), (64, 8)):
        small = rasterize(*single, camera, tile=tile)
        for a, b in ((exact.image, small.image), (exact.depth, small.depth), (exact.alpha, small.alpha)):
            assert float((a - b).detach().abs().max()) < 5e-4
        out = small.image.sum() + small.depth.sum()
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(out, single))
    assert all(torch.isfinite(g).all() for g in grads)


def test_numba_more_threads_gives_the_same_bits() -> None:
    parameters, camera = random_gaussians(8, 100), random_camera(8)
    one, three = (rasterize(*parameters, camera, threads=threads) for threads in (1, 3))
    assert torch.equal(one.image, three.image)
    for a, b in zip(gradients(one, parameters), gradients(three, parameters)):
        assert torch.equal(a, b)


def test_numba_all_behind_gives_black_and_zero_gradients() -> None:
    parameters, camera = random_gaussians(9, 20), random_camera(9)
    with torch.no_grad():
        parameters[0][:, 2] = -5
    out = rasterize(*parameters, camera)
    assert float(out.image.detach().abs().max()) == 0.0
    assert float(out.alpha.detach().abs().max()) == 0.0
    assert not out.visible.any()
    assert all(not g.any() for g in gradients(out, parameters))


def test_numba_opaque_stack_stops_early_and_agrees() -> None:
    """More opaque Gaussians than the kernel composites before it tests for opacity."""
    n, g = 100, torch.Generator().manual_seed(0)
    means = torch.zeros(n, 3, dtype=torch.float64)
    means[:, 2] = torch.linspace(1.0, 3.0, n)
    parameters = [
        means, 1.0 + torch.rand(n, 3, generator=g, dtype=torch.float64),
        torch.randn(n, 4, generator=g, dtype=torch.float64), torch.full((n,), 0.7, dtype=torch.float64),
        torch.rand(n, 3, generator=g, dtype=torch.float64),
    ]  # fmt: skip
    parameters = [p.requires_grad_() for p in parameters]
    camera = Camera(40.0, 40.0, 15.5, 11.5, 32, 24, np.eye(4))
    ours, twin = rasterize(*parameters, camera), rasterize_reference(*parameters, camera)
    assert float((ours.image - twin.image).detach().abs().max()) < 1e-4
    for a, b in zip(gradients(ours, parameters), gradients(twin, parameters)):
        assert float((a - b).norm() / b.norm()) < 1e-3


def test_load_rasterizer_unknown_name_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="no rasterizer 'cuda'"):
        load_rasterizer("cuda")


def test_gsplat_backend_call_follows_its_documented_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with gsplat's signature, computed by the twin: names, shapes, pixel centers, mode."""
    parameters, camera = random_gaussians(3, 30), random_camera(3)

    def rasterization(
        means: Tensor, quats: Tensor, scales: Tensor, opacities: Tensor, colors: Tensor, viewmats: Tensor, Ks: Tensor,
        width: int, height: int, near_plane: float = 0.01, far_plane: float = 1e10, eps2d: float = 0.3,
        packed: bool = True, render_mode: str = "RGB",
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:  # fmt: skip
        assert viewmats.shape == (1, 4, 4)
        assert Ks.shape == (1, 3, 3)
        assert render_mode == "RGB+D"
        K = Ks[0].numpy()
        seen = Camera(K[0, 0], K[1, 1], K[0, 2] - 0.5, K[1, 2] - 0.5, width, height, viewmats[0].numpy())
        out = rasterize_reference(means, scales, quats, opacities, colors, seen, near_plane)
        both = torch.cat([out.image, out.depth[..., None]], 2)[None]
        return both, out.alpha[None, ..., None], {"radii": out.visible[None, :, None].expand(-1, -1, 2).int()}

    monkeypatch.setitem(sys.modules, "gsplat", SimpleNamespace(rasterization=rasterization))
    ours, twin = load_rasterizer("gsplat")(*parameters, camera, 0.01), rasterize_reference(*parameters, camera)
    assert torch.equal(ours.image, twin.image)
    assert torch.equal(ours.depth, twin.depth)
    assert torch.equal(ours.visible, twin.visible)


def test_gsplat_backend_without_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gsplat", None)
    with pytest.raises(ConfigError, match="pip install gsplat"):
        load_rasterizer("gsplat")
