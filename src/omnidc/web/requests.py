"""The body of a completion's request: received within limits, parsed in memory, checked field by field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from omnidc.pipeline.options import RENAMED_KEYWORDS, CompleteOptions
from omnidc.web.errors import HttpError, TooLargeError
from omnidc.web.settings import Settings
from omnidc.web.uploads import Upload

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Coordinate = Annotated[float, Field(allow_inf_nan=False)]
Point = tuple[Coordinate, Coordinate, Positive]


class Options(BaseModel):
    """What can be asked for besides the view itself; the names are those of `DepthCompleter.complete`."""

    model_config = ConfigDict(extra="forbid")

    intrinsics: Annotated[
        list[float] | None,
        Field(description="fx, fy, cx, cy in pixels (pixel centers at integers), or the nine numbers of a 3x3 matrix."),
    ] = None
    keep_input: Annotated[
        Literal["soft", "hard"], Field(description='"hard" makes the result pass through every measurement.')
    ] = "soft"
    max_long_side: Annotated[
        int | None,
        Field(ge=1, le=100_000, description="Compute larger images at this size; without it, at what suits the model."),
    ] = None
    depth_scale: Annotated[
        Positive | None, Field(description="What stored depth is divided by; guessed for integer files if not given.")
    ] = None
    ray_depth: Annotated[bool, Field(description="Depth is distance along the ray, not along the axis.")] = False
    resize_sparse: Annotated[bool, Field(description="Move the points when only the resolution differs.")] = False
    clip_depth: Annotated[Positive | None, Field(description="Largest depth in the result.")] = None
    unit: Annotated[Literal["m"] | None, Field(description='"m" says that the numbers are meters.')] = None

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, values: Any) -> Any:
        """Read fields under their old names, which work for one release."""
        if not isinstance(values, dict):
            return values
        old = {name: new for name, new in RENAMED_KEYWORDS.items() if name in values and new not in values}
        return {old.get(name, name): value for name, value in values.items()}

    @field_validator("intrinsics", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        """Split text, which forms carry: `fx,fy,cx,cy`, or JSON."""
        if isinstance(value, str):
            return [part for part in value.strip("[] ").replace(",", " ").split() if part]
        return value

    @property
    def run(self) -> CompleteOptions:
        return CompleteOptions(self.keep_input, self.max_long_side, clip_depth=self.clip_depth)

    @property
    def reading(self) -> dict[str, Any]:
        """The options of `omnidc.pipeline.make_frame`."""
        camera: Any = self.intrinsics
        if camera is not None and len(camera) == 9:
            camera = [camera[0:3], camera[3:6], camera[6:9]]
        return {
            "intrinsics": camera,
            "depth_scale": self.depth_scale,
            "ray_depth": self.ray_depth,
            "resize_sparse": self.resize_sparse,
        }


class FormFields(Options):
    """The fields of a form that are not files."""

    points: Annotated[
        list[Point] | None, Field(description="JSON: [[x, y, depth], …], column and row in pixels from the top left.")
    ] = None

    @field_validator("points", mode="before")
    @classmethod
    def _json(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return json.loads(value)
            except (ValueError, RecursionError) as error:
                raise ValueError("must be JSON of the form [[x, y, depth], ...]") from error
        return value


class JsonBody(Options):
    """A request without files."""

    image: Annotated[Base64Bytes, Field(description="The photograph's file (JPEG, PNG, …) in base64.")]
    points: Annotated[
        list[Point], Field(description="(x, y, depth): column and row in pixels from the top left, and the depth.")
    ] = []


@dataclass(frozen=True)
class CompletionRequest:
    """A parsed request."""

    image: Upload
    sparse: Upload | None
    points: list[Point] | None
    options: Options
    extra: dict[str, str]  # fields that only the page sends


LINGER_BYTES, LINGER_SECONDS = 32 * 2**20, 5.0  # of a body that is too large, received before the answer
BODY_COPIES = 3  # of a body at a time: as received, its parts, the decoder's file in memory


def body_size(request: Request, settings: Settings) -> int:
    """Return the bytes that the body will have, or may have where the client does not say."""
    declared = request.headers.get("content-length", "")
    return min(int(declared), settings.max_bytes) if declared.isdigit() else settings.max_bytes


async def read_body(request: Request, settings: Settings) -> bytes:
    """Read the whole body, or raise 413 when it is too large, 408 when it comes too slowly."""
    return b"".join(await _receive(request, settings, keep=True))


async def discard_body(request: Request, settings: Settings) -> None:
    """Let a body pass that nobody will read, within the same limits."""
    await _receive(request, settings, keep=False)


async def _receive(request: Request, settings: Settings, keep: bool) -> list[bytes]:
    declared = request.headers.get("content-length", "0")
    is_too_large = declared.isdigit() and int(declared) > settings.max_bytes
    deadline = min(LINGER_SECONDS, settings.upload_timeout) if is_too_large else settings.upload_timeout
    kept: list[bytes] = []

    async def receive() -> None:
        nonlocal is_too_large
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > settings.max_bytes:
                is_too_large = True
                kept.clear()
            # A client or proxy that is cut off while it sends sees a broken connection instead of the answer.
            if size > settings.max_bytes + LINGER_BYTES:
                return
            if keep and not is_too_large:
                kept.append(chunk)

    try:
        await asyncio.wait_for(receive(), deadline)
    except asyncio.TimeoutError as error:
        if not is_too_large:
            raise HttpError(
                f"The request did not arrive within {settings.upload_timeout:g} seconds.", 408, {"Connection": "close"}
            ) from error
    except ClientDisconnect as error:
        raise HttpError("The client left before its request was complete.", 400) from error
    if is_too_large:
        raise TooLargeError(f"The request is larger than the {settings.megabytes} that are taken here.")
    return kept


async def parse(request: Request, body: bytes, settings: Settings, extra: tuple[str, ...] = ()) -> CompletionRequest:
    """Parse a form or JSON, by the Content-Type. extra: names of further fields that are let through."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _parse_form(request, body, settings, extra)
    if kind == "application/json":
        sent = validated(JsonBody, body)
        options = Options(**sent.model_dump(exclude={"image", "points"}))
        return CompletionRequest(Upload("image", sent.image), None, sent.points, options, {})
    raise HttpError("Send multipart/form-data with the field image, or application/json.", 415)


