"""`omnidc live`: continuous depth from a camera, a video, a folder or a bag."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None: ...
