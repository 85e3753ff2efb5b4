"""Which frames a run saw: `frames.json` in its folder, and `data.manifest`, which asks for exactly those again.

Rendering on with the same seed makes the same frames under the same names, and more of them. A manifest picks out of a
folder those that a run had, so that (seed, manifest, settings) fix every sample.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from omnidc.datasets.mixture import scenes_of
from omnidc.errors import ConfigError, FileError
from omnidc.frame import Frame
from omnidc.io.files import atomic_path
from omnidc.training.samples import names_of

FRAMES = "frames.json"


class Chosen(Sequence[Frame]):
    """Some frames of a dataset, by name."""

    def __init__(self, frames: Sequence[Frame], names: Sequence[str], source: str) -> None:
        place = {name: index for index, name in enumerate(names_of(frames))}
        gone = [name for name in names if name not in place]
        if gone:
            raise FileError(
                f"{len(gone)} of the manifest's {len(names)} frames of {source!r} are missing, the first is {gone[0]}: "
                "render on, or give the folder that has them."
            )
        scenes = scenes_of(frames)
        self.frames = frames
        self.names = list(names)
        self.places = [place[name] for name in names]
        self.scenes = [scenes[index] for index in self.places]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Frame:  # type: ignore[override]
        return self.frames[self.places[index]]


def choose(opened: Mapping[str, Sequence[Frame]], path: Path) -> dict[str, Sequence[Frame]]:
    """Of every source the frames that the manifest lists, in its order."""
    wanted = read_manifest(path)
    if set(wanted) != set(opened):
        raise ConfigError(
            f"{path} lists frames of {', '.join(wanted)}, but --data gives {', '.join(opened)}: "
            "the names must be the same."
        )
    return {name: Chosen(opened[name], names, name) for name, names in wanted.items()}


def write_manifest(path: Path, opened: Mapping[str, Sequence[Frame]]) -> None:
    """The names of all frames, by source; held-out scenes included."""
    with atomic_path(path) as temporary:
        text = json.dumps({name: names_of(frames) for name, frames in opened.items()}, indent=0)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_manifest(path: Path) -> dict[str, list[str]]:
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
