"""Speed of the CPU rasterizer against its torch twin, side by side in one run.

    python benchmarks/rasterizer.py [--threads 1 2] [--json docs/results/rasterizer.json]

Prints milliseconds of forward and backward (best of several; the machine should be free), the ratio of their sum to the
twin's at 300 Gaussians, and the seconds of the first call of a process: with an empty cache, when numba compiles, and
with a full one. Threads are compared too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from cells import emit
from omnidc.splatting.camera import Camera
from omnidc.splatting.numba_backend import rasterize
from omnidc.splatting.rasterizer import Rasterizer
from reference import rasterize_reference

SMALL = Camera(125.0, 125.0, 79.5, 59.5, 160, 120, np.eye(4))
LARGE = Camera(250.0, 250.0, 159.5, 119.5, 320, 240, np.eye(4))


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


FIRST_CALL = """
import time
from rasterizer import SMALL, measure, room
from omnidc.splatting.numba_backend import rasterize
parameters = room(300)
began = time.perf_counter()
measure(rasterize, parameters, SMALL, 1)
print(time.perf_counter() - began)
"""


def first_calls() -> tuple[float, float]:
    """Seconds of the first forward and backward of a process: compiled, and read from the cache on the disk."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-c", FIRST_CALL]
        seconds = [
            float(subprocess.check_output(command, env=environment, cwd=Path(__file__).parent, text=True))
            for _ in range(2)
        ]
    return seconds[0], seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", type=Path, help="also write the table, for docs/results")
    args = parser.parse_args()
    torch.set_num_threads(1)
    compiled, cached = first_calls()
    measure(rasterize, room(300), SMALL, 2)  # compiles, or reads the cache
    twin = measure(rasterize_reference, room(300), SMALL, 2)
    rows = [["torch twin", "160x120", "300", "1", *(f"{value:.0f}" for value in twin), "1"]]
    rows += [["first call, compiling", "160x120", "300", "1", f"{1e3 * compiled:.0f} in all", "", ""]]
    rows += [["first call, from the cache", "160x120", "300", "1", f"{1e3 * cached:.0f} in all", "", ""]]
    for camera, n in [(SMALL, 300), *((camera, n) for camera in (SMALL, LARGE) for n in (3000, 10_000, 30_000))]:
        for threads in args.threads:
            ours = measure(partial(rasterize, threads=threads), room(n), camera, args.repeats)
            ratio = f"{sum(twin) / sum(ours):.0f}" if n == 300 else ""
            size = f"{camera.width}x{camera.height}"
            rows.append(["numba", size, f"{n:,}", str(threads), *(f"{value:.1f}" for value in ours), ratio])
    emit(["", "size", "Gaussians", "threads", "forward, ms", "backward, ms", "times the twin's speed"], rows, args.json)


if __name__ == "__main__":
    main()
