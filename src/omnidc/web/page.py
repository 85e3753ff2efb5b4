"""The page's own routes: its files, examples, a completion that reports its progress, and the results' downloads.

A completion streams lines of JSON (waiting with its place, running with its progress, done or failed); leaving it
cancels it. Results stay in memory, a few at a time, under names that cannot be guessed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

import omnidc
from omnidc.errors import InputError, OmnidcError
from omnidc.io.depth import CODECS
from omnidc.pipeline import Completion
from omnidc.web.admission import Exchange, exchange_of
from omnidc.web.app import AppState, describe_model, set_event
from omnidc.web.errors import HttpError
from omnidc.web.jobs import CancelledError, Job
from omnidc.web.requests import parse, read_body, validated
from omnidc.web.responses import MEDIA_TYPES, encode, respond
from omnidc.web.settings import Settings
from omnidc.web.view import FIELD_OF_VIEW, assumed_camera, corrupt_points, pack

STATIC = Path(__file__).parent / "static"
EXAMPLES = Path(omnidc.__file__).parent / "examples"
EXTRA = ("keep", "outliers", "field_of_view")

# One view, shown in the ways that teach something; keep and outliers are the sliders' positions.
EXAMPLE_LIST: tuple[dict[str, Any], ...] = (
    {"title": "A room, 500 points", "keep": 1.0, "outliers": 0.0},
    {"title": "The room, 25 points", "keep": 0.05, "outliers": 0.0},
    {"title": "The room, one point in five wrong", "keep": 1.0, "outliers": 0.2},
    {"title": "The room, no points at all", "keep": 0.0, "outliers": 0.0},
)


KEPT_PER_PIXEL = 19  # bytes: four maps of float32, and the photograph


class Sliders(BaseModel):
    """What the page asks for besides the options of the service."""

    keep: Annotated[float, Field(ge=0, le=1)] = 1.0  # share of the points that stays
    outliers: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of the points that is made wrong
    field_of_view: Annotated[float, Field(gt=1, lt=170)] = FIELD_OF_VIEW  # degrees across the width


class Results:
    """The last few results in memory, for a while."""

    def __init__(self, settings: Settings, max_bytes: int) -> None:
        self._limit, self._seconds, self._max_bytes = settings.results, settings.result_seconds, max_bytes
        self._kept: OrderedDict[str, tuple[float, Completion, bytes]] = OrderedDict()

    def add(self, result: Completion, view: bytes) -> str:
        name = secrets.token_urlsafe(18)
        self._kept[name] = time.monotonic(), result, view
        self.tidy()
        return name

    def get(self, name: str) -> tuple[Completion, bytes]:
        self.tidy()
        if name not in self._kept:
            raise HttpError("This result is no longer kept here: complete it again.", 404)
        return self._kept[name][1:]

    def drop(self, name: str) -> None:
        self._kept.pop(name, None)

    def tidy(self) -> None:
        oldest = time.monotonic() - self._seconds
        while self._kept and (
            len(self._kept) > self._limit
            or next(iter(self._kept.values()))[0] < oldest
            or (
                len(self._kept) > 1
                and sum(KEPT_PER_PIXEL * kept.depth.size for _, kept, _ in self._kept.values()) > self._max_bytes
            )
        ):
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


def add_page(app: FastAPI, shared: AppState) -> None:
    """Add the page to the service."""
    results = Results(shared.settings, shared.budget.limit // 4)
    app.state.results = results
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    shared.metrics.gauge("omnidc_results_kept", "Results the page keeps in memory.", lambda: len(results))
    hidden: dict[str, Any] = {"include_in_schema": False}

    @app.get("/", **hidden)
    async def index() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/page/info", **hidden)
    async def info() -> JSONResponse:
        settings = shared.settings
        return JSONResponse(
            {
                "model": describe_model(shared.completer),
                "version": omnidc.__version__,
                "max_bytes": settings.max_bytes,
                "max_pixels": settings.max_pixels,
                "depth_suffixes": list(CODECS),
                "field_of_view": FIELD_OF_VIEW,
                "examples": [{"id": k, **example} for k, example in enumerate(EXAMPLE_LIST)],
                "example_intrinsics": (EXAMPLES / "room_intrinsics.txt").read_text(encoding="utf-8").split(),
            }
        )

    @app.get("/page/examples/{name}", **hidden)
    async def example(name: str) -> FileResponse:
        if name not in ("room.jpg", "room_sparse.npz"):
            raise HttpError("There is no such example.", 404)
        return FileResponse(EXAMPLES / name)

    @app.post("/page/preview", **hidden)
    async def preview(request: Request) -> Response:
        """A PNG of a photograph that the browser itself cannot show, or the sentence that says what is wrong."""
        exchange = exchange_of(request)
        async with shared.receiving(request):
            view = await parse(request, await read_body(request, shared.settings), shared.settings)
            data = await shared.decode(lambda: shared.uploads.preview(view.image, exchange.remaining))
        return Response(data, media_type="image/png")

    @app.post("/page/complete", **hidden)
    async def complete(request: Request) -> StreamingResponse:
        try:
            sent, given = await shared.read_view(request, EXTRA)
        except InputError as error:
            raise InputError(page_words(str(error))) from error
        sliders = validated(Sliders, sent.extra)
        given, num_outliers = corrupt_points(given, sliders.keep, sliders.outliers)
        assumed = given.intrinsics is None
        if given.intrinsics is None:
            camera = assumed_camera((given.height, given.width), sliders.field_of_view)
            given = replace(given, intrinsics=camera)
        given = replace(given, warnings=tuple(page_words(sentence) for sentence in given.warnings))
        job = shared.queue.submit(given, sent.options.run)
        notes = {"summary": page_words(given.summary()), "assumed_camera": assumed, "num_outliers": num_outliers}
        lines = _follow(job, shared, results, notes, exchange_of(request))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    @app.get("/page/results/{name}/view", **hidden)
    async def view(name: str) -> Response:
        return Response(results.get(name)[1], media_type="application/octet-stream")

    @app.get("/page/results/{name}/depth.{kind}", **hidden)
    async def download(name: str, kind: str) -> Response:
        result, _ = results.get(name)
        if kind not in MEDIA_TYPES:
            raise HttpError(f"There is no download of the kind {kind[:8]!r}.", 404)
        body = await shared.run_in_thread(lambda: encode(result, kind))
        return respond(body, kind, {"Content-Disposition": f'attachment; filename="depth.{kind}"'})

    @app.delete("/page/results/{name}", **hidden)
    async def forget(name: str) -> Response:
        results.drop(name)
        return Response(status_code=204)


async def _follow(
    job: Job, shared: AppState, results: Results, notes: dict[str, Any], exchange: Exchange
) -> AsyncIterator[bytes]:
    """Lines of JSON until the job is done; a client that leaves closes this generator, which cancels the job."""
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
        except CancelledError:
            yield _failed("Cancelled.")
            return
        except Exception:
            yield _failed("The server failed at this view; its log says why.")
            return
        view = await shared.run_in_thread(lambda: pack(result, notes))
        yield _line({"state": "done", "result": results.add(result, view)})
    finally:
        job.cancel()


# What sentences of the library call things, and what the page calls them.
PAGE_WORDS = (
    (
        "move the points with --resize-sparse nearest (resize_sparse=True) if only the resolution differs",
        "tick \u201cThe depth has another resolution: move its points\u201d if only the resolution differs",
    ),
    ("give --depth-scale 1000 (depth_scale=1000)", "type 1000 under \u201cStored numbers are divided by\u201d"),
    (
        "give --depth-scale if that is wrong",
        "type another number under \u201cStored numbers are divided by\u201d if not",
    ),
)


def page_words(sentence: str) -> str:
    """Say a sentence of the library in the words of the page, which has no options of a command line."""
    for ours, theirs in PAGE_WORDS:
        sentence = sentence.replace(ours, theirs)
    return sentence


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _failed(sentence: str) -> bytes:
    return _line({"state": "failed", "error": page_words(sentence)})
