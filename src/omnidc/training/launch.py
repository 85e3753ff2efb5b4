"""Starting a run's processes: one per core on a CPU, unless torchrun did it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from omnidc.errors import InputError, OmnidcError
from omnidc.training.config import TrainConfig, to_tables
from omnidc.training.phases import phase_configs

GRACE = 60.0  # seconds that processes have to end after one of them failed
POLL = 0.2  # seconds


@dataclass(frozen=True)
class Failure:
    """An error of a worker process."""

    message: str
    interrupted: bool = False


def process_count(config: TrainConfig) -> int:
    """Return how many processes to start; unless configured, the most that cores and batch allow, and 1 on a GPU."""
    import torch

    if config.runtime.processes:
        return config.runtime.processes
    device = config.runtime.device
    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = [phase.optimizer.batch // phase.optimizer.accumulate for phase in phase_configs(config)]
    return max(n for n in range(1, cores + 1) if all(part % n == 0 for part in parts))


def launch(job: str, config: TrainConfig, folder: Path, *, resume: bool = False, quiet: bool = False) -> Any:
    """Run `job` ("train" or "plan") in as many processes as suit; return the main one's result.

    Under torchrun this process is one of them already.
    """
    from omnidc.training.worker import JOBS

    count = process_count(config)
    if "WORLD_SIZE" in os.environ or count == 1:
        return JOBS[job](config, folder, resume, quiet)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        file = work / "config.json"
        file.write_text(json.dumps(to_tables(config)), encoding="utf-8")
        flags = ["--resume"] * resume + ["--quiet"] * quiet
        command = [sys.executable, "-m", "omnidc.training.worker", job, str(file), str(folder), *flags]
        _run_all(lambda rank, port: _start(command, rank, count, port, work / f"{rank}.pickle"), count)
        results = [_read(work / f"{rank}.pickle") for rank in range(count)]
    for failure in (result for result in results if isinstance(result, Failure)):
        raise KeyboardInterrupt if failure.interrupted else OmnidcError(failure.message)
    if None in results:
        raise InputError(
            "A training process ended without a result (killed, or out of memory?): "
            "the same command goes on from the last checkpoint."
        )
    return results[0]


def _start(command: Sequence[str], rank: int, size: int, port: int, result: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive"),
        "OMNIDC_RESULT": str(result),
    }
    # a session of its own: Ctrl-C reaches the parent alone, which passes it on once
    return subprocess.Popen(command, env=environment, start_new_session=True)


def _run_all(start: Callable[[int, int], subprocess.Popen[bytes]], count: int) -> None:
    """Run the processes to their end; pass on signals; end all when one fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: FrameType | None) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)

    old = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        processes += [start(rank, port) for rank in range(count)]
        failed_at = 0.0
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                failed_at = failed_at or time.monotonic()
                if time.monotonic() - failed_at > GRACE:
                    break
            time.sleep(POLL)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for number, handler in old.items():
            signal.signal(number, handler)


def _read(path: Path) -> Any:
    """Return what a process left behind; None if it ended without a result."""
    try:
        return pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
