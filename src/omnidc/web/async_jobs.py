"""Long work without an open connection: `POST /v1/jobs`, then its state, its events and its result.

Finished and waiting jobs keep the memory that their request reserved, until the client deletes them or they expire.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from omnidc.errors import OmnidcError
from omnidc.web import openapi
from omnidc.web.admission import Exchange, exchange_of
from omnidc.web.app import AppState
from omnidc.web.errors import BusyError, HttpError
from omnidc.web.jobs import Job, JobQueue
from omnidc.web.responses import MEDIA_TYPES, encode, headers, negotiate, respond

PATH = "/v1/jobs"
POLL = 0.1  # seconds between two looks at a job's progress


@dataclass(frozen=True)
class Entry:
    """A job that somebody may come back for."""

    job: Job
    created: float  # seconds of the monotonic clock
    release: Callable[[], None]  # gives its memory back


class JobStore:
    """Jobs by names that cannot be guessed. For the event loop only."""

    def __init__(self, queue: JobQueue, limit: int, seconds: float) -> None:
        self._queue, self._limit, self._seconds = queue, limit, seconds
        self._entries: dict[str, Entry] = {}

    def check_place(self) -> None:
        """Refuse another job where there are as many as may be."""
        self.tidy()
        if len(self._entries) >= self._limit:
            raise BusyError(self._queue.retry_after())

    def add(self, job: Job, release: Callable[[], None]) -> str:
        name = secrets.token_urlsafe(18)
        self._entries[name] = Entry(job, time.monotonic(), release)
        return name

    def get(self, name: str) -> Job:
        self.tidy()
        if name not in self._entries:
            raise HttpError("There is no such job, or it has expired: send it again.", 404)
        return self._entries[name].job

    def drop(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            entry.job.cancel()
            entry.release()

    def tidy(self) -> None:
        oldest = time.monotonic() - self._seconds
        for name in [name for name, entry in self._entries.items() if entry.created < oldest]:
            self.drop(name)

    def __len__(self) -> int:
        return len(self._entries)


def describe_job(queue: JobQueue, job: Job) -> dict[str, Any]:
    """Describe a job for a client that waits for it."""
    if job.result.done():
        error = job.result.exception()
        if error is None:
            return {"state": "done"}
        known = isinstance(error, OmnidcError)
        return {"state": "failed", "error": str(error) if known else "The server failed at this view."}
    place = queue.place(job)
    return {"state": "waiting", "place": place} if place else {"state": "running", "progress": job.progress}


def add_jobs(app: FastAPI, shared: AppState) -> None:
    """Add the routes of asynchronous jobs to the service."""
    store = JobStore(shared.queue, shared.settings.queue, shared.settings.result_seconds)
    shared.metrics.gauge("omnidc_jobs_kept", "Asynchronous jobs that clients may come back for.", lambda: len(store))

    @app.post(
        PATH,
        summary="Complete the depth of one view later",
        status_code=202,
        responses=openapi.JOB_ACCEPTED,
        openapi_extra=openapi.COMPLETE_BODY,
    )
    async def submit(request: Request) -> JSONResponse:
        store.check_place()
        view, given, _ = await shared.read_view(request)
        job = shared.queue.submit(given, view.options.run)
        name = store.add(job, exchange_of(request).hand_over())
        location = f"{shared.settings.root_path}{PATH}/{name}"
        return JSONResponse({"id": name, **describe_job(shared.queue, job)}, 202, {"Location": location})

    @app.get(f"{PATH}/{{name}}", summary="The state of a job", responses=openapi.JOB_STATE)
    async def state(name: str) -> JSONResponse:
        return JSONResponse(describe_job(shared.queue, store.get(name)))

    @app.get(
        f"{PATH}/{{name}}/events",
        summary="The states of a job as they change (server-sent events)",
        response_class=StreamingResponse,
        responses=openapi.JOB_EVENTS,
    )
    async def events(name: str, request: Request) -> StreamingResponse:
        lines = _events(shared.queue, store.get(name), exchange_of(request))
        return StreamingResponse(lines, media_type="text/event-stream")

    @app.get(
        f"{PATH}/{{name}}/result",
        summary="The result of a job",
        response_class=Response,
        responses=openapi.JOB_RESULT,
    )
    async def result(name: str, request: Request) -> Response:
        kind = negotiate(request.headers.get("accept"))
        job = store.get(name)
        if not job.result.done():
            raise HttpError("The job is not done yet: ask for its state or its events.", 409)
        done = job.result.result()
        if kind in ("ply", "glb") and done.intrinsics is None:
            raise HttpError(f"A {kind} answer needs the camera: send intrinsics (fx, fy, cx, cy) with the job.", 422)
        body = await shared.run_in_thread(lambda: encode(done, kind))
        return respond(body, MEDIA_TYPES[kind][0], headers(done))

    @app.delete(f"{PATH}/{{name}}", summary="Cancel or forget a job", status_code=204, response_class=Response)
    async def forget(name: str) -> Response:
        store.drop(name)
        return Response(status_code=204)


async def _events(queue: JobQueue, job: Job, exchange: Exchange) -> AsyncIterator[bytes]:
    """Yield states as they change, until the job or the time of this request is over; clients may ask again."""
    last: dict[str, Any] = {}
    while not exchange.expired:
        now = describe_job(queue, job)
        if now != last:
            yield b"data: " + json.dumps(now).encode() + b"\n\n"
            last = now
        if now["state"] in ("done", "failed"):
            return
        await asyncio.sleep(POLL)
