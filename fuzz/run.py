"""Fuzz every target for some seconds and print what came of it.

    python fuzz/run.py --seconds 60                 all targets, one after the other
    python fuzz/run.py --seconds 600 --only depth   those whose names start so
    python fuzz/run.py --seconds 60 --resume        go on after a run that was cut off

Prints for each target inputs, how many of them were read rather than refused, crashes, the slowest input and the
largest memory (of the process or a child of it), as a table in Markdown; leaves with exit code 1 when an input crashed,
took more than 5 s or made a process larger than 1 GB. Each target's outcome and the inputs that crashed are kept in
`--artifacts`. Needs atheris (extra [fuzz]).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from fuzz_one import Watch
from targets import TARGETS

TIME_LIMIT = 5  # seconds for one input
MEMORY_LIMIT = 1024  # MB of a process, parser's libraries included
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Outcome:
    """What came of one target."""

    name: str
    seconds: int  # that it was given
    inputs: int
    read: int  # inputs that gave a result; the others were refused with a sentence
    crashes: int
    slowest: float  # seconds
    memory: int  # MB, of the process or of its largest child
    elapsed: float  # seconds, with the start

    @property
    def failed(self) -> bool:
        return self.crashes > 0 or self.inputs == 0 or self.slowest > TIME_LIMIT or self.memory > MEMORY_LIMIT

    def row(self) -> str:
        numbers = (f"{self.inputs:,}", f"{self.read:,}", self.crashes, f"{self.slowest:.2f}", self.memory)
        return "| " + " | ".join(map(str, (self.name, *numbers))) + " |"


def fuzz(name: str, seconds: int, artifacts: Path) -> Outcome:
    """Run one target in a process of its own, until its time is over or an input crashes; keep outcome and log."""
    folder = artifacts / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={TIME_LIMIT}",
        f"-rss_limit_mb={MEMORY_LIMIT}",
        f"-artifact_prefix={folder}/",
        "-len_control=0",  # short inputs, libFuzzer's first choice, are refused by every header
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    command = [sys.executable, str(HERE / "fuzz_one.py"), name, *options]
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    started = time.monotonic()
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
        watch = Path(workspace) / "watch"
        data = watch.read_bytes() if watch.is_file() else bytes(Watch.LAYOUT.size)
    read, refused, longest, children, own = Watch.LAYOUT.unpack(data)
    numbers = {key: int(value) for key, value in re.findall(r"stat::(\w+):\s*(\d+)", done.stdout)}
    outcome = Outcome(
        name,
        seconds,
        read + refused,
        read,
        sum(1 for _ in folder.iterdir()) or int(done.returncode != 0),
        longest / 1e6,
        max(children // 1024, own // 1024, numbers.get("peak_rss_mb", 0)),
        time.monotonic() - started,
    )
    (artifacts / f"{name}.log").write_text(done.stdout[-20_000:])
    (artifacts / f"{name}.json").write_text(json.dumps(asdict(outcome)) + "\n")
    return outcome


def known(name: str, seconds: int, artifacts: Path) -> Outcome | None:
    """The outcome of an earlier run that was at least as long and did not fail."""
    path = artifacts / f"{name}.json"
    if not path.is_file():
        return None
    outcome = Outcome(**json.loads(path.read_text()))
    return None if outcome.failed or outcome.seconds < seconds else outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", default="", help="targets whose names start so")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--resume", action="store_true", help="skip targets whose outcome is kept and good")
    parser.add_argument("--artifacts", type=Path, default=Path("fuzz-artifacts"))
    options = parser.parse_args()
    names = [name for name in TARGETS if name.startswith(options.only)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    def outcome_of(name: str) -> Outcome:
        earlier = known(name, options.seconds, options.artifacts) if options.resume else None
        return earlier or fuzz(name, options.seconds, options.artifacts)

    print("| target | inputs | read | crashes | slowest, s | memory, MB |\n|---|---|---|---|---|---|", flush=True)
    outcomes = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(outcome_of, names):
            outcomes.append(outcome)
            print(outcome.row(), flush=True)
    for outcome in outcomes:
        if outcome.failed:
            log = (options.artifacts / f"{outcome.name}.log").read_text()
            print(f"\n--- {outcome.name}\n{log[-3000:]}", file=sys.stderr)
    print(
        f"\n{sum(outcome.inputs for outcome in outcomes):,} inputs over {len(outcomes)} targets in "
        f"{sum(outcome.seconds for outcome in outcomes) / 60:.0f} minutes of fuzzing, of which "
        f"{sum(outcome.read for outcome in outcomes):,} were read; "
        f"{sum(outcome.crashes for outcome in outcomes)} crashes; "
        f"slowest {max((outcome.slowest for outcome in outcomes), default=0):.2f} s, "
        f"largest memory {max((outcome.memory for outcome in outcomes), default=0)} MB."
    )
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
