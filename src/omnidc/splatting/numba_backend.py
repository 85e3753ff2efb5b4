"""Rasterizer on the CPU: the kernels of `kernels.py` behind one `torch.autograd.Function`, on a pool of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omnidc.splatting import kernels
from omnidc.splatting.camera import Camera
from omnidc.splatting.rasterizer import Render


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def _share(kernel: Callable[..., None], inputs: tuple[Any, ...], outputs: tuple[Any, ...], threads: int) -> None:
    """Run kernel(*inputs, first, step, *outputs) for first = 0 … threads − 1; the kernels release the GIL."""
    if threads == 1:
        kernel(*inputs, 0, 1, *outputs)
        return
    jobs = [_pool(threads).submit(kernel, *inputs, first, threads, *outputs) for first in range(threads)]
    for job in jobs:
        job.result()


class _Rasterize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        means: Tensor,
        scales: Tensor,
        quats: Tensor,
        opacities: Tensor,
        colors: Tensor,
        camera: Camera,
        near: float,
        threads: int,
        tile: tuple[int, int],
    ) -> tuple[Tensor, Tensor]:
        m, s, q, o, c = (p.detach().contiguous().numpy() for p in (means, scales, quats, opacities, colors))
        view = np.ascontiguousarray(camera.view, dtype=m.dtype)
        lens = (camera.fx, camera.fy, camera.cx, camera.cy, float(camera.width), float(camera.height))
        flat = np.zeros((len(m), kernels.COLUMNS), m.dtype)
        _share(kernels.project, (m, s, q, o, view, lens, near), (flat,), threads)
        visible = np.flatnonzero(flat[:, kernels.VISIBLE])
        order = visible[np.argsort(flat[visible, kernels.Z], kind="stable")]
        across, down = -(-camera.width // tile[0]), -(-camera.height // tile[1])
        starts, ids = kernels.tile_lists(flat, order, across, down, *tile)
        out = np.empty((5, camera.height, camera.width), m.dtype)
        done = np.zeros(across * down, np.int64)
        _share(kernels.composite, (flat, o, c, starts, ids, *tile), (out, done), threads)
        ctx.kept = m, s, q, o, c, view, lens, flat, starts, ids, done, out, threads, tile
        seen = torch.from_numpy(flat[:, kernels.VISIBLE] > 0)
        ctx.mark_non_differentiable(seen)
        return torch.from_numpy(out), seen

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        m, s, q, o, c, view, lens, flat, starts, ids, done, out, threads, tile = ctx.kept
        g = grad_out.contiguous().numpy()
        pairs = np.zeros((len(ids), 10), m.dtype)
        _share(kernels.composite_backward, (flat, o, c, starts, ids, done, out, g, *tile), (pairs,), threads)
        total = np.zeros((len(m), 10), m.dtype)
        kernels.sum_pairs(pairs, starts, ids, done, total)
        grads = np.zeros_like(m), np.zeros_like(s), np.zeros_like(q)
        _share(kernels.project_backward, (m, s, q, view, lens, flat, total), grads, threads)
        rest = total[:, kernels.G_OPACITY], total[:, kernels.G_RED :]
        tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (*grads, *rest)]
        return *tensors, None, None, None, None


def rasterize(
    means: Tensor,  # [N, 3], float32 or float64, on the CPU
    scales: Tensor,  # [N, 3]
    quats: Tensor,  # [N, 4]
    opacities: Tensor,  # [N]
    colors: Tensor,  # [N, 3]
    camera: Camera,
    near: float = 0.01,
    *,
    threads: int | None = None,  # None: as many as torch uses
    tile: tuple[int, int] = (kernels.TILE_W, kernels.TILE_H),  # pixels; changes speed, not the result
) -> Render:
    """Render Gaussians on the CPU; see `omnidc.splatting.rasterizer` for the equations and the arguments."""
    count = threads or min(torch.get_num_threads(), os.cpu_count() or 1)
    apply: Any = _Rasterize.apply
    out, seen = apply(means, scales, quats, opacities, colors, camera, near, count, tile)
    return Render(out[:3].permute(1, 2, 0), out[3], out[4], seen)
