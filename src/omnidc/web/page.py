"""The page's own routes: its files, examples, a completion that reports its progress, results and the doctor.

A completion streams lines of JSON (waiting with its place, running with its progress, done or failed); leaving it
cancels it. Results stay in memory, a few at a time, under names that cannot be guessed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, Field, field_validator

import omnidc
from omnidc.errors import InputError, OmnidcError
from omnidc.io.depth import CODECS
from omnidc.web.admission import BYTES_PER_PIXEL, Exchange, exchange_of
from omnidc.web.app import STATIC, AppState, describe_model, set_event
from omnidc.web.doctor import Doctor
from omnidc.web.errors import HttpError
from omnidc.web.jobs import CanceledError, Job
from omnidc.web.requests import parse, read_body, validated
from omnidc.web.responses import respond
from omnidc.web.results import Kept, ResultStore, download
from omnidc.web.security import COOKIE, is_authorized, is_key, session_token
from omnidc.web.view import FIELD_OF_VIEW, CameraSource, choose_camera, corrupt_points, pack
from omnidc.web.words import page_words

EXAMPLES = Path(omnidc.__file__).parent / "examples"
EXTRA = ("keep", "outliers", "field_of_view")
LOGIN_BYTES = 4096  # of a request with a key
LOGIN_DELAY = 0.5  # seconds before a wrong key is answered


class Sliders(BaseModel):
    """What the page asks for besides the options of the service."""

    keep: Annotated[float, Field(ge=0, le=1)] = 1.0  # share of the points that stays
    outliers: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of the points that is made wrong
    field_of_view: Annotated[float, Field(gt=1, lt=170)] | None = None  # degrees across the width; None = not typed

    @field_validator("field_of_view", mode="before")
    @classmethod
    def _empty(cls, value: Any) -> Any:
        return None if value == "" else value


class Login(BaseModel):
    """The key, as the page sends it."""

    key: str


def add_page(app: FastAPI, shared: AppState) -> None:
    """Add the page to the service."""
    settings = shared.settings
    results, doctor = ResultStore(settings, shared.budget.limit // 4), Doctor(shared.queue)
    app.state.results = results
    shared.on_close.append(doctor.close)
    shared.metrics.gauge("omnidc_results_kept", "Results the page keeps in memory.", lambda: len(results))
    examples = json.loads((EXAMPLES / "index.json").read_text(encoding="utf-8"))
    hidden: dict[str, Any] = {"include_in_schema": False}

    @app.get("/", **hidden)
    async def index(request: Request) -> FileResponse:
        if is_authorized(request.headers, settings):
            return FileResponse(STATIC / "index.html")
        return FileResponse(STATIC / "login.html", 401)

    @app.post("/page/login", **hidden)
    async def login(request: Request) -> Response:
        """Exchange the key for a cookie, which browsers then send with every request of the page."""
        body = await read_body(request, replace(settings, max_bytes=LOGIN_BYTES))
        if settings.api_key is None or not is_key(validated(Login, body).key, settings):
            await asyncio.sleep(LOGIN_DELAY)
            raise HttpError("This is not the key that the server was started with.", 401)
        answer = Response(status_code=204)
        answer.set_cookie(
            COOKIE,
            session_token(settings.api_key),
            path=settings.root_path or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
        return answer

    @app.get("/page/info", **hidden)
    async def info() -> JSONResponse:
        return JSONResponse(
            {
                "model": describe_model(shared.completer),
                "version": omnidc.__version__,
                "max_bytes": settings.max_bytes,
                "max_pixels": settings.max_pixels,
                "depth_suffixes": list(CODECS),
                "field_of_view": FIELD_OF_VIEW,
                "examples": examples,
            }
        )

    @app.get("/page/examples/{name}", **hidden)
    async def example(name: str) -> FileResponse:
        if name not in {entry[kind] for entry in examples for kind in ("image", "sparse")}:
            raise HttpError("There is no such example.", 404)
        return FileResponse(EXAMPLES / name)

    @app.post("/page/preview", **hidden)
    async def preview(request: Request) -> Response:
        """Return a PNG of a photograph that the browser itself cannot show, or the sentence that says what is wrong."""
        exchange = exchange_of(request)
        async with shared.receiving(request):
            view = await parse(request, await read_body(request, settings), settings)
            data = await shared.decode(lambda: shared.uploads.preview(view.image, exchange.remaining))
        return Response(data, media_type="image/png")

    @app.post("/page/complete", **hidden)
    async def complete(request: Request) -> StreamingResponse:
        try:
            sent, given, head = await shared.read_view(request, EXTRA)
        except InputError as error:
            raise InputError(page_words(str(error))) from error
        sliders = validated(Sliders, sent.extra)
        given, num_outliers = corrupt_points(given, sliders.keep, sliders.outliers)
        given, source = choose_camera(given, sliders.field_of_view, head.focal)
        given = replace(given, warnings=tuple(page_words(sentence) for sentence in given.warnings))
        job = shared.queue.submit(given, sent.options.run)
        notes = {
            "summary": page_words(given.summary()),
            "camera_source": source.value,
            "num_outliers": num_outliers,
        }
        lines = _follow(job, shared, results, notes, exchange_of(request))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    @app.get("/page/results/{name}/view", **hidden)
    async def view(name: str) -> Response:
        return Response(results.get(name).view, media_type="application/octet-stream")

    @app.post("/page/results/{name}/doctor", **hidden)
    async def examine(name: str, request: Request) -> StreamingResponse:
        kept, exchange = results.get(name), exchange_of(request)
        if not (kept.completion.sparse > 0).any():
            raise HttpError("There are no points to check.", 422)
        size = BYTES_PER_PIXEL * kept.completion.depth.size
        exchange.reserve(size, "This check", shared.queue.retry_after())
        return StreamingResponse(doctor.start(kept, exchange), media_type="application/x-ndjson")

    @app.get("/page/results/{name}/{file}", **hidden)
    async def save(name: str, file: str) -> Response:
        kept = results.get(name)
        body, media_type = await shared.run_in_thread(lambda: download(kept.completion, file))
        return respond(body, media_type, {"Content-Disposition": f'attachment; filename="{file}"'})

    @app.delete("/page/results/{name}", **hidden)
    async def forget(name: str) -> Response:
        results.drop(name)
        return Response(status_code=204)


async def _follow(
    job: Job, shared: AppState, results: ResultStore, notes: dict[str, Any], exchange: Exchange
) -> AsyncIterator[bytes]:
    """Yield lines of JSON until the job is done; a client that leaves closes this generator, which cancels the job."""
    last: dict[str, Any] = {}
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    job.result.add_done_callback(lambda _: set_event(loop, done))
    try:
        while not job.result.done():
            place = shared.queue.place(job)
            state = {"state": "waiting", "place": place} if place else {"state": "running", "progress": job.progress}
            if state != last:
                yield _line(state)
                last = state
            if exchange.expired:
                yield _failed(f"No result within {shared.settings.timeout:g} seconds: use a smaller image.")
                return
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(done.wait(), 0.1)
        try:
            result = job.result.result()
        except OmnidcError as error:
            yield _failed(str(error))
            return
        except CanceledError:
            yield _failed("Canceled.")
            return
        except Exception:
            yield _failed("The server failed at this view; its log says why.")
            return
        view = await shared.run_in_thread(lambda: pack(result, notes))
        known = notes["camera_source"] != CameraSource.ASSUMED.value
        yield _line({"state": "done", "result": results.add(Kept(result, view, known))})
    finally:
        job.cancel()


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _failed(sentence: str) -> bytes:
    return _line({"state": "failed", "error": page_words(sentence)})
