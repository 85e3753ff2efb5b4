"""The HTTP service, `/v1/…`, described at /openapi.json; the page joins it in the same process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from omnidc import __version__
from omnidc.errors import OmnidcError
from omnidc.frame import Frame
from omnidc.pipeline import Completion
from omnidc.web import openapi
from omnidc.web.admission import BYTES_PER_PIXEL, MemoryBudget, available_memory, exchange_of
from omnidc.web.errors import BusyError, HttpError, StoppingError
from omnidc.web.jobs import CanceledError, Completer, Job, JobQueue
from omnidc.web.metrics import Metrics
from omnidc.web.requests import BODY_COPIES, CompletionRequest, body_size, discard_body, parse, read_body
from omnidc.web.responses import MEDIA_TYPES, encode, headers, negotiate, respond
from omnidc.web.security import SecurityMiddleware
from omnidc.web.settings import Settings
from omnidc.web.uploads import PhotoHead, UploadReader

logger = logging.getLogger("omnidc.web")
T = TypeVar("T")


STATIC = Path(__file__).parent / "static"
FILE_THREADS = 2  # that decode uploads, and as many that encode answers


class AppState:
    """What all routes share: the queue, a few threads for files, the limits."""

    def __init__(self, completer: Completer, settings: Settings) -> None:
        self.completer, self.settings, self.metrics = completer, settings, Metrics()
        self.queue = JobQueue(completer, settings.queue, settings.batch, self.metrics)
        self.uploads = UploadReader(settings, FILE_THREADS)
        self.budget = MemoryBudget(settings.max_memory or available_memory() // 2)
        self._decoders: ThreadPoolExecutor | None = None
        self._encoders: ThreadPoolExecutor | None = None
        self._receiving = 0
        self.on_close: list[Callable[[], None]] = []  # called at the end
        self.metrics.gauge("omnidc_queue_waiting", "Requests that wait for the model.", lambda: len(self.queue))
        self.metrics.gauge("omnidc_receiving", "Requests being received or read.", lambda: self._receiving)
        self.metrics.gauge("omnidc_reserved_bytes", "Memory set aside for requests.", lambda: self.budget.used)
        self.metrics.gauge("omnidc_ready", "1 while requests are taken.", lambda: self.queue.alive)

    @asynccontextmanager
    async def receiving(self, request: Request) -> AsyncIterator[None]:
        """Hold a place for an upload; as many as in the queue, and their bodies fit into the memory budget."""
        if not self.queue.alive:
            raise StoppingError
        try:
            if self._receiving >= self.settings.queue or len(self.queue) >= self.settings.queue:
                raise BusyError(self.queue.retry_after())
            size = body_size(request, self.settings)
            exchange_of(request).reserve(BODY_COPIES * size, "This request", self.queue.retry_after())
        except BusyError:
            # A client that is still talking would meet a closed connection and never see the 429.
            await discard_body(request, self.settings)
            raise
        self._receiving += 1
        try:
            yield
        finally:
            self._receiving -= 1

    async def read_view(
        self, request: Request, extra: tuple[str, ...] = ()
    ) -> tuple[CompletionRequest, Frame, PhotoHead]:
        """Receive, parse and decode a request. extra: names of further fields that are let through."""
        exchange = exchange_of(request)
        async with self.receiving(request):
            view = await parse(request, await read_body(request, self.settings), self.settings, extra)
            head = await self.decode(lambda: self.uploads.photo_head(view.image, exchange.remaining))
            exchange.reserve(BYTES_PER_PIXEL * head.width * head.height, view.image.label, self.queue.retry_after())
            given = await self.decode(
                lambda: self.uploads.view(
                    view.image,
                    view.sparse,
                    view.points,
                    exchange.remaining,
                    unit=view.options.unit,
                    **view.options.reading,
                )
            )
        return view, given, head

    async def decode(self, work: Callable[[], T]) -> T:
        """Read an upload beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._decoders, work)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run work that takes time beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._encoders, work)

    async def wait(self, job: Job, request: Request) -> Completion:
        """Return the result; the job is canceled when the client leaves or the time is over."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        job.result.add_done_callback(lambda _: set_event(loop, done))
        finished = asyncio.ensure_future(done.wait())
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait(
                {finished, gone}, timeout=exchange_of(request).remaining, return_when=asyncio.FIRST_COMPLETED
            )
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
        self._decoders = ThreadPoolExecutor(FILE_THREADS, thread_name_prefix="omnidc-decode")
        self._encoders = ThreadPoolExecutor(FILE_THREADS, thread_name_prefix="omnidc-encode")
        self.uploads.open()
        self.queue.start()

    def close(self) -> None:
        """Finish what runs."""
        self.queue.close(self.settings.timeout)
        for finish in self.on_close:
            finish()
        for executor in (self._decoders, self._encoders):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)
        self.uploads.close()


def set_event(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    """Set an event from another thread; a loop that has ended meanwhile needs no news."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(done.set)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(completer: Completer, settings: Settings | None = None) -> FastAPI:
    """Make the application: `app.state.shared` holds the queue."""
    settings = settings or Settings()
    shared = AppState(completer, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        shared.open()
        yield
        await asyncio.to_thread(shared.close)

    # FastAPI's own documentation pages load scripts from elsewhere; /docs is ours.
    app = FastAPI(
        title="omnidc",
        version=__version__,
        description=openapi.ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.shared = shared
    app.add_middleware(SecurityMiddleware, settings=settings, metrics=shared.metrics, budget=shared.budget)
    app.add_exception_handler(OmnidcError, _explain)
    app.add_exception_handler(HTTPException, _explain)
    app.add_exception_handler(CanceledError, _explain)
    app.add_exception_handler(Exception, _apologize)
    _add_service(app, shared)
    from omnidc.web.async_jobs import add_jobs

    add_jobs(app, shared)
    if settings.page:
        from omnidc.web.page import add_page

        add_page(app, shared)
    openapi.complete(app, settings)
    return app


def _add_service(app: FastAPI, shared: AppState) -> None:
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    @app.post(
        "/v1/complete",
        summary="Complete the depth of one view",
        response_class=Response,
        responses=openapi.COMPLETE_RESPONSES,
        openapi_extra=openapi.COMPLETE_BODY,
    )
    async def complete(request: Request) -> Response:
        kind = negotiate(request.headers.get("accept"))
        view, given, _ = await shared.read_view(request)
        if kind in ("ply", "glb") and given.intrinsics is None:
            raise HttpError(f"A {kind} answer needs the camera: send intrinsics (fx, fy, cx, cy).", 422)
        result = await shared.wait(shared.queue.submit(given, view.options.run), request)
        body = await shared.run_in_thread(lambda: encode(result, kind))
        return respond(body, MEDIA_TYPES[kind][0], headers(result))

    @app.get("/v1/models", summary="The model that runs here", responses=openapi.MODELS_RESPONSES)
    async def models() -> JSONResponse:
        return JSONResponse({"models": [describe_model(shared.completer)]})

    if not shared.settings.page:

        @app.get("/", include_in_schema=False)
        async def index(request: Request) -> PlainTextResponse:
            root = str(request.base_url).rstrip("/")
            return PlainTextResponse(
                f"omnidc {__version__}: depth completion over HTTP, with the model {shared.completer.name}.\n\n"
                f"  curl -F image=@photo.jpg -F sparse=@sparse.npy {root}/v1/complete -o depth.npy\n\n"
                f"Interface to try: {root}/docs   Description: {root}/openapi.json   Page for people: omnidc web\n"
            )

    @app.get(
        "/healthz",
        summary="Is the process alive?",
        response_class=PlainTextResponse,
        responses=openapi.text_response("ok"),
    )
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get(
        "/readyz",
        summary="Are requests taken?",
        response_class=PlainTextResponse,
        responses={**openapi.text_response("ready"), 503: openapi.PROBLEM},
    )
    async def readyz() -> PlainTextResponse:
        if not shared.queue.alive:
            raise StoppingError
        return PlainTextResponse("ready\n")

    @app.get(
        "/metrics",
        summary="Counters for Prometheus",
        response_class=PlainTextResponse,
        responses=openapi.text_response("Prometheus' text format"),
    )
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(shared.metrics.text(), media_type="text/plain; version=0.0.4")


def describe_model(completer: Completer) -> dict[str, Any]:
    """Describe the model for clients and the page."""
    parameters = sum(p.numel() for p in completer.network.parameters()) if hasattr(completer, "network") else 0
    is_plain = completer.name == "interpolate"
    return {
        "name": completer.name,
        "parameters": int(parameters),
        "description": (
            "The integrator alone, without a trained network: smooth depth through the points, blind to the photograph."
            if is_plain
            else "A trained depth-completion network."
        ),
        "uses_photograph": not is_plain,
    }


async def _explain(request: Request, error: Exception) -> Response:
    """Answer one sentence and the right status for whatever the request did wrong."""
    extra: dict[str, str] = {}
    if isinstance(error, HttpError):
        status, sentence, extra = error.status, str(error), error.headers
    elif isinstance(error, HTTPException):
        status, sentence, extra = error.status_code, f"{error.detail}.", dict(error.headers or {})
    elif isinstance(error, CanceledError):
        status, sentence = 499, "The request was canceled."
    else:
        status, sentence = 422, str(error)
    return JSONResponse({"error": sentence}, status, extra)


async def _apologize(request: Request, error: Exception) -> Response:
    logger.error("Unexpected error", exc_info=error)
    return JSONResponse({"error": "The server failed at this request; its log says why."}, 500)
