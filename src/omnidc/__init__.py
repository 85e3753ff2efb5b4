"""omnidc: dense metric depth with an uncertainty, from a photograph and a few depth measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnidc.errors import OmnidcError
from omnidc.lazy import lazy_names

if TYPE_CHECKING:
    from omnidc.deploy.loading import complete, load
    from omnidc.pipeline import Completion, DepthCompleter

__version__ = "0.2.0"

__all__ = ["Completion", "DepthCompleter", "OmnidcError", "__version__", "complete", "load"]

# Fetched at first use: `import omnidc` (and with it the command line) must not wait for torch.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Completion": "omnidc.pipeline",
        "DepthCompleter": "omnidc.pipeline",
        "complete": "omnidc.deploy.loading",
        "load": "omnidc.deploy.loading",
    },
)
