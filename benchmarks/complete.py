"""CPU time and peak memory of `complete()` as a whole, this source tree against another one, in one run.

    git worktree add ../old 62b0c79
    python benchmarks/complete.py --old ../old/src [--model FILE] [--size 480x640 --size 240x320] [--json FILE]

Both trees run in child processes with one thread (OMP_NUM_THREADS), in turns, so that other programs slow both alike.
Time is process time, the least of all calls; memory is the peak of a process that completes one image.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from cells import emit

CHILD = """
import json, resource, sys, time
import numpy as np
import omnidc

model, height, width, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
rng = np.random.default_rng(0)
y, x = np.mgrid[:height, :width]
depth = (2 + x / width + 3 * (y > height / 2) + 0.3 * np.sin(9 * x / width)).astype(np.float32)
image = np.clip(40 * depth[..., None] + rng.integers(0, 30, (height, width, 3)), 0, 255).astype(np.uint8)
sparse = depth * (rng.random((height, width)) < 0.001)
completer = omnidc.load(model)
times = []
for _ in range(calls):
    began = time.process_time()
    completer.complete(image, sparse)
    times.append(time.process_time() - began)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": min(times[1:]), "megabytes": peak}))
"""


def measure(source: Path, model: str, size: tuple[int, int], calls: int) -> dict[str, float]:
    """Run a child process on one source tree."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, model, str(size[0]), str(size[1]), str(calls)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, required=True, help="src folder of the other tree")
    parser.add_argument("--model", default="compact", help="model of this tree: a name or a checkpoint")
    parser.add_argument("--old-model", default="compact")
    parser.add_argument("--size", action="append", help="HEIGHTxWIDTH, repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--names", nargs=2, default=["old", "new"], help="of the two trees in the table")
    parser.add_argument("--json", type=Path, help="also write the table for the docs")
    arguments = parser.parse_args()
    new = Path(__file__).parents[1] / "src"
    rows = []
    for text in arguments.size or ["480x640", "240x320"]:
        height, width = (int(side) for side in text.split("x"))
        rounds = [
            (
                measure(arguments.old.resolve(), arguments.old_model, (height, width), arguments.calls),
                measure(new, arguments.model, (height, width), arguments.calls),
            )
            for _ in range(arguments.rounds)
        ]
        seconds = [min(one[side]["seconds"] for one in rounds) for side in (0, 1)]
        memory = [min(one[side]["megabytes"] for one in rounds) for side in (0, 1)]
        rows.append(
            [
                *(text, f"{seconds[0]:.3f}", f"{seconds[1]:.3f}", f"{seconds[1] / seconds[0]:.2f}"),
                *(f"{memory[0]:.0f}", f"{memory[1]:.0f}", f"{memory[1] / memory[0]:.2f}"),
            ]
        )
    names = arguments.names
    header = ["size", *(f"{name}, CPU s" for name in names), "ratio", *(f"{name}, MB" for name in names), "ratio"]
    emit(header, rows, arguments.json)


if __name__ == "__main__":
    main()
