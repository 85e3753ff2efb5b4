"""Child processes of benchmarks: a pool for long runs, and their CPU time (Linux)."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path


def process_pool(jobs: int) -> ProcessPoolExecutor:
    """Return a pool whose workers end with this process, even where it is killed."""
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


def descendants(pid: int) -> list[int]:
    """All processes that this one started, and theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def cpu_seconds() -> float:
    """CPU time so far of all processes that this one started and that still run."""
    ticks = 0
    for pid in descendants(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
