"""From a `Completion` to the pieces of an answer's body, and which format the client wants."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.responses import StreamingResponse

from omnidc.pipeline import Completion
from omnidc.web.errors import HttpError
from omnidc.web.uploads import scratch

# format: media types that ask for it; the first is the one that answers carry
MEDIA_TYPES: dict[str, tuple[str, ...]] = {
    "npy": ("application/x-npy", "application/octet-stream"),
    "png": ("image/png",),
    "ply": ("model/ply", "application/x-ply", "application/ply"),
    "glb": ("model/gltf-binary",),
    "json": ("application/json",),
}
PIECE = 3 * 2**16  # bytes handed to the connection at a time; whole triples, which base64 needs


@dataclass(frozen=True)
class Body:
    """An answer's body, made while it is sent: a client that does not read holds one piece, not all."""

    length: int  # bytes
    pieces: Iterable[bytes]


def negotiate(accept: str | None) -> str:
    """Return the format of the best media type in an Accept header; npy where anything will do."""
    best, quality = "", 0.0
    for part in (accept or "*/*").split(","):
        wanted, *parameters = (piece.strip().lower() for piece in part.split(";"))
        q = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    q = float(parameter[2:])
                except ValueError:
                    q = 0.0
        for name, types in MEDIA_TYPES.items():
            if q > quality and any(wanted in (kind, "*/*", f"{kind.split('/')[0]}/*") for kind in types):
                best, quality = name, q
    if not best:
        kinds = ", ".join(types[0] for types in MEDIA_TYPES.values())
        raise HttpError(f"The Accept header asks for none of the formats that exist here: {kinds}.", 406)
    return best


def respond(body: Body, media_type: str, headers: dict[str, str]) -> StreamingResponse:
    """Send a body piece by piece, as fast as the client reads."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in body.pieces:
            yield piece
            await asyncio.sleep(0)  # other requests, and the news that this client left

    sized = {**headers, "Content-Length": str(body.length)}
    return StreamingResponse(pieces(), media_type=media_type, headers=sized)


def encode(result: Completion, kind: str) -> Body:
    """Encode the answer's body; npy, png, ply and glb are the files that `Completion.save` writes."""
    if kind == "json":
        return as_json(result)
    return file_body(f"depth.{kind}", result.save)


def file_body(name: str, write: Callable[[Path], Any]) -> Body:
    """Return the bytes of a file that `write` makes under this name, in memory where that exists."""
    with scratch() as folder:
        write(folder / name)
        data = memoryview((folder / name).read_bytes())
    return Body(len(data), (bytes(data[start : start + PIECE]) for start in range(0, len(data), PIECE)))


def as_json(result: Completion) -> Body:
    """Return the metadata with the maps as base64 of little-endian float32, row by row."""
    maps = {"depth": result.depth, "uncertainty": result.uncertainty, "input_confidence": result.input_confidence}
    parts: list[bytes | memoryview] = []  # text, and numbers that are still to be encoded
    text = json.dumps({**result.metadata(), "relative": result.relative}, allow_nan=False)[:-1] + ', "maps": {'
    for name, values in maps.items():
        if values is None:
            text += f'"{name}": null, '
            continue
        text += f'"{name}": {{"shape": {json.dumps(values.shape)}, "dtype": "float32", "base64": "'
        parts += [text.encode(), np.ascontiguousarray(values, "<f4").data.cast("B")]
        text = '"}, '
    parts.append(text.removesuffix(", ").encode() + b"}}")
    length = sum(len(part) if isinstance(part, bytes) else 4 * -(-len(part) // 3) for part in parts)

    def pieces() -> Iterator[bytes]:
        for part in parts:
            if isinstance(part, bytes):
                yield part
            else:
                yield from (base64.b64encode(part[start : start + PIECE]) for start in range(0, len(part), PIECE))

    return Body(length, pieces())


def headers(result: Completion) -> dict[str, str]:
    """Return headers with what a client of the bare formats should know."""
    return {
        "Omnidc-Model": _ascii(result.details.model),
        "Omnidc-Unit": _ascii(result.unit),
        "Omnidc-Points": str(int((result.sparse > 0).sum())),
        "Omnidc-Warnings": json.dumps(result.warnings),
    }


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
