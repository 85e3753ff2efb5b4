"""The doctor on the page: checks of the input, and errors at hidden points, measured through the queue."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, TimeoutError
from functools import partial
from typing import Any

from omnidc.diagnose import Diagnosis, diagnose
from omnidc.errors import OmnidcError
from omnidc.frame import Frame
from omnidc.pipeline import CompleteOptions, Completion
from omnidc.web.admission import Exchange
from omnidc.web.errors import BusyError, HttpError
from omnidc.web.jobs import CanceledError, JobQueue
from omnidc.web.results import Kept
from omnidc.web.words import page_words

logger = logging.getLogger("omnidc.web")

FOLDS = 3  # fewer than the command line's five: somebody waits
POLL = 0.2  # seconds between two reports


class QueuedCompleter:
    """A completer for other threads: each frame waits in the queue as a request does."""

    def __init__(self, queue: JobQueue, exchange: Exchange) -> None:
        self.name = queue.completer.name
        self.canceled = False
        self.started = 0  # frames
        self._queue, self._exchange = queue, exchange

    def complete(self, frame: Frame, options: CompleteOptions) -> Completion:
        if self.canceled:
            raise CanceledError
        self.started += 1
        job = self._queue.submit(frame, options)
        try:
            while not self.canceled and not self._exchange.expired:
                try:
                    return job.result.result(POLL)
                except TimeoutError:
                    continue
        finally:
            job.cancel()
        if self.canceled:
            raise CanceledError
        raise HttpError("The time for this request is over: use a smaller image.", 504)


class Doctor:
    """Runs one diagnosis at a time, in a thread of its own."""

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="omnidc-doctor")
        self._busy = False

    def start(self, kept: Kept, exchange: Exchange) -> AsyncIterator[bytes]:
        """Start a diagnosis and return its lines of JSON; 429 while another one runs."""
        if self._busy:
            raise BusyError(self._queue.retry_after())
        completer = QueuedCompleter(self._queue, exchange)
        work = partial(diagnose, _frame(kept), completer, folds=FOLDS)
        self._busy = True
        task = asyncio.get_running_loop().run_in_executor(self._thread, work)
        task.add_done_callback(self._finished)
        return self._follow(task, completer)

    async def _follow(self, task: asyncio.Future[Diagnosis], completer: QueuedCompleter) -> AsyncIterator[bytes]:
        """Yield the share that is done while running, then done or failed. A client that leaves cancels the work."""
        try:
            while not task.done():
                # The checks before the first fold count as one more.
                yield _line({"state": "running", "progress": completer.started / (FOLDS + 1)})
                await asyncio.wait({task}, timeout=POLL)
            try:
                yield _line({"state": "done", "verdict": verdict(task.result())})
            except OmnidcError as error:
                yield _line({"state": "failed", "error": page_words(str(error))})
            except (CanceledError, CancelledError):
                yield _line({"state": "failed", "error": "Canceled."})
            except Exception:
                logger.exception("The doctor failed.")
                yield _line({"state": "failed", "error": "The server failed at this check; its log says why."})
        finally:
            completer.canceled = True

    def _finished(self, task: asyncio.Future[Diagnosis]) -> None:
        self._busy = False
        if not task.cancelled():
            task.exception()  # somebody who left does not ask for it

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def verdict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return what the page shows of a diagnosis, in its own words."""
    findings = [
        {
            "check": finding.check,
            "verdict": finding.verdict.value,
            "evidence": page_words(finding.evidence),
            "advice": page_words(finding.advice),
        }
        for finding in diagnosis.examination.findings
    ]
    errors = None
    if diagnosis.errors is not None:
        comparison = diagnosis.errors.comparison
        errors = {
            "count": comparison.count,
            "network": _finite(comparison.network.rel),
            "linear": _finite(comparison.linear.rel),
            "bias": _finite(comparison.network.bias),
            "network_is_worse": comparison.network_is_worse,
        }
    return {"model": diagnosis.model, "findings": findings, "errors": errors}


def _frame(kept: Kept) -> Frame:
    """Return the input of a result; a camera that was only assumed is not examined."""
    result = kept.completion
    camera = result.intrinsics if kept.camera_known else None
    return Frame(result.image, result.sparse, intrinsics=camera, unit=result.unit)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"
