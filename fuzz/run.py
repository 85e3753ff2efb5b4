"""Fuzz every target for some seconds and print what came of it.

    python fuzz/run.py --seconds 60                 all targets, one after the other
    python fuzz/run.py --seconds 600 --only depth   those whose names start so

Prints inputs, crashes, slowest input and largest memory of each target, as a table in Markdown; leaves with exit code 1
when an input crashed, took more than 5 s or made the process larger than its limit. Inputs that did are kept in
`--artifacts`. Needs atheris (extra [fuzz]).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from targets import TARGETS

TIME_LIMIT = 5  # seconds for one input
MEMORY_LIMIT = 1024  # MB of the whole process, parser's libraries included
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Outcome:
    """What libFuzzer reports of one target."""

    name: str
    inputs: int
    crashes: int
    slowest: int  # seconds, rounded down
    memory: int  # MB
    log: str


def fuzz(name: str, seconds: int, artifacts: Path) -> Outcome:
    """Run one target in a process of its own, until its time is over or an input crashes."""
    folder = artifacts / name
    folder.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={TIME_LIMIT}",
        f"-rss_limit_mb={MEMORY_LIMIT}",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    command = [sys.executable, str(HERE / "fuzz_one.py"), name, *options]
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="omnidc-fuzz-", dir=memory) as workspace:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "TMPDIR": workspace},
        )
    numbers = {key: int(value) for key, value in re.findall(r"stat::(\w+):\s*(\d+)", done.stdout)}
    return Outcome(
        name,
        numbers.get("number_of_executed_units", 0),
        sum(1 for _ in folder.iterdir()) or int(done.returncode != 0),
        numbers.get("slowest_unit_time_sec", 0),
        numbers.get("peak_rss_mb", 0),
        done.stdout,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", default="", help="targets whose names start so")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--artifacts", type=Path, default=Path("fuzz-artifacts"))
    options = parser.parse_args()
    names = [name for name in TARGETS if name.startswith(options.only)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print("| target | inputs | crashes | slowest, s | memory, MB |\n|---|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = []
        for outcome in pool.map(lambda name: fuzz(name, options.seconds, options.artifacts), names):
            outcomes.append(outcome)
            row = (outcome.name, f"{outcome.inputs:,}", outcome.crashes, outcome.slowest, outcome.memory)
            print("| " + " | ".join(map(str, row)) + " |", flush=True)
    for outcome in outcomes:
        if outcome.crashes:
            print(f"\n--- {outcome.name}\n{outcome.log[-3000:]}", file=sys.stderr)
    total = sum(outcome.inputs for outcome in outcomes)
    print(f"\n{total:,} inputs, {sum(outcome.crashes for outcome in outcomes)} crashes.")
    return int(any(outcome.crashes for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
