"""The frames of a run as a file: `frames.json` in its folder, and `data.manifest`, which asks for exactly those again.

Rendering on with the same seed makes the same frames under the same names, and more of them. A manifest selects those
of a run from a folder, so that (seed, manifest, settings) determine every sample.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from omnidc.errors import FileError
from omnidc.io.files import atomic_path

FRAMES = "frames.json"


def write_manifest(path: Path, names: Mapping[str, Sequence[str]]) -> None:
    """Write the names of all frames by source, those of held-out scenes included."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(names, indent=0) + "\n", encoding="utf-8")


def read_manifest(path: Path) -> dict[str, list[str]]:
    """Return the names of the frames by source."""
    try:
        tables = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"Cannot read the manifest {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise FileError(f"The manifest {path} is not valid JSON: {error}.") from error
    if not isinstance(tables, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in tables.values()
    ):
        raise FileError(f"The manifest {path} must map each source to a list of frames, as {FRAMES} of a run does.")
    return tables
