"""From a `Completion` to the bytes of an answer, and which one the client wants."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from omnidc.pipeline import Completion
from omnidc.web.problems import HttpError
from omnidc.web.uploads import scratch

# format: media types that ask for it; the first is the one that answers carry
MEDIA_TYPES: dict[str, tuple[str, ...]] = {
    "npy": ("application/x-npy", "application/octet-stream"),
    "png": ("image/png",),
    "ply": ("model/ply", "application/x-ply", "application/ply"),
    "glb": ("model/gltf-binary",),
    "json": ("application/json",),
}


def negotiate(accept: str | None) -> str:
    """The format of the best media type in an Accept header; npy where anything will do."""
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


def encode(result: Completion, kind: str) -> bytes:
    """The answer's body; npy, png, ply and glb are the files that `Completion.save` writes."""
    if kind == "json":
        return json.dumps(as_json(result), allow_nan=False).encode()
    with scratch() as folder:
        return result.save(folder / f"depth.{kind}").read_bytes()


def as_json(result: Completion) -> dict[str, Any]:
    """The metadata with the maps as base64 of little-endian float32, row by row."""
    maps = {"depth": result.depth, "uncertainty": result.uncertainty, "input_confidence": result.input_confidence}
    return {
        **result.metadata(),
        "relative": result.relative,
        "maps": {
            name: None
            if values is None
            else {
                "shape": list(values.shape),
                "dtype": "float32",
                "base64": base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode(),
            }
            for name, values in maps.items()
        },
    }


def headers(result: Completion) -> dict[str, str]:
    """What a client of the bare formats should know."""
    return {
        "Omnidc-Model": _ascii(str(result.details.get("model", ""))),
        "Omnidc-Unit": _ascii(result.unit),
        "Omnidc-Points": str(int((result.sparse > 0).sum())),
        "Omnidc-Warnings": json.dumps(result.warnings),
    }


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
