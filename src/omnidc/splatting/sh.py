"""Real spherical harmonics up to degree 3, in the order and with the signs of 3DGS files."""

from __future__ import annotations

import torch
from torch import Tensor

C0 = 0.28209479177387814  # ½ √(1/π)
C1 = 0.4886025119029199  # ½ √(3/π)
C2 = (1.0925484305920792, 0.31539156525252005, 0.5462742152960396)  # ½ √(15/π), ¼ √(5/π), ¼ √(15/π)
C3 = (0.5900435899266435, 2.890611442640554, 0.4570457994644658, 0.3731763325901154, 1.445305721320277)
MAX_DEGREE = 3


def basis_count(degree: int) -> int:
    """Return the number of basis functions up to `degree`."""
    return (degree + 1) ** 2


def basis(
    directions: Tensor,  # [N, 3], unit vectors from the camera to the Gaussian
    degree: int,
) -> Tensor:
    """Return the basis functions, [N, (degree + 1)²]."""
    x, y, z = directions.unbind(1)
    out = [torch.full_like(x, C0)]
    if degree >= 1:
        out += [-C1 * y, C1 * z, -C1 * x]
    if degree >= 2:
        xx, yy, zz = x * x, y * y, z * z
        out += [
            C2[0] * x * y, -C2[0] * y * z, C2[1] * (2 * zz - xx - yy), -C2[0] * x * z, C2[2] * (xx - yy),
        ]  # fmt: skip
    if degree >= 3:
        out += [
            -C3[0] * y * (3 * xx - yy), C3[1] * x * y * z, -C3[2] * y * (4 * zz - xx - yy),
            C3[3] * z * (2 * zz - 3 * xx - 3 * yy), -C3[2] * x * (4 * zz - xx - yy),
            C3[4] * z * (xx - yy), -C3[0] * x * (xx - 3 * yy),
        ]  # fmt: skip
    return torch.stack(out, 1)


def view_colors(
    dc: Tensor,  # [N, 3]
    rest: Tensor,  # [N, K, 3], coefficients above degree 0
    means: Tensor,  # [N, 3]
    center: Tensor,  # [3], of the camera
    degree: int,  # used; at most that of `rest`
) -> Tensor:
    """Return colors max(0, ½ + Σ c_k Y_k(direction)), [N, 3]. Directions carry no gradient to the means."""
    color = C0 * dc + 0.5
    if degree > 0:
        offsets = means.detach() - center
        directions = offsets / offsets.norm(dim=1, keepdim=True).clamp(min=1e-12)
        others = basis(directions, degree)[:, 1:]
        color = color + torch.einsum("nk,nkc->nc", others, rest[:, : others.shape[1]])
    return color.clamp(min=0)