async def _parse_form(request: Request, body: bytes, settings: Settings, extra: tuple[str, ...]) -> CompletionRequest:
    files: dict[str, Upload] = {}
    fields: dict[str, str] = {}
    try:
        form = await _Parser(
            request.headers, _once(body), max_files=2, max_fields=24, max_part_size=settings.max_bytes
        ).parse()
    except MultiPartException as error:
        raise HttpError(f"The form cannot be read: {error.message.rstrip('.')}.", 400) from error
    except Exception as error:  # the parser raises whatever odd bytes make it raise
        raise HttpError("The form cannot be read: it is not valid multipart/form-data.", 400) from error
    for name, value in form.multi_items():
        if name in files or name in fields:
            raise HttpError(f"The form has the field {name[:40]!r} twice.", 422)
        if isinstance(value, UploadFile):
            files[name] = Upload(value.filename or name, await value.read())
            await value.close()
        else:
            fields[name] = value
    for name in files:
        if name not in ("image", "sparse"):
            raise HttpError(f"The form has a file named {name[:40]!r}: only image and sparse are known.", 422)
    if "image" not in files:
        raise HttpError("The form has no file named image: send the photograph under this name.", 422)
    rest = {name: fields.pop(name) for name in extra if name in fields}
    # An empty field of a form is one that was not filled in.
    sent = validated(FormFields, {name: value for name, value in fields.items() if value != ""})
    options = Options(**sent.model_dump(exclude={"points"}))
    return CompletionRequest(files["image"], files.get("sparse"), sent.points, options, rest)


class _Parser(MultiPartParser):
    """Keeps every file in memory; the body is bounded already."""

    spool_max_size = 0  # 0 = SpooledTemporaryFile never goes to the disk


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def validated(model: Any, data: Any) -> Any:
    try:
        return model.model_validate_json(data) if isinstance(data, bytes) else model.model_validate(data)
    except (ValidationError, RecursionError) as error:
        raise HttpError(_sentence(error), 422) from error


def _sentence(error: Any) -> str:
    if not isinstance(error, ValidationError):
        return "The request is nested too deeply."
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part)[:40] for part in first["loc"]) or "The request"
    return f"{where}: {first['msg'].removeprefix('Value error, ').rstrip('.')}."
