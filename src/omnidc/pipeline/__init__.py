"""The public calls: `load` a network, `complete` a view into a `Completion`, or a whole source into a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnidc.lazy import lazy_names
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
    "Completion": "omnidc.pipeline.completion",
    "DepthCompleter": "omnidc.pipeline.completer",
    "FolderSink": "omnidc.pipeline.sinks",
    "Sink": "omnidc.pipeline.sinks",
    "complete_source": "omnidc.pipeline.source",
    "default_model": "omnidc.pipeline.completer",
    "load": "omnidc.pipeline.completer",
    "make_frame": "omnidc.pipeline.prepare",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
