"""Fuzz one target with atheris (libFuzzer):  python fuzz/fuzz_one.py TARGET [libFuzzer's options]

    python fuzz/fuzz_one.py depth.npz -max_total_time=60 -timeout=5 -rss_limit_mb=1024

The corpus is the target's own example. The first byte of an input chooses which of its files is damaged. What libFuzzer
does not count is in the file `watch` of the temporary folder (TMPDIR), see `Watch`.
"""

from __future__ import annotations

import mmap
import os
import random
import re
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

# The packages that parse in Python; torch and scipy would take minutes to instrument.
INSTRUMENTED = ["omnidc", "PIL", "plyfile", "rosbags", "laspy", "yaml", "python_multipart", "starlette", "tomllib"]
# What overwrites a piece of a file in half of the mutations: numbers at the ends of their ranges, and words of texts.
PIECES = [
    *(struct.pack(f"<{kind}", value) for kind in "BHIQ" for value in (0, 1, 2 ** (8 * struct.calcsize(kind) - 1) - 1)),
    *(b"\xff" * size for size in (1, 2, 4, 8)),
    *(struct.pack(f"<{kind}", value) for kind in "fd" for value in (-1.0, 0.5, 1e30, float("nan"), float("inf"))),
    *(struct.pack("<q", value) for value in (2**20, 2**31, 2**40, -(2**40))),
    *(b"0", b"9", b"-", b".", b" ", b"\n", b"e9", b"nan", b"inf", b"-1 ", b"1e400", b"null", b"[]", b"{}", b'""'),
]
LOOK_SECONDS = 0.2  # between two looks at the memory of child processes that live


class Watch:
    """Inputs that were read and refused, the longest time of one, and the memory of child processes.

    Numbers lie in a file that is mapped into memory, because libFuzzer ends the process without Python's farewell.
    """

    LAYOUT = struct.Struct("<5q")  # read, refused, longest in microseconds, memory of children in kB, of this process

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(self.LAYOUT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), self.LAYOUT.size)
        self._read = self._refused = self._longest = self._children = 0
        self._looked = 0.0

    @contextmanager
    def input(self) -> Iterator[None]:
        """Time one input."""
        started = time.perf_counter()
        try:
            yield
        finally:
            ended = time.perf_counter()
            self._longest = max(self._longest, round((ended - started) * 1e6))
            if ended - self._looked > LOOK_SECONDS:
                self._looked = ended
                self._children = max(self._children, memory_of_children())
            self._store()

    def count(self, refused: bool) -> None:
        self._refused += refused
        self._read += not refused

    def _store(self) -> None:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.LAYOUT.pack_into(self._map, 0, self._read, self._refused, self._longest, self._children, own)


class Mutator:
    """Half of the mutations are libFuzzer's own. The others keep the length, and half of these start from the example.

    Readers that compare counts with the file's size refuse nearly all that libFuzzer makes, so that it alone would not
    get past the first check.
    """

    def __init__(self, originals: Sequence[bytes], mutate: Callable[[bytes, int], bytes]) -> None:
        self._seeds = [bytes([which]) + data for which, data in enumerate(originals)]
        self._mutate = mutate

    def __call__(self, data: bytes, largest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        choice = rng.random()
        if choice < 0.5:
            return self._mutate(data, largest)
        out = bytearray(rng.choice(self._seeds) if choice < 0.75 else data)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            piece = bytes([rng.randrange(256)]) if rng.random() < 0.4 else rng.choice(PIECES)
            if len(out) > len(piece):  # the first byte stays: it says which file this is
                at = rng.randrange(1, len(out) - len(piece) + 1)
                out[at : at + len(piece)] = piece
        return bytes(out[:largest])


def memory_of_children() -> int:
    """Largest memory that a child process had, living or dead, in kB."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with suppress(OSError):  # systems without /proc
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            with suppress(OSError):  # it may end meanwhile
                peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{child}/status").read_text())
                largest = max(largest, int(peak[1]) if peak else 0)
    return largest


def main() -> None:
    import atheris

    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=INSTRUMENTED):
        from targets import TARGETS, check

        target = TARGETS[name]
        workspace = Path(tempfile.mkdtemp(prefix="omnidc-fuzz-"))  # in TMPDIR, which run.py removes
        example = workspace / "example"
        example.mkdir()
        files = target.make(example)
        originals = [path.read_bytes() for path in files]
        # Imports what the reader needs, instrumented. An example that is refused would not fuzz the reader.
        refusal = check(target, example)
        if refusal is not None and not target.refused:
            sys.exit(f"The example of {name} is refused: {refusal}")
    corpus = workspace / "corpus"
    corpus.mkdir()
    for which, data in enumerate(originals):
        (corpus / f"seed{which}").write_bytes(bytes([which]) + data)
    watch = Watch(Path(tempfile.gettempdir()) / "watch")

    def one_input(data: bytes) -> None:
        which = data[0] % len(files) if data else 0
        files[which].write_bytes(data[1:])
        try:
            with watch.input():
                watch.count(refused=check(target, example) is not None)
        finally:
            files[which].write_bytes(originals[which])

    largest = max(map(len, originals))
    arguments = [sys.argv[0], f"-max_len={2 * largest + 64}", *options, str(corpus)]
    # `Fuzz` puts another function in the place of atheris.Mutate: look it up when it is called.
    mutator = Mutator(originals, lambda data, size: bytes(atheris.Mutate(data, size)))
    atheris.Setup(arguments, one_input, custom_mutator=mutator)
    atheris.Fuzz()  # ends the process


if __name__ == "__main__":
    main()
