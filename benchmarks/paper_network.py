"""The paper-size network's optimized path against its plain mode: CPU time, peak memory, difference of the results.

    python benchmarks/paper_network.py [--size 960 1280] [--repeats 1] [--threads 1]

Each mode runs in a process of its own (peak memory is the process's high-water mark, import and weights included), with
the same random weights and the same input; CPU time counts all threads, so that other load on the machine matters
little. The weights are made so that every layer passes on signals of its usual size.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from omnidc.network.paper.config import PaperConfig
from omnidc.network.paper.model import PaperNetwork


def network_with_random_weights(seed: int = 0) -> PaperNetwork:
    """The as-released configuration with a Laplace head; variance-preserving weights, and a DySPN that propagates."""
    torch.manual_seed(seed)
    network = PaperNetwork(PaperConfig(released=True))
    for name, module in network.named_modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            gain = 0.1 if name.endswith("conv_offset_aff") or "decoders" in name else 1.0
            bound = gain * (3 / module.weight[0].numel()) ** 0.5
            nn.init.uniform_(module.weight, -bound, bound)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.uniform_(module.bias, -0.1, 0.1)
    return network.eval().requires_grad_(False)


def scene(height: int, width: int) -> tuple[Tensor, Tensor]:
    """A smooth random picture and measurements of a slope at 0.7 % of the pixels."""
    generator = torch.Generator().manual_seed(1)
    coarse = torch.rand(1, 3, height // 16, width // 16, generator=generator)
    image = nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    depth = torch.linspace(2, 6, height * width).view(1, 1, height, width)
    return image, depth * (torch.rand(depth.shape, generator=generator) < 0.007)


def measure(mode: str, height: int, width: int, repeats: int, threads: int, out: Path) -> None:
    """One mode; called in a process of its own."""
    torch.set_num_threads(threads)
    network = network_with_random_weights()
    if mode == "optimized":
        network.for_inference()
    image, sparse = scene(height, width)
    seconds = []
    context = torch.inference_mode() if mode == "optimized" else torch.no_grad()
    with context:
        for _ in range(repeats):
            before = time.process_time()
            prediction = network(image, sparse)
            seconds.append(time.process_time() - before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert prediction.laplace_scale is not None
    np.savez(
        out,
        depth=prediction.depth.numpy(),
        scale=prediction.laplace_scale.numpy(),
        depth_init=prediction.depth_init.numpy(),
    )
    print(json.dumps({"cpu": min(seconds), "peak": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, nargs=2, default=(960, 1280), metavar=("H", "W"))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=["plain", "optimized"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    height, width = options.size
    if options.mode:
        measure(options.mode, height, width, options.repeats, options.threads, options.out)
        return
    results, maps = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("plain", "optimized"):
            out = Path(folder) / f"{mode}.npz"
            command = [sys.executable, __file__, "--mode", mode, "--out", str(out)]
            command += ["--size", str(height), str(width), "--repeats", str(options.repeats)]
            command += ["--threads", str(options.threads)]
            result = subprocess.run(command, check=True, capture_output=True, text=True)
            results[mode] = json.loads(result.stdout.splitlines()[-1])
            maps[mode] = dict(np.load(out))
            print(f"{mode:>10}: {results[mode]['cpu']:7.2f} CPU s, peak {results[mode]['peak']:6.0f} MB", flush=True)
    plain, fast = results["plain"], results["optimized"]
    print(f"at {height}x{width}: {plain['cpu'] / fast['cpu']:.2f}x less CPU time, ", end="")
    print(f"{1 - fast['peak'] / plain['peak']:.0%} less peak memory")
    for name, expected in maps["plain"].items():
        relative = np.abs(maps["optimized"][name] - expected) / np.abs(expected)
        print(f"{name:>10}: relative difference max {relative.max():.1e}, mean {relative.mean():.1e}")


if __name__ == "__main__":
    main()
