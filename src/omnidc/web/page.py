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
from omnidc.errors import OmnidcError
from omnidc.io.depth import CODECS
from omnidc.pipeline import Completion
from omnidc.web.answers import MEDIA_TYPES, encode
from omnidc.web.app import Desk, describe_model, tell
from omnidc.web.jobs import CancelledError, Job
from omnidc.web.problems import HttpError
from omnidc.web.requests import parse, read_body, validated
from omnidc.web.settings import Settings
from omnidc.web.uploads import check_image, read_picture, read_view
from omnidc.web.view import FIELD_OF_VIEW, assumed_camera, disturb, pack

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


class Sliders(BaseModel):
    """What the page asks for besides the options of the service."""

    keep: Annotated[float, Field(ge=0, le=1)] = 1.0  # share of the points that stays
    outliers: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of the points that is made wrong
    field_of_view: Annotated[float, Field(gt=1, lt=170)] = FIELD_OF_VIEW  # degrees across the width


class Results:
    """The last few results in memory, for a while."""

    def __init__(self, settings: Settings) -> None:
        self._limit, self._seconds = settings.results, settings.result_seconds
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
        while self._kept and (len(self._kept) > self._limit or next(iter(self._kept.values()))[0] < oldest):
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


def add_page(app: FastAPI, desk: Desk) -> None:
    """Add the page to the service."""
    results = Results(desk.settings)
    app.state.results = results
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    desk.metrics.gauges["omnidc_results_kept"] = ("Results the page keeps in memory.", lambda: len(results))
    hidden: dict[str, Any] = {"include_in_schema": False}

    @app.get("/", **hidden)
    async def index() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/page/info", **hidden)
    async def info() -> JSONResponse:
        settings = desk.settings
        return JSONResponse(
            {
                "model": describe_model(desk.completer),
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
        async with desk.receiving(request):
            view = await parse(request, await read_body(request, desk.settings), desk.settings)
            check_image(view.image, desk.settings)
            return Response(await desk.off_loop(lambda: read_picture(view.image)), media_type="image/png")

    @app.post("/page/complete", **hidden)
    async def complete(request: Request) -> StreamingResponse:
        async with desk.receiving(request):
            sent = await parse(request, await read_body(request, desk.settings), desk.settings, EXTRA)
            sliders = validated(Sliders, sent.extra)
            options = sent.options
            given = await desk.off_loop(
                lambda: read_view(
                    sent.image, sent.sparse, sent.points, desk.settings, unit=options.unit, **options.reading
                )
            )
            given, planted = disturb(given, sliders.keep, sliders.outliers)
            assumed = given.intrinsics is None
            if given.intrinsics is None:
                camera = assumed_camera((given.height, given.width), sliders.field_of_view)
                given = replace(given, intrinsics=camera)
            job = desk.queue.submit(given, options.run)
        notes = {"summary": given.summary(), "assumed_camera": assumed, "planted": planted}
        return StreamingResponse(_follow(job, desk, results, notes), media_type="application/x-ndjson")

    @app.get("/page/results/{name}/view", **hidden)
    async def view(name: str) -> Response:
        return Response(results.get(name)[1], media_type="application/octet-stream")

    @app.get("/page/results/{name}/depth.{kind}", **hidden)
    async def download(name: str, kind: str) -> Response:
        result, _ = results.get(name)
        if kind not in MEDIA_TYPES:
            raise HttpError(f"There is no download of the kind {kind[:8]!r}.", 404)
        body = await desk.off_loop(lambda: encode(result, kind))
        disposition = f'attachment; filename="depth.{kind}"'
        return Response(body, media_type=MEDIA_TYPES[kind][0], headers={"Content-Disposition": disposition})

    @app.delete("/page/results/{name}", **hidden)
    async def forget(name: str) -> Response:
        results.drop(name)
        return Response(status_code=204)


async def _follow(job: Job, desk: Desk, results: Results, notes: dict[str, Any]) -> AsyncIterator[bytes]:
    """Lines of JSON until the job is done; a client that leaves closes this generator, which cancels the job."""
    deadline = time.monotonic() + desk.settings.timeout
    last: dict[str, Any] = {}
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    job.result.add_done_callback(lambda _: tell(loop, done))
    try:
        while not job.result.done():
            place = desk.queue.place(job)
            state = {"state": "waiting", "place": place} if place else {"state": "running", "progress": job.progress}
            if state != last:
                yield _line(state)
                last = state
            if time.monotonic() > deadline:
                yield _failed(f"No result within {desk.settings.timeout:g} seconds: use a smaller image.")
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
        view = await desk.off_loop(lambda: pack(result, notes))
        yield _line({"state": "done", "result": results.add(result, view)})
    finally:
        job.cancel()


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _failed(sentence: str) -> bytes:
    return _line({"state": "failed", "error": sentence})
