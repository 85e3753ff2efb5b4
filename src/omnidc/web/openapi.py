"""Parts of /openapi.json that FastAPI does not find out by itself."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from omnidc.web.requests import FormFields, JsonBody
from omnidc.web.responses import MEDIA_TYPES
from omnidc.web.settings import Settings

ABOUT = (
    "Depth completion: a photograph and a few depth measurements in, dense depth out. "
    "Depth is along the optical axis, in the unit of the measurements; 0 means no measurement. "
    "Every error is JSON with one sentence under `error`."
)

ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string", "minLength": 1}},
    "required": ["error"],
    "additionalProperties": False,
}
PROBLEM: dict[str, Any] = {
    "description": "One sentence that says what was wrong.",
    "content": {"application/json": {"schema": ERROR}},
}

_FLOAT_MAP = {
    "type": "object",
    "properties": {
        "shape": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        "dtype": {"const": "float32"},
        "base64": {"type": "string", "description": "Little-endian, row by row."},
    },
    "required": ["shape", "dtype", "base64"],
}
_RANGE = {"type": "object", "properties": {name: {"type": "number"} for name in ("min", "median", "max")}}
RESULT = {
    "type": "object",
    "properties": {
        "width": {"type": "integer"},
        "height": {"type": "integer"},
        "unit": {"enum": ["m", "input's unit", "relative"]},
        "relative": {"type": "boolean", "description": "True when no point was given: the scale is arbitrary."},
        "points": {"type": "integer"},
        "model": {"type": "string"},
        "depth": _RANGE,
        "warnings": {"type": "array", "items": {"type": "string"}},
        "maps": {
            "type": "object",
            "properties": {
                "depth": _FLOAT_MAP,
                "uncertainty": {"anyOf": [_FLOAT_MAP, {"type": "null"}]},
                "input_confidence": _FLOAT_MAP,
            },
            "required": ["depth", "uncertainty", "input_confidence"],
        },
    },
    "required": ["width", "height", "unit", "relative", "points", "model", "depth", "warnings", "maps"],
}


def _header(about: str) -> dict[str, Any]:
    return {"description": about, "schema": {"type": "string"}}


COMPLETE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The completed depth, in the format that the Accept header asks for (npy by default).",
        "headers": {
            "Omnidc-Model": _header("Name of the model."),
            "Omnidc-Unit": _header('"m", "input\'s unit" or "relative".'),
            "Omnidc-Points": _header("Number of measurements that were used."),
            "Omnidc-Warnings": _header("JSON list of sentences."),
        },
        "content": {
            types[0]: {"schema": RESULT if kind == "json" else {"type": "string", "format": "binary"}}
            for kind, types in MEDIA_TYPES.items()
        },
    },
    **{status: PROBLEM for status in (400, 406, 408, 413, 415, 422, 503, 504)},
    429: {**PROBLEM, "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}},
}

JOB = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "state": {"enum": ["waiting", "running", "done", "failed"]},
        "place": {"type": "integer", "minimum": 1, "description": "1 = next."},
        "progress": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}]},
        "error": {"type": "string"},
    },
    "required": ["state"],
}
_JOB_CONTENT = {"application/json": {"schema": JOB}}
JOB_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The job waits; Location says where its state is.",
        "headers": {"Location": _header("Path of the job.")},
        "content": _JOB_CONTENT,
    },
    **{status: COMPLETE_RESPONSES[status] for status in (400, 408, 413, 415, 422, 429, 503, 504)},
}
JOB_STATE: dict[int | str, dict[str, Any]] = {200: {"description": "Its state.", "content": _JOB_CONTENT}, 404: PROBLEM}
JOB_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One event for every change, until the job is done or has failed.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    404: PROBLEM,
}
JOB_RESULT: dict[int | str, dict[str, Any]] = {
    200: COMPLETE_RESPONSES[200],
    **{status: PROBLEM for status in (404, 406, 409, 422, 499, 504)},
}

MODEL = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "parameters": {"type": "integer", "minimum": 0},
        "description": {"type": "string"},
        "uses_photograph": {"type": "boolean"},
    },
    "required": ["name", "parameters", "description", "uses_photograph"],
}
MODELS_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The models; one per process.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"models": {"type": "array", "items": MODEL}},
                    "required": ["models"],
                }
            }
        },
    }
}


def text_response(about: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": about, "content": {"text/plain": {"schema": {"type": "string"}}}}}


def _form_schema() -> dict[str, Any]:
    schema = FormFields.model_json_schema()
    properties = schema["properties"]
    # In a form these two are text: JSON, and numbers with commas between them.
    properties["points"] = {"type": "string", "description": properties["points"]["description"]}
    properties["intrinsics"] = {"type": "string", "description": properties["intrinsics"]["description"]}
    files = {
        "image": {"type": "string", "format": "binary", "description": "Photograph: JPEG, PNG, WebP, TIFF, BMP, PPM."},
        "sparse": {
            "type": "string",
            "format": "binary",
            "description": "Depth of the image's size, 0 = no measurement: npy, npz, 16-bit PNG, EXR, PFM or TIFF.",
        },
    }
    return {
        "type": "object",
        "properties": {**files, **properties},
        "required": ["image"],
        "additionalProperties": False,
    }


COMPLETE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _form_schema()},
            "application/json": {"schema": JsonBody.model_json_schema()},
        },
    }
}


def complete(app: FastAPI, settings: Settings) -> None:
    """Add what depends on the settings: the key, and the statuses of the guard."""
    schema = app.openapi()
    for methods in schema["paths"].values():
        for operation in methods.values():
            operation["responses"].setdefault("403", PROBLEM)
            operation["responses"].setdefault("421", PROBLEM)
            operation["responses"].setdefault("500", PROBLEM)
    if settings.api_key is not None:
        schema.setdefault("components", {})["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        for path, methods in schema["paths"].items():
            for operation in methods.values():
                if path not in ("/healthz", "/readyz"):
                    operation["security"] = [{"bearer": []}, {"header": []}]
                    operation["responses"]["401"] = PROBLEM
