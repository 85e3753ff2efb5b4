"""The compact network with the weights of the package against the paper-size one: CPU time and peak memory.

    python benchmarks/compact_network.py [--size 480 640] [--repeats 3] [--threads 1] [--results FILE]

Both in the form that infers fastest, each in a process of its own (peak memory is the process's high-water mark, import
and weights included), on the same input, in turns: paper, compact, paper, compact, … With one thread, other load on the
machine hardly changes CPU time; more threads spin while they wait for each other, which counts. The clock is printed
too, and means something on a free machine only.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from omnidc.io.files import write_json
from omnidc.network.checkpoint import load_network
from omnidc.network.interface import DepthNetwork
from paper_network import network_with_random_weights, scene

MODES = ("paper", "compact")


def measure(mode: str, height: int, width: int, threads: int) -> None:
    """One forward pass after a first one that warms up; called in a process of its own."""
    torch.set_num_threads(threads)
    network: DepthNetwork = network_with_random_weights() if mode == "paper" else load_network("compact")
    network = network.eval().requires_grad_(False).for_inference()
    image, sparse = scene(height, width)
    with torch.inference_mode():
        network(image, sparse)
        cpu, clock = time.process_time(), time.monotonic()
        network(image, sparse)
        cpu, clock = time.process_time() - cpu, time.monotonic() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": cpu, "clock": clock, "peak": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs=2, default=(480, 640), metavar=("H", "W"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, help="file for the table, for benchmarks/tables.py")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    height, width = options.size
    if options.mode:
        measure(options.mode, height, width, options.threads)
        return
    results: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for _ in range(options.repeats):
        for mode in MODES:
            command = [sys.executable, __file__, "--mode", mode, "--size", str(height), str(width)]
            command += ["--threads", str(options.threads)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            results[mode].append(json.loads(done.stdout.splitlines()[-1]))
            one = results[mode][-1]
            print(f"{mode:>8}: {one['cpu']:6.2f} CPU s, {one['clock']:6.2f} s, peak {one['peak']:5.0f} MB", flush=True)
    best = {mode: {key: min(one[key] for one in some) for key in some[0]} for mode, some in results.items()}
    peak = max(one["peak"] for one in results["compact"])
    print(
        f"at {height}x{width}: compact takes {best['paper']['cpu'] / best['compact']['cpu']:.1f} times less CPU time "
        f"({best['paper']['clock'] / best['compact']['clock']:.1f} by the clock) and {peak:.0f} MB at most"
    )
    if options.results:
        header = [f"network, {height}×{width}", "CPU s", "peak MB", "CPU time, × compact"]
        rows = [
            [
                *(mode, f"{one['cpu']:.2f}", f"{max(run['peak'] for run in results[mode]):.0f}"),
                f"{one['cpu'] / best['compact']['cpu']:.1f}",
            ]
            for mode, one in best.items()
        ]
        write_json(options.results, {"header": header, "rows": rows})


if __name__ == "__main__":
    main()
