"""Time in a run: how much has passed, what is due, how much is left."""

from __future__ import annotations

import resource
import time

from omnidc.training.schedule import format_duration


class Clock:
    """Seconds of training, over all resumptions."""

    def __init__(self) -> None:
        self.before = 0.0  # seconds of earlier processes
        self._started = time.monotonic()

    def start(self, before: float | None = None) -> None:
        self.before = self.before if before is None else before
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        return self.before + time.monotonic() - self._started


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its data loaders that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Interval:
    """Something that is due every so many steps and every so many minutes; 0 = not by that."""

    def __init__(self, steps: int, minutes: float, now: float) -> None:
        self.steps, self.seconds = steps, 60 * minutes
        self.last = now

    def due(self, step: int, now: float) -> bool:
        by_steps = self.steps > 0 and step % self.steps == 0
        return by_steps or (self.seconds > 0 and now - self.last >= self.seconds)


class Pace:
    """Images a second, smoothed, and the time left at the present pace."""

    def __init__(self) -> None:
        self.rate = 0.0
        self._first: tuple[float, float] | None = None  # share done and time of the first step

    def update(self, images: int, seconds: float) -> None:
        new = images / max(seconds, 1e-9)
        self.rate = new if self.rate == 0 else 0.95 * self.rate + 0.05 * new

    def left(self, done: float, now: float) -> str:
        """Return the time left, for people, when the share `done` of the computing is over; "?" until it is known."""
        if self._first is None:
            self._first = done, now
        first, then = self._first
        if done <= first or now <= then:
            return "?"
        return format_duration((1 - done) * (now - then) / (done - first))
