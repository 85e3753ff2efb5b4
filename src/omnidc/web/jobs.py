"""The queue: one thread runs the model, requests wait their turn, equal ones run together, canceled ones stop."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from omnidc.errors import OmnidcError
from omnidc.frame import Frame
from omnidc.pipeline import CompleteOptions, Completion
from omnidc.web.errors import BusyError, StoppingError
from omnidc.web.metrics import Metrics

logger = logging.getLogger("omnidc.web")


class Completer(Protocol):
    """What the queue needs of `omnidc.DepthCompleter`."""

    name: str

    def complete_frames(self, frames: Sequence[Frame], options: CompleteOptions) -> list[Completion]: ...


class CanceledError(Exception):
    """Nobody waits for this result any more."""


@dataclass(eq=False)
class Job:
    """One view on its way through the queue; jobs of equal options and equal size share a batch."""

    frame: Frame
    options: CompleteOptions
    result: Future[Completion] = field(default_factory=Future)
    created: float = field(default_factory=time.monotonic)
    running: bool = False
    canceled: bool = False
    progress: float | None = None  # share of the work done; None = not known

    @property
    def key(self) -> Hashable:
        return self.frame.image.shape[:2], self.options

    def cancel(self) -> None:
        """Leave the queue, or stop at the next step of the model. Harmless when it is done."""
        self.canceled = True

    def fail(self, error: BaseException) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class ProgressHook:
    """Reports progress by counting steps of the model, and stops a batch that nobody waits for.

    A step is a layer of a torch network, or a part of an exported model (`OnnxCompleter.on_step`).
    """

    def __init__(self, completer: Any) -> None:
        self._batch: list[Job] = []
        self._calls = 0
        self._expected: dict[Hashable, int] = {}  # steps of the last run of the same kind
        if hasattr(completer, "on_step"):
            completer.on_step = self._step
        network: Any = getattr(completer, "network", None)
        for module in network.modules() if hasattr(network, "modules") else ():
            if not any(True for _ in module.children()):
                module.register_forward_pre_hook(self._step)

    def __call__(self, batch: list[Job], work: Callable[[], list[Completion]]) -> list[Completion]:
        self._batch, self._calls = batch, 0
        try:
            results = work()
            self._expected[batch[0].key] = self._calls
            if len(self._expected) > 64:  # sizes come and go
                self._expected.pop(next(iter(self._expected)))
            return results
        finally:
            self._batch = []

    def _step(self, *of_layer: Any) -> None:
        if not self._batch:
            return
        if all(job.canceled for job in self._batch):
            raise CanceledError
        self._calls += 1
        expected = self._expected.get(self._batch[0].key)
        if expected:
            for job in self._batch:
                job.progress = min(1.0, self._calls / expected)


class JobQueue:
    """Bounded. `submit` from any thread; the worker is the only one that touches the model."""

    def __init__(self, completer: Completer, size: int, batch: int, metrics: Metrics) -> None:
        self.completer, self.size, self.batch, self.metrics = completer, size, batch, metrics
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = True
        self._seconds = 1.0  # running mean of the time of one job
        self._hook = ProgressHook(completer)
        self._worker = threading.Thread()

    def start(self) -> None:
        """Take requests, from now until `close`."""
        self._closed = False
        self._worker = threading.Thread(target=self._work, name="omnidc-model", daemon=True)
        self._worker.start()

    def submit(self, frame: Frame, options: CompleteOptions) -> Job:
        job = Job(frame, options)
        with self._changed:
            if self._closed:
                raise StoppingError
            self._drop_canceled()
            if len(self._waiting) >= self.size:
                raise BusyError(self.retry_after())
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    def place(self, job: Job) -> int:
        """Return 0 = running or done, 1 = next, 2 = one more before it …"""
        with self._changed:
            waiting = [other for other in self._waiting if not other.canceled or other is job]
            return waiting.index(job) + 1 if job in waiting else 0

    def retry_after(self) -> int:
        """Return the seconds until a place is likely to be free."""
        return max(1, math.ceil(self._seconds))

    def __len__(self) -> int:
        with self._changed:
            return sum(not job.canceled for job in self._waiting)

    @property
    def alive(self) -> bool:
        return self._worker.is_alive() and not self._closed

    def close(self, timeout: float = 60.0) -> None:
        """Take nothing more, drop what waits, finish what runs."""
        with self._changed:
            self._closed = True
            for job in self._waiting:
                job.fail(StoppingError())
            self._waiting.clear()
            self._changed.notify_all()
        self._worker.join(timeout)

    def _drop_canceled(self) -> None:
        for job in [job for job in self._waiting if job.canceled]:
            self._waiting.remove(job)
            job.fail(CanceledError())

    def _take(self) -> list[Job]:
        """Take the first in line, and those of its kind that wait behind it."""
        self._drop_canceled()
        if not self._waiting:
            return []
        first = self._waiting[0]
        together = [job for job in self._waiting if job.key == first.key][: self.batch]
        for job in together:
            self._waiting.remove(job)
            job.running = True
        return together

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch = self._take()
            if batch:
                self._run(batch)

    def _run(self, batch: list[Job]) -> None:
        started = time.monotonic()
        frames = [job.frame for job in batch]
        try:
            results = self._hook(batch, lambda: self.completer.complete_frames(frames, batch[0].options))
        except CanceledError as error:
            for job in batch:
                job.fail(error)
        except Exception as error:
            if len(batch) > 1:  # one bad view must not spoil the others
                for job in batch:
                    self._run([job])
                return
            if not isinstance(error, OmnidcError):
                logger.exception("The model failed.")
            batch[0].fail(error)
        else:
            for job, result in zip(batch, results):
                job.result.set_result(result)
            seconds = time.monotonic() - started
            self._seconds += 0.2 * (seconds / len(batch) - self._seconds)
            self.metrics.completed(len(batch), seconds)
