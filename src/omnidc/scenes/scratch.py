"""Folders that one run has for itself: a scratch folder in memory, and the folder it renders into.

Both are held by a lock that the system releases when the process ends, however it ends. What a dead run left behind is
known by its free lock, and removed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from omnidc.errors import FileError

try:
    import fcntl
except ImportError:  # Windows: no locks, and nothing is cleaned up after others
    fcntl = None  # type: ignore[assignment]

PREFIX = "omnidc-scenes-"
LOCK = ".lock"
MEMORY = Path("/dev/shm")


def lock(folder: Path) -> IO[bytes] | None:
    """Hold a folder until the file returned is closed; None when another process holds it."""
    file = (folder / LOCK).open("ab")
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def hold_output(folder: Path) -> IO[bytes]:
    """Lock the folder of shards; a second run into it would remove what the first has begun."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock(folder)
    except OSError as error:
        raise FileError(
            f"Cannot write into {folder}: {error.strerror or error}. Choose another place with -o."
        ) from error
    if held is None:
        raise FileError(f"Another run is rendering into {folder}: wait for it, stop it, or choose another folder.")
    return held


def sweep(place: Path) -> list[Path]:
    """Remove the scratch folders of runs that are dead; returns them."""
    removed = []
    for folder in sorted(place.glob(f"{PREFIX}*")) if fcntl is not None else ():
        try:
            held = lock(folder)
        except OSError:  # another user's, or just removed
            continue
        if held is not None:
            shutil.rmtree(folder, ignore_errors=True)
            held.close()
            removed.append(folder)
    return removed


class Scratch:
    """A folder in memory (or where temporary files go) that is removed with the run."""

    def __init__(self, place: Path | None = None) -> None:
        where = place or (MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir()))
        sweep(where)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))
        self._lock = lock(self.folder)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
