"""Speed of the CPU rasterizer against its torch twin, side by side in one run: python benchmarks/rasterizer.py

Prints milliseconds of forward and backward (best of several) and the ratio to the twin; threads are compared too.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from omnidc.splatting.camera import Camera
from omnidc.splatting.numba_backend import rasterize
from omnidc.splatting.rasterizer import Rasterizer
from reference import rasterize_reference


def room(n: int, seed: int = 0) -> list[Tensor]:
    """Gaussians on the walls of a box of 4 × 3 × 5 m, with sizes of their spacing, as after training."""
    rng = np.random.default_rng(seed)
    points, axis = rng.uniform(-1, 1, (n, 3)), rng.integers(0, 3, n)
    points[np.arange(n), axis] = rng.choice([-1.0, 1.0], n)
    means = points * [2.0, 1.5, 2.5] + [0, 0, 1.5]
    spacing = (2 * (4 * 3 + 3 * 5 + 4 * 5) / n) ** 0.5
    scales = spacing * np.exp(rng.normal(0, 0.4, (n, 3))) * 0.6
    scales[np.arange(n), axis] *= 0.3
    quats = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)) + rng.normal(0, 0.1, (n, 4))
    arrays = means, scales, quats, rng.uniform(0.2, 0.95, n), rng.random((n, 3))
    return [torch.tensor(array, dtype=torch.float32, requires_grad=True) for array in arrays]


def measure(function: Rasterizer, parameters: list[Tensor], camera: Camera, repeats: int) -> tuple[float, float]:
    """Best milliseconds of forward and backward; the best, since the machine is shared."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        render = function(*parameters, camera, 0.02)
        loss = render.image.sum() + render.depth.sum() + render.alpha.sum()
        middle = time.perf_counter()
        torch.autograd.grad(loss, parameters)
        times.append((1e3 * (middle - began), 1e3 * (time.perf_counter() - middle)))
    forward, backward = np.min(times, axis=0)
    return float(forward), float(backward)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    small = Camera(125.0, 125.0, 79.5, 59.5, 160, 120, np.eye(4))
    large = Camera(250.0, 250.0, 159.5, 119.5, 320, 240, np.eye(4))
    measure(rasterize, room(300), small, 2)  # compiles, or reads the cache
    twin, ours = measure(rasterize_reference, room(300), small, 2), measure(rasterize, room(300), small, args.repeats)
    print(f"300 Gaussians, 160x120, one thread: twin {twin[0]:.0f} + {twin[1]:.0f} ms, numba {ours[0]:.1f} + ", end="")
    print(f"{ours[1]:.1f} ms, ratio {sum(twin) / sum(ours):.0f}")
    print("| size | Gaussians | " + " | ".join(f"{t} threads: forward + backward, ms" for t in args.threads) + " |")
    print("|---|---:|" + "---:|" * len(args.threads))
    for camera in (small, large):
        for n in (3000, 10_000, 30_000):
            cells = []
            for threads in args.threads:

                def run(*arguments: object, count: int = threads) -> object:
                    return rasterize(*arguments, threads=count)  # type: ignore[arg-type]

                cells.append("{:.1f} + {:.1f}".format(*measure(run, room(n), camera, args.repeats)))  # type: ignore[arg-type]
            print(f"| {camera.width}x{camera.height} | {n} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
