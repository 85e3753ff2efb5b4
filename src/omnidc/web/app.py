"""The HTTP service, `/v1/…`, described at /openapi.json; the page joins it in the same process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from omnidc import __version__
from omnidc.errors import OmnidcError
from omnidc.pipeline import Completion
from omnidc.web import description
from omnidc.web.answers import MEDIA_TYPES, encode, headers, negotiate
from omnidc.web.guard import Guard
from omnidc.web.jobs import CancelledError, Completer, Job, JobQueue
from omnidc.web.metrics import Metrics
from omnidc.web.problems import BusyError, HttpError, StoppingError
from omnidc.web.requests import discard_body, parse, read_body
from omnidc.web.settings import Settings
from omnidc.web.uploads import read_view

logger = logging.getLogger("omnidc.web")
T = TypeVar("T")


class Desk:
    """What all routes share: the queue, a few threads for files, the limits."""

    def __init__(self, completer: Completer, settings: Settings) -> None:
        self.completer, self.settings, self.metrics = completer, settings, Metrics()
        self.queue = JobQueue(completer, settings.queue, settings.batch, self.metrics)
        self._files: ThreadPoolExecutor | None = None
        self._receiving = 0
        self.metrics.gauges["omnidc_queue_waiting"] = ("Requests that wait for the model.", lambda: len(self.queue))
        self.metrics.gauges["omnidc_receiving"] = ("Requests being received or read.", lambda: self._receiving)
        self.metrics.gauges["omnidc_ready"] = ("1 while requests are taken.", lambda: self.queue.alive)

    @asynccontextmanager
    async def receiving(self, request: Request) -> AsyncIterator[None]:
        """A place for an upload; there are as many as in the queue, so that memory is bounded."""
        if not self.queue.alive:
            raise StoppingError
        if self._receiving >= self.settings.queue or len(self.queue) >= self.settings.queue:
            # A client that is still talking would meet a closed connection and never see the 429.
            await discard_body(request, self.settings)
            raise BusyError(self.queue.retry_after())
        self._receiving += 1
        try:
            yield
        finally:
            self._receiving -= 1

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run what takes time beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._files, work)

    async def wait(self, job: Job, request: Request) -> Completion:
        """The result; the job is cancelled when the client leaves or the time is over."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        job.result.add_done_callback(lambda _: tell(loop, done))
        finished = asyncio.ensure_future(done.wait())
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({finished, gone}, timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED)
            if job.result.done():
                return job.result.result()
            if gone.done():
                raise HttpError("The client left before its result was ready.", 499)
            raise HttpError(f"No result within {self.settings.timeout:g} seconds: send a smaller image.", 504)
        finally:
            job.cancel()
            finished.cancel()
            gone.cancel()

    def open(self) -> None:
        self._files = ThreadPoolExecutor(2, thread_name_prefix="omnidc-files")
        self.queue.start()

    def close(self) -> None:
        """Finish what runs."""
        self.queue.close(self.settings.timeout)
        if self._files is not None:
            self._files.shutdown(wait=True, cancel_futures=True)


def tell(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    """Set an event from another thread; a loop that has ended meanwhile needs no news."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(done.set)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(completer: Completer, settings: Settings | None = None) -> FastAPI:
    """The application: `app.state.desk` holds the queue."""
    settings = settings or Settings()
    desk = Desk(completer, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk.open()
        yield
        await asyncio.to_thread(desk.close)

    # The usual documentation pages load scripts from elsewhere; the description itself is at /openapi.json.
    app = FastAPI(
        title="omnidc",
        version=__version__,
        description=description.ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.desk = desk
    app.add_middleware(Guard, settings=settings, metrics=desk.metrics)
    app.add_exception_handler(OmnidcError, _explain)
    app.add_exception_handler(HTTPException, _explain)
    app.add_exception_handler(CancelledError, _explain)
    app.add_exception_handler(Exception, _apologize)
    _add_service(app, desk)
    if settings.page:
        from omnidc.web.page import add_page

        add_page(app, desk)
    description.complete(app, settings)
    return app


def _add_service(app: FastAPI, desk: Desk) -> None:
    @app.post(
        "/v1/complete",
        summary="Complete the depth of one view",
        response_class=Response,
        responses=description.COMPLETE_RESPONSES,
        openapi_extra=description.COMPLETE_BODY,
    )
    async def complete(request: Request) -> Response:
        kind = negotiate(request.headers.get("accept"))
        async with desk.receiving(request):
            view = await parse(request, await read_body(request, desk.settings), desk.settings)
            if kind in ("ply", "glb") and view.options.intrinsics is None:
                raise HttpError(f"A {kind} answer needs the camera: send intrinsics (fx, fy, cx, cy).", 422)
            given = await desk.off_loop(
                lambda: read_view(
                    view.image,
                    view.sparse,
                    view.points,
                    desk.settings,
                    unit=view.options.unit,
                    **view.options.reading,
                )
            )
            job = desk.queue.submit(given, view.options.run)
        result = await desk.wait(job, request)
        body = await desk.off_loop(lambda: encode(result, kind))
        return Response(body, media_type=MEDIA_TYPES[kind][0], headers=headers(result))

    @app.get("/v1/models", summary="The model that runs here", responses=description.MODELS_RESPONSES)
    async def models() -> JSONResponse:
        return JSONResponse({"models": [describe_model(desk.completer)]})

    @app.get(
        "/healthz",
        summary="Is the process alive?",
        response_class=PlainTextResponse,
        responses=description.text_response("ok"),
    )
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get(
        "/readyz",
        summary="Are requests taken?",
        response_class=PlainTextResponse,
        responses={**description.text_response("ready"), 503: description.PROBLEM},
    )
    async def readyz() -> PlainTextResponse:
        if not desk.queue.alive:
            raise StoppingError
        return PlainTextResponse("ready\n")

    @app.get(
        "/metrics",
        summary="Counters for Prometheus",
        response_class=PlainTextResponse,
        responses=description.text_response("Prometheus' text format"),
    )
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(desk.metrics.text(), media_type="text/plain; version=0.0.4")


def describe_model(completer: Completer) -> dict[str, Any]:
    """What clients and the page say of the model."""
    parameters = sum(p.numel() for p in completer.network.parameters()) if hasattr(completer, "network") else 0
    harmonic = completer.name == "harmonic"
    return {
        "name": completer.name,
        "parameters": int(parameters),
        "description": (
            "The integrator alone, without a trained network: smooth depth through the points, blind to the photograph."
            if harmonic
            else "A trained depth-completion network."
        ),
        "uses_photograph": not harmonic,
    }


async def _explain(request: Request, error: Exception) -> Response:
    """One sentence and the right status for whatever the request did wrong."""
    extra: dict[str, str] = {}
    if isinstance(error, HttpError):
        status, sentence, extra = error.status, str(error), error.headers
    elif isinstance(error, HTTPException):
        status, sentence, extra = error.status_code, f"{error.detail}.", dict(error.headers or {})
    elif isinstance(error, CancelledError):
        status, sentence = 499, "The request was cancelled."
    else:
        status, sentence = 422, str(error)
    return JSONResponse({"error": sentence}, status, extra)


async def _apologize(request: Request, error: Exception) -> Response:
    logger.error("Unexpected error", exc_info=error)
    return JSONResponse({"error": "The server failed at this request; its log says why."}, 500)
