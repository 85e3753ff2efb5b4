"""Public names of a package that are imported at first use, so that importing the package is fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from omnidc.errors import require_torch


def lazy_names(
    package: str,  # `__name__` of the package
    homes: Mapping[str, str],  # public name: module that defines it
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package."""

    def get(name: str) -> Any:
        if name in homes:
            try:
                return getattr(importlib.import_module(homes[name]), name)
            except ModuleNotFoundError as error:
                if error.name == "torch":
                    require_torch(f"{package}.{name}")
                raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
