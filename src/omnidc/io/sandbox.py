"""Run a parser in a process of its own, which may hang, die or run out of memory without harm.

The child reads requests on its standard input and answers on its standard output. An answer is JSON and raw arrays,
never a pickle: a parser that an attacker took over cannot run code in the parent.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError, OmnidcError
from omnidc.io.untrusted import TooLargeFileError

Array = npt.NDArray[Any]
Answer = tuple[dict[str, Any], list[Array]]  # values that JSON can hold, and arrays of numbers

ERRORS: dict[str, type[OmnidcError]] = {kind.__name__: kind for kind in (FileError, InputError, TooLargeFileError)}
READY = b"ready"  # what the child says first
START_SECONDS = 60.0  # for its imports, on a slow disk
MAX_TEXT = 2**20  # bytes of an answer's JSON
GRACE_SECONDS = 2.0  # after which a child ends itself, if its parent has not done so


class SlowFileError(FileError):
    """A file that takes longer to read than its reader may."""


class Sandbox:
    """One child process, started at its first task and again after it died. Not for use by two threads at once."""

    def __init__(self, module: str, memory: int = 4 * 2**30, imports: tuple[str, ...] = ()) -> None:
        """Prepare a child process. module: its functions; memory: address space in bytes, where it can be limited.

        imports: modules that the functions import, so that the time for it is not counted as a file's.
        """
        self._module, self._memory, self._imports = module, memory, imports
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False  # whether the child has said that its imports are done
        self._owner = 0  # process that started the child

    def call(self, task: str, path: Path, timeout: float, **options: Any) -> Answer:
        """Run the module's function `task` as task(path, **options) for at most `timeout` seconds.

        The function returns an `Answer`. Errors of the package are raised here as they were there; a child that dies
        is a `FileError` about `path`, one that takes too long a `SlowFileError`.
        """
        process = self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        if not self._ready:
            with self._limited(process, START_SECONDS, f"The reader of {path} did not start: try again."):
                _read_exactly(process.stdout, len(READY))
            self._ready = True
        job = {"task": task, "path": str(path), "options": options, "seconds": timeout}
        request = json.dumps(job).encode()
        crashed = f"{path} is damaged (its reader crashed): export or download it again."
        with self._limited(
            process, timeout, crashed, f"{path} takes more than {timeout:.3g} s to read: export it again."
        ):
            process.stdin.write(struct.pack("<I", len(request)) + request)
            process.stdin.flush()
            return _read_answer(process.stdout)

    @contextmanager
    def _limited(
        self, process: subprocess.Popen[bytes], seconds: float, crashed: str, slow: str | None = None
    ) -> Iterator[None]:
        """Kill the child after `seconds` and say `slow` then (None = `crashed`); say `crashed` if it dies earlier."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(seconds, expire)
        timer.start()
        try:
            yield
        except (EOFError, OSError) as error:
            self.close()
            if expired.is_set() and slow is not None:
                raise SlowFileError(slow) from error
            raise FileError(crashed) from error
        finally:
            timer.cancel()
            if expired.is_set():
                self.close()

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            self._process = None
        self._ready = False

    def start(self) -> subprocess.Popen[bytes]:
        """Start the child, unless it runs already, and do not wait for it."""
        if self._owner != os.getpid():  # after a fork the child is another process's
            self._process, self._ready, self._owner = None, False, os.getpid()
        if self._process is None or self._process.poll() is not None:
            self.close()
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "OMP_NUM_THREADS": "1",  # every thread costs address space
                "OPENBLAS_NUM_THREADS": "1",
            }
            self._process = subprocess.Popen(
                [sys.executable, "-m", "omnidc.io.sandbox", str(self._memory), self._module, *self._imports],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if os.environ.get("OMNIDC_DEBUG") else subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )
        return self._process


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _read_answer(stream: IO[bytes]) -> Answer:
    (size,) = struct.unpack("<I", _read_exactly(stream, 4))
    if size > MAX_TEXT:
        raise EOFError
    answer = json.loads(_read_exactly(stream, size))
    if "error" in answer:
        raise ERRORS.get(answer["error"], FileError)(answer["sentence"])
    arrays = []
    for kind, shape in answer["arrays"]:
        dtype = np.dtype(kind)
        if dtype.hasobject:
            raise EOFError
        data = bytearray(math.prod(shape) * dtype.itemsize)
        if stream.readinto(data) != len(data):  # type: ignore[attr-defined]
            raise EOFError
        arrays.append(np.frombuffer(data, dtype).reshape(shape))
    return answer["values"], arrays


def serve(module: ModuleType, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the parent closes the pipe."""
    while head := requests.read(4):
        request = json.loads(_read_exactly(requests, struct.unpack("<I", head)[0]))
        function: Callable[..., Answer] = getattr(module, request["task"])
        arrays: list[Array] = []
        _die_after(request["seconds"] + GRACE_SECONDS)
        try:
            values, arrays = function(Path(request["path"]), **request["options"])
            arrays = [np.ascontiguousarray(array) for array in arrays]
            answer: dict[str, Any] = {
                "values": values,
                "arrays": [[array.dtype.str, list(array.shape)] for array in arrays],
            }
        except OmnidcError as error:
            known = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in {*ERRORS, "OmnidcError"})
            answer = {"error": known, "sentence": str(error)}
        text = json.dumps(answer).encode()
        answers.write(struct.pack("<I", len(text)) + text)
        for array in arrays if "arrays" in answer else ():
            answers.write(array.data if array.size else b"")
        answers.flush()
        _die_after(0.0)


def _die_after(seconds: float) -> None:
    """Let the system end this process then (0 = never), whatever it does.

    The parent kills a child that takes too long. A parent that was killed itself cannot, and its child would go on for
    ever where a parser loops.
    """
    if hasattr(signal, "setitimer"):  # Unix; the alarm's default action needs no Python, which may be stuck in C
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _main() -> None:
    with suppress(ImportError, ValueError, OSError):  # systems without these limits
        import resource

        memory = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What a parser prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(2, 1)
    module, *_ = [importlib.import_module(name) for name in sys.argv[2:]]
    answers.write(READY)
    answers.flush()
    serve(module, sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main()
