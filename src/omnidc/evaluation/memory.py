"""Peak memory of a piece of work: the GPU's own counter where there is one, else the process's resident memory."""

from __future__ import annotations

import math
import os
import threading
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

STATM = Path("/proc/self/statm")
INTERVAL = 0.002  # seconds between two samples


def resident() -> int:
    """Return the bytes of this process in memory; Linux only."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """`with PeakMemory() as peak: …; peak.gigabytes` is the most memory the block took on top of what was there.

    With a GPU: all that torch had allocated there at its peak, weights included, as papers report it. Without: the
    growth of resident memory, sampled every 2 ms (a shorter spike is missed); NaN where the system has no /proc.
    """

    def __enter__(self) -> PeakMemory:
        self.gpu = False
        self.gigabytes = math.nan
        if find_spec("torch") is not None:
            import torch

            self.gpu = torch.cuda.is_available()
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        elif STATM.is_file():
            self.start = self.highest = resident()
            self.stop = threading.Event()
            self.thread = threading.Thread(target=self._sample, daemon=True)
            self.thread.start()
        return self

    def _sample(self) -> None:
        while not self.stop.wait(INTERVAL):
            self.highest = max(self.highest, resident())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.gpu:
            import torch

            self.gigabytes = torch.cuda.max_memory_allocated() / 1e9
        elif STATM.is_file():
            self.stop.set()
            self.thread.join()
            self.gigabytes = (max(self.highest, resident()) - self.start) / 1e9
