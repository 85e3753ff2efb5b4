"""Iterations, speed and memory of the depth integrator; every ratio is measured side by side in this run.

    python benchmarks/integrate.py [--quick] [--results docs/results]

Times are medians of process CPU seconds and of wall seconds; the stopping rule is the same for all iterative solvers
(relative residual 1e-5). --results writes both tables as JSON, from which benchmarks/tables.py makes those of the docs.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from scipy.sparse.linalg import spsolve

from omnidc.integrate import integrate
from omnidc.integrate.gallery import Problem, stepped_surface
from omnidc.integrate.reference import Reference
from omnidc.io.files import write_json

GRIDS = [(60, 80), (120, 160), (240, 320), (480, 640), (960, 1280)]
DENSITIES: list[int | float] = [5, 0.0003, 0.001, 0.007, 0.05]


def median_seconds(job: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Wall and CPU seconds, median over repeats after one warm-up."""
    job()
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        job()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return sorted(walls)[repeats // 2], sorted(cpus)[repeats // 2]


def print_table(header: list[str], rows: Iterator[list[str]], path: Path | None) -> None:
    """Print a table row by row, as it is measured; write it as JSON where a path is given."""
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    found = []
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
        found.append(row)
    if path is not None:
        write_json(path, {"header": header, "rows": found})


def iteration_rows(grids: list[tuple[int, int]], worst: list[int]) -> Iterator[list[str]]:
    """Yield a row per grid; append the most iterations with uniform or random weights of each cell to `worst`."""
    for height, width in grids:
        cells = []
        for density in DENSITIES:
            counts = []
            for weights in ("uniform", "random", "edges"):
                p = stepped_surface(height, width, points=density, weights=weights)  # type: ignore[arg-type]
                counts.append(int(integrate(*p.arguments(), on_failure="raise")[1].iterations))
            worst.append(max(counts[:2]))
            cells.append(" / ".join(map(str, counts)))
        yield [f"{height}×{width}", *cells]


def solver_rows(height: int, width: int, density: float, repeats: int) -> Iterator[list[str]]:
    """Yield a row per solver of the same system."""
    p = stepped_surface(height, width, points=density)
    reference = Reference(
        [g[0].double().numpy() for g in p.gradients],
        p.sparse_log_depth[0, 0].double().numpy(),
        (5 * p.mask * p.confidence)[0, 0].double().numpy(),
        [w[0].double().numpy() for w in p.weights],
    )
    jobs: dict[str, Callable[[], object]] = {
        "multigrid": lambda: integrate(*p.arguments()),
        "plain CG": lambda: integrate(*p.arguments(), method="cg"),
        "Jacobi CG": lambda: integrate(*p.arguments(), method="jacobi"),
        "scipy spsolve": lambda: spsolve(reference.matrix.tocsc(), reference.rhs),
    }
    base: tuple[float, float] | None = None
    for name, job in jobs.items():
        wall, cpu = median_seconds(job, repeats if name != "scipy spsolve" else 1)
        base = base or (wall, cpu)
        ratios = [f"{wall / base[0]:.1f}×", f"{cpu / base[1]:.1f}×"]
        yield [f"{height}×{width}, {100 * density:g} %", name, f"{1e3 * wall:.0f}", f"{1e3 * cpu:.0f}", *ratios]


def backward_ratio(height: int, width: int, repeats: int) -> tuple[float, float]:
    p = stepped_surface(height, width, points=0.001, weights="random")
    leaves = [t.clone().requires_grad_() for t in (*p.gradients, *p.weights)]
    upstream = torch.randn_like(p.sparse_log_depth)
    forwards, backwards = [], []
    for _ in range(repeats):
        warm_start = time.process_time()
        x, _ = integrate(leaves[:3], p.sparse_log_depth, p.mask, p.confidence, leaves[3:])
        middle = time.process_time()
        x.backward(upstream)
        forwards.append(middle - warm_start)
        backwards.append(time.process_time() - middle)
    return sorted(forwards)[repeats // 2], sorted(backwards)[repeats // 2]


def growth(repeats: int) -> float:
    """Exponent of CPU time against pixels from 120×160 to 960×1280."""
    seconds = []
    for height, width in ((120, 160), (960, 1280)):
        p: Problem = stepped_surface(height, width, points=0.001)
        seconds.append(median_seconds(lambda p=p: integrate(*p.arguments()), repeats)[1])  # type: ignore[misc]
    return math.log(seconds[1] / seconds[0]) / math.log(64)


def largest() -> None:
    p = stepped_surface(1080, 1920, points=0.0001)
    _, info = integrate(*p.arguments(), on_failure="raise")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"1080×1920 unknowns: {int(info.iterations)} iterations, peak resident memory {peak:.2f} GB.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small grids and fewer repeats")
    parser.add_argument("--results", type=Path, help="folder for the tables as JSON")
    parser.add_argument("--largest", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.largest:
        largest()
        return
    repeats = 3 if arguments.quick else 5
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    results: Path | None = arguments.results
    print("\nIterations to a relative residual of 1e-5 (uniform / random / edge weights)\n")
    header = ["grid", *(f"{d} points" if d >= 1 else f"{100 * d:g} %" for d in DENSITIES)]
    worst: list[int] = []
    rows = iteration_rows(GRIDS[:3] if arguments.quick else GRIDS, worst)
    print_table(header, rows, results and results / "integrate_iterations.json")
    print(f"\nMost iterations with uniform or random weights: {max(worst)} (bar: 20).")
    print("\nAgainst other solvers, same system\n")
    header = ["system", "solver", "wall ms", "CPU ms", "wall, × multigrid", "CPU, × multigrid"]
    sizes = [(120, 160)] if arguments.quick else [(120, 160), (240, 320)]
    rows = (row for size in sizes for row in solver_rows(*size, 0.0003, repeats))
    print_table(header, rows, results and results / "integrate_solvers.json")
    forward, backward = backward_ratio(120, 160, repeats)
    print(f"\nBackward / forward at 120×160, random weights: {backward / forward:.2f} (bar: 1.5).")
    if not arguments.quick:
        print(f"CPU time grows with pixels^{growth(repeats):.2f} from 120×160 to 960×1280 (bar: 1.1).")
        # A process of its own, because peak memory is counted from its warm_start.
        subprocess.run([sys.executable, __file__, "--largest"], check=True)


if __name__ == "__main__":
    main()
