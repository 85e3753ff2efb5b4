"""Limits of one request: time until its deadline, and a share of the server's memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from starlette.requests import HTTPConnection

from omnidc.web.errors import BusyError, TooLargeError

# Peak memory of one request per pixel of its image, over reading, completing and encoding (measured: docs/web.md).
BYTES_PER_PIXEL = 90
SCOPE_KEY = "omnidc.exchange"


def available_memory() -> int:
    """Return the bytes of memory of this computer, or of the container where that has a limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 * 2**30
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such limit
            continue
    return total


class MemoryBudget:
    """Bytes that all requests under way may hold together. For the event loop only."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0


class Exchange:
    """One request with its answer, from the head of the request to the last byte of the answer."""

    def __init__(self, budget: MemoryBudget, seconds: float) -> None:
        self._budget, self._reserved = budget, 0
        self._deadline = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, at least a few milliseconds."""
        return max(0.005, self._deadline - time.monotonic())

    @property
    def expired(self) -> bool:
        return time.monotonic() > self._deadline

    def reserve(self, size: int, what: str, retry_after: int) -> None:
        """Take bytes of the budget, or refuse: for ever where they exceed all of it, for now where others hold them."""
        budget = self._budget
        if self._reserved + size > budget.limit:
            needed, limit = (self._reserved + size) / 1e9, budget.limit / 1e9
            raise TooLargeError(
                f"{what} needs about {needed:.1f} GB of memory, more than the {limit:.1f} GB for requests here: "
                "send a smaller image."
            )
        if budget.used + size > budget.limit:
            raise BusyError(retry_after)
        budget.used += size
        self._reserved += size

    def hand_over(self) -> Callable[[], None]:
        """Keep what was reserved beyond the end of the exchange, until the returned function is called."""
        budget, kept, self._reserved = self._budget, self._reserved, 0

        def release() -> None:
            budget.used -= kept

        return release

    def release(self) -> None:
        """Give everything back."""
        self._budget.used -= self._reserved
        self._reserved = 0


def exchange_of(request: HTTPConnection) -> Exchange:
    """Return the exchange that the middleware made for a request."""
    exchange: Exchange = request.scope[SCOPE_KEY]
    return exchange
