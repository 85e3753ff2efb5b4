"""Options of commands from the fields of dataclasses, so that an option is declared once for all commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from typing import Annotated, Any, get_origin, get_type_hints

import typer


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a dataclass by one option per field.

    A field's metadata has `help`, `flags` where the name does not say them, and `parse` for text to value.
    """
    hints = get_type_hints(command, include_extras=True)
    own: list[inspect.Parameter] = []
    shared: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            groups[parameter.name] = kind
            types = get_type_hints(kind)
            shared += [_parameter(each, types[each.name]) for each in fields(kind)]
        else:
            own.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    parameters = [*own, *shared]

    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{each.name: _value(each, values.pop(each.name)) for each in fields(kind)})
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(each: Field[Any], kind: Any) -> inspect.Parameter:
    default = each.default
    flags: tuple[str, ...] = each.metadata.get("flags", ())
    if "parse" in each.metadata:
        kind = str
    elif get_origin(kind) is tuple:
        kind, default = list[str] | None, None
    elif kind is bool and not flags:
        flags = (f"--{each.name.replace('_', '-')}",)  # without a --no- twin
    annotation = Annotated[kind, typer.Option(*flags, help=each.metadata["help"])]
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(each: Field[Any], value: Any) -> Any:
    if "parse" in each.metadata:
        return each.metadata["parse"](value)
    if isinstance(each.default, tuple):
        return tuple(value or ())
    return value
