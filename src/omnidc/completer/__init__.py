"""What users call: `load` a network, `complete` a view, keep the `Completion`."""

from omnidc.completer.completer import DepthCompleter, DepthStream, complete, default_model, load
from omnidc.completer.completion import Completion
from omnidc.completer.inputs import Inputs, prepare

__all__ = ["Completion", "DepthCompleter", "DepthStream", "Inputs", "complete", "default_model", "load", "prepare"]
