"""omnidc: a photograph and a few depth measurements in, dense metric depth with an honest uncertainty out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnidc.errors import OmnidcError

if TYPE_CHECKING:
    from omnidc.deploy.loading import complete, load
    from omnidc.pipeline import Completion, DepthCompleter

__version__ = "0.2.0.dev0"

__all__ = ["Completion", "DepthCompleter", "OmnidcError", "__version__", "complete", "load"]

# Fetched at first use: `import omnidc` (and with it the command line) must not wait for torch.
_LAZY = ("Completion", "DepthCompleter", "complete", "load")


def __getattr__(name: str) -> Any:
    if name in ("complete", "load"):
        from omnidc.deploy import loading

        return getattr(loading, name)
    if name in _LAZY:
        from omnidc import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module 'omnidc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
