"""Fuzz one target with atheris (libFuzzer):  python fuzz/fuzz_one.py TARGET [libFuzzer's options]

    python fuzz/fuzz_one.py depth.npz -max_total_time=60 -timeout=5 -rss_limit_mb=1024

The corpus is the target's own example. The first byte of an input chooses which of its files is damaged.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

# The packages that parse in Python; torch and scipy would take minutes to instrument.
INSTRUMENTED = ["omnidc", "PIL", "plyfile", "rosbags", "laspy", "yaml", "python_multipart", "starlette", "tomllib"]


def main() -> None:
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=INSTRUMENTED):
        from targets import TARGETS, check

        target = TARGETS[name]
        workspace = Path(tempfile.mkdtemp(prefix="omnidc-fuzz-"))  # in TMPDIR, which run.py removes
        example = workspace / "example"
        example.mkdir()
        files = target.make(example)
        originals = [path.read_bytes() for path in files]
        check(target, example)  # imports what the reader needs, instrumented
    corpus = workspace / "corpus"
    corpus.mkdir()
    for which, data in enumerate(originals):
        (corpus / f"seed{which}").write_bytes(bytes([which]) + data)

    def one_input(data: bytes) -> None:
        which = data[0] % len(files) if data else 0
        files[which].write_bytes(data[1:])
        try:
            check(target, example)
        finally:
            files[which].write_bytes(originals[which])

    largest = max(map(len, originals))
    atheris.Setup([sys.argv[0], f"-max_len={2 * largest + 64}", *options, str(corpus)], one_input)
    atheris.Fuzz()  # ends the process


if __name__ == "__main__":
    main()
