"""What users call: `load` a network, `complete` a view, keep the `Completion`; whole sources into sinks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from omnidc.pipeline.options import CompleteOptions

if TYPE_CHECKING:
    from omnidc.pipeline.completer import DepthCompleter, default_model, load
    from omnidc.pipeline.completion import Completion
    from omnidc.pipeline.prepare import make_frame
    from omnidc.pipeline.sinks import FolderSink, Sink
    from omnidc.pipeline.source import complete_source

__all__ = [
    "CompleteOptions",
    "Completion",
    "DepthCompleter",
    "FolderSink",
    "Sink",
    "complete_source",
    "default_model",
    "load",
    "make_frame",
]

# Fetched at first use: the command line reads options and must not wait for torch.
_HOMES = {
    "Completion": "completion",
    "DepthCompleter": "completer",
    "FolderSink": "sinks",
    "Sink": "sinks",
    "complete_source": "source",
    "default_model": "completer",
    "load": "completer",
    "make_frame": "prepare",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"omnidc.pipeline.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'omnidc.pipeline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
