"""Typed settings: dataclasses filled from tables by pydantic, errors as sentences."""

from __future__ import annotations

import json
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

from omnidc.errors import ConfigError, MissingExtraError, OmnidcError

T = TypeVar("T", bound="Settings")

_KINDS = {
    "list_type": "a list",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "a text",
    "bool_type": "true or false",
}


class Settings:
    """Base of the dataclasses of a configuration: unknown keys and values of another type are errors."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}


def build(kind: type[T], tables: dict[str, Any]) -> T:
    """Fill the dataclass `kind` from nested tables, or raise a ConfigError that names the first wrong key."""
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError as error:
        raise MissingExtraError("pydantic", "train", "Reading a training configuration") from error
    try:
        # as JSON: of Python objects, a strict dataclass accepts none but its own
        return TypeAdapter(kind).validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        raise _sentence(kind, error.errors()[0]) from None


def _sentence(kind: type[Any], problem: Any) -> OmnidcError:
    place = ".".join(map(str, problem["loc"]))
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, OmnidcError):
        return cause
    if problem["type"] == "unexpected_keyword_argument":
        return ConfigError(f"There is no setting {place}: choose one of {', '.join(_siblings(kind, problem['loc']))}.")
    if problem["type"] == "dataclass_type":
        return ConfigError(f"{place} is a table of settings, not {problem['input']!r}.")
    expected = _KINDS.get(problem["type"])
    if expected:
        return ConfigError(f"{place} must be {expected}, not {problem['input']!r}.")
    return ConfigError(f"{place} cannot be used: {problem['msg']}.")


def _siblings(kind: Any, location: tuple[Any, ...]) -> list[str]:
    """Return the settings beside the one at `location`."""
    for name in location[:-1]:
        kind = get_args(kind)[0] if isinstance(name, int) else get_type_hints(kind)[name]
    return [name for name in get_type_hints(kind) if not name.startswith("_")]
