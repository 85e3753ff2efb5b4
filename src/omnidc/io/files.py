"""Writing files so that none is ever seen half-written, not even after a power cut."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omnidc.errors import FileError

# `torch.save` raises no OSError where a disk is full, but RuntimeErrors with these words.
TORCH_DISK_FULL = ("iostream error", "PytorchStreamWriter failed writing", "unexpected pos")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` with the same suffix; rename it to `path` when the block ends well.

    When the block raises, the temporary file is removed and an older `path` stays as it was. A folder that is
    missing is created. Failures of the file system (no permission, disk full) become a `FileError`. The content is
    on the disk before the rename, and the rename before this returns, whatever the power supply does.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp makes files only the owner can read; the umask's own rights are what users expect of an output.
        descriptor, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        temporary = Path(name)
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(descriptor, 0o666 & ~umask)
        os.close(descriptor)
        yield temporary
        check_room(temporary)
        sync(temporary)
        temporary.replace(target)
        sync(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"Cannot write {target}: {reason}. Choose another place with -o or free some space.") from error
    except RuntimeError as error:
        if not any(words in str(error) for words in TORCH_DISK_FULL):
            raise
        raise FileError(f"Cannot write {target}. Choose another place with -o or free some space.") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_new(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Do as `atomic_path`, for writers that make the file or folder themselves: the temporary path does not exist."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.stem}.", dir=target.parent) as folder:
            temporary = Path(folder) / target.name
            yield temporary
            _check_and_sync(temporary)
            temporary.replace(target)
            sync(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"Cannot write {target}: {reason}. Choose another place or free some space.") from error


@contextmanager
def atomic_files(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty temporary folder; when the block ends well, its files move into `folder`, each whole."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new.", dir=target) as name:
            temporary = Path(name)
            yield temporary
            _check_and_sync(temporary)
            for file in sorted(temporary.iterdir()):
                file.replace(target / file.name)
            sync(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"Cannot write {target}: {reason}. Choose another place or free some space.") from error


def _check_and_sync(path: Path) -> None:
    for written in (*path.rglob("*"), path):
        if written.is_file():
            check_room(written)
        sync(written)


def check_room(path: Path) -> None:
    """Raise `OSError` for a file that cannot grow by one byte: the disk was full, or became so, while it was written.

    Some writers do not look whether all their bytes were taken (Pillow's JPEG and TIFF, OpenCV's PNG, `numpy.save`,
    COLMAP) and leave a shorter file without a word. A file that was cut so ends where the space did.
    """
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0")
        file.flush()
        file.truncate(size)


def write_json(path: Path, data: Any) -> None:
    """Write data as indented JSON."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
