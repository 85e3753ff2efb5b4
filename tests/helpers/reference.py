"""The slow, obvious twin of the rasterizers: every Gaussian at every pixel, plain torch, gradients by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from omnidc.splatting.camera import Camera
from omnidc.splatting.rasterizer import BLUR, JACOBIAN_LIMIT, MAX_ALPHA, MIN_ALPHA, Render


def rotation_matrices(quats: Tensor) -> Tensor:
    """[N, 4] (w, x, y, z) to [N, 3, 3]."""
    w, x, y, z = (quats / quats.norm(dim=1, keepdim=True)).unbind(1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, 1) for row in rows], 1)


def rasterize_reference(
    means: Tensor, scales: Tensor, quats: Tensor, opacities: Tensor, colors: Tensor, camera: Camera, near: float = 0.01
) -> Render:
    """As `Rasterizer`; memory grows with N · H · W."""
    view = torch.as_tensor(camera.view, dtype=means.dtype)
    local = means @ view[:3, :3].T + view[:3, 3]
    front = torch.nonzero(local[:, 2] > near)[:, 0]
    order = front[torch.argsort(local[front, 2], stable=True)]
    x, y, z = local[order].unbind(1)

    # Σ' = J R_view R diag(s)² Rᵀ R_viewᵀ Jᵀ + BLUR · I
    root = view[:3, :3] @ rotation_matrices(quats[order]) @ torch.diag_embed(scales[order])
    limit_x, limit_y = JACOBIAN_LIMIT * camera.width / 2 / camera.fx, JACOBIAN_LIMIT * camera.height / 2 / camera.fy
    tx, ty = (x / z).clamp(-limit_x, limit_x), (y / z).clamp(-limit_y, limit_y)
    zero = torch.zeros_like(z)
    jacobian = torch.stack(
        [torch.stack([camera.fx / z, zero, -camera.fx * tx / z], 1),
         torch.stack([zero, camera.fy / z, -camera.fy * ty / z], 1)], 1
    )  # fmt: skip
    half = jacobian @ root
    conic = torch.linalg.inv(half @ half.transpose(1, 2) + BLUR * torch.eye(2, dtype=means.dtype))

    rows, columns = torch.meshgrid(torch.arange(camera.height), torch.arange(camera.width), indexing="ij")
    pixels = torch.stack([columns, rows], -1).to(means.dtype)  # [H, W, 2]
    centers = torch.stack([camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy], 1)
    offset = pixels[None] - centers[:, None, None]  # [N, H, W, 2]
    power = -0.5 * torch.einsum("nhwi,nij,nhwj->nhw", offset, conic, offset)
    alpha = opacities[order, None, None] * power.exp()
    alpha = torch.where(alpha >= MIN_ALPHA, alpha.clamp(max=MAX_ALPHA), torch.zeros_like(alpha))
    light = torch.cumprod(torch.cat([torch.ones_like(alpha[:1]), 1 - alpha]), 0)[:-1]
    weight = alpha * light
    visible = torch.zeros(len(means), dtype=torch.bool)
    visible[order] = (alpha > 0).flatten(1).any(1)
    return Render(
        torch.einsum("nhw,nc->hwc", weight, colors[order]),
        torch.einsum("nhw,n->hw", weight, z),
        weight.sum(0),
        visible,
    )
