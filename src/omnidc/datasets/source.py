"""Common parts of all readers: the lazy sequence of frames, and errors for missing files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, overload

from omnidc.errors import ConfigError, FileError
from omnidc.frame import Frame


class Frames(Sequence[Frame]):
    """A lazy list of frames: `entries` says where each one lies, `read` turns one entry into a `Frame`.

    `read` is a module-level function or a `functools.partial` of one, so that worker processes can receive it.
    """

    def __init__(self, entries: Sequence[Any], read: Callable[[Any], Frame]) -> None:
        self.entries = entries
        self.read = read

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> Frames: ...
    def __getitem__(self, index: int | slice) -> Frame | Frames:
        if isinstance(index, slice):
            return Frames(self.entries[index], self.read)
        return self.read(self.entries[index])


def need_folder(path: Path, why: str) -> Path:
    """Return `path` if it is a folder; otherwise raise one sentence that says what it should hold."""
    if not path.is_dir():
        raise FileError(f"The folder {path} is missing: it should hold {why}.")
    return path


def need_file(path: Path, why: str) -> Path:
    """Return `path` if it is a file; otherwise raise one sentence that says what it should be."""
    if not path.is_file():
        raise FileError(f"The file {path} is missing: it should be {why}.")
    return path


def first_folder(root: Path, candidates: Iterable[str], why: str) -> Path:
    """Return the first of `root/candidate` that is a folder ("" is `root` itself)."""
    tried = [root / name for name in candidates]
    for path in tried:
        if path.is_dir():
            return path
    raise FileError(f"None of the folders {', '.join(map(str, tried))} exists: one should hold {why}.")


def need_entries(entries: Sequence[Any], root: Path, layout: str) -> Sequence[Any]:
    """Return `entries` unless it is empty: an empty dataset is nearly always the wrong folder."""
    if not entries:
        raise FileError(f"No frames found in {root}: expected files like {layout}.")
    return entries


def choose(option: str, value: Any, allowed: Sequence[Any]) -> Any:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        raise ConfigError(f"{option}={value!r} is not possible: choose one of {', '.join(map(repr, allowed))}.")
    return value


def positive(option: str, value: float) -> float:
    """Return `value` if it is a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{option}={value!r} is not possible: it should be a number above 0.")
    return float(value)


def nested(root: Path, folder: str, depth: int = 3) -> list[Path]:
    """Find every folder called `folder` at most `depth` levels below `root`, sorted.

    Fixed levels instead of a recursive search: listing the picture folders themselves would take minutes.
    """
    found: list[Path] = []
    for level in range(depth + 1):
        found.extend(path for path in root.glob("/".join([*["*"] * level, folder])) if path.is_dir())
    return sorted(found)


def safe_name(path: Path, root: Path) -> str:
    """Return the name of a frame: its path below `root` without suffix."""
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = Path(path.name)
    return relative.with_suffix("").as_posix()
