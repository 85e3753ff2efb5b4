"""Colors and letters of pictures with captions."""

from __future__ import annotations

from typing import Any

BACKGROUND = (250, 250, 248)
INK = (40, 40, 44)


def load_font(size: int) -> Any:
    """Return Pillow's own font, which is there on every system."""
    from PIL import ImageFont

    return ImageFont.load_default(size)
