"""Writing files so that none is ever seen half-written; damaged files as one sentence."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omnidc.errors import FileError, OmnidcError


@contextmanager
def atomic_path(path: str | os.PathLike[str], durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path` with the same suffix; rename it to `path` when the block ends well.

    When the block raises, the temporary file is removed and an older `path` stays as it was. A folder that is
    missing is created. Failures of the file system (no permission, disk full) become a `FileError`. `durable`: the
    content is on the disk before the rename, and the rename before this returns, whatever the power supply does.
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
        if durable:
            sync(temporary)
        temporary.replace(target)
        if durable:
            sync(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"Cannot write {target}: {reason}. Choose another place with -o or free some space.") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def broken_file(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a decoder raises into one sentence: a damaged file is the file's fault, not the program's."""
    try:
        yield
    except OmnidcError:
        raise
    except Exception as error:  # decoders have exceptions of their own (zip, zlib, MATLAB, csv, struct)
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileError(f"{path} is not a readable {what} ({reason}): copy or download it again.") from error


def write_json(path: Path, data: Any, durable: bool = False) -> None:
    """Write data as indented JSON."""
    with atomic_path(path, durable) as temporary:
        temporary.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
