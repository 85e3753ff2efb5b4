"""omnidc: a photograph and a few depth measurements in, dense metric depth with an honest uncertainty out."""

from __future__ import annotations

from omnidc.errors import OmnidcError

__version__ = "0.1.0"

__all__ = ["OmnidcError", "__version__"]
