"""Ending a run by a signal."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Any

SAME = 5.0  # seconds


class StopSignal:
    """Notes SIGINT and SIGTERM for as long as the block lasts; a second one raises KeyboardInterrupt.

    Signals within `SAME` seconds count as one: with torchrun, Ctrl-C reaches a process from the terminal and again
    from the launcher.
    """

    def __init__(self) -> None:
        self.requested = False
        self._first = 0.0
        self._old: dict[signal.Signals, Any] = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.requested and now - self._first > SAME:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested, self._first = True, now

    def __enter__(self) -> StopSignal:
        self._old = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
