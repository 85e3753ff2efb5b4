"""Tables as `benchmarks/tables.py` reads them (kind `cells`), and as Markdown on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omnidc.io.files import write_json


def emit(header: Sequence[str], rows: Sequence[Sequence[str]], path: Path | None = None) -> None:
    """Print a table; with a path also write it as JSON, for the docs."""
    print("\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *rows)))
    if path is not None:
        write_json(path, {"header": list(header), "rows": [list(row) for row in rows]})
