"""What users call: `load` a network, `complete` a view, keep the `Completion`."""

from omnidc.pipeline.completer import DepthCompleter, DepthStream, complete, default_model, load
from omnidc.pipeline.completion import Completion
from omnidc.pipeline.prepare import Inputs, prepare

__all__ = ["Completion", "DepthCompleter", "DepthStream", "Inputs", "complete", "default_model", "load", "prepare"]
