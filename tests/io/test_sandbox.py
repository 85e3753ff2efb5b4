"""A parser in a process of its own: answers, errors, time, memory and death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import FileError, InputError
from omnidc.io.sandbox import Sandbox, SlowFileError
from omnidc.io.untrusted import TooLargeFileError

MODULE = """
import os, time
import numpy as np
from omnidc.errors import InputError
from omnidc.io.untrusted import TooLargeFileError, untrusted

def echo(path, value, shape):
    print("noise on the standard output")
    os.write(1, b"more noise")
    return {"value": value, "pid": os.getpid()}, [np.arange(np.prod(shape), dtype="<f4").reshape(shape), np.zeros(0)]

def refuse(path):
    raise InputError(f"{path} is refused.")

def too_large(path):
    raise TooLargeFileError("Too large.")

def hang(path):
    time.sleep(60)

def loop(path):
    path.write_text(str(os.getpid()))
    import re
    re.match("(a+)+$", "a" * 60 + "b")  # in C, for hours

def die(path):
    os.abort()

def fill(path):
    with untrusted(path, "a file"):
        return {}, [np.ones(2**29)]
"""


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    (tmp_path / "parsers.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    made = Sandbox("parsers", memory=2 * 2**30)
    yield made
    made.close()


def test_sandbox_returns_values_and_arrays(sandbox: Sandbox) -> None:
    values, arrays = sandbox.call("echo", Path("a"), 60, value="é", shape=[2, 3])
    assert values["value"] == "é"
    np.testing.assert_array_equal(arrays[0], [[0, 1, 2], [3, 4, 5]])
    assert arrays[1].size == 0
    again, _ = sandbox.call("echo", Path("a"), 60, value=1, shape=[0, 3])
    assert again["pid"] == values["pid"] != os.getpid()


def test_sandbox_raises_errors_of_the_package(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="a is refused"):
        sandbox.call("refuse", Path("a"), 60)
    with pytest.raises(TooLargeFileError):
        sandbox.call("too_large", Path("a"), 60)


def test_sandbox_gives_up_a_child_that_hangs(sandbox: Sandbox) -> None:
    sandbox.call("echo", Path("a"), 60, value=0, shape=[1])
    started = time.monotonic()
    with pytest.raises(SlowFileError, match=r"a takes more than 0\.5 s"):
        sandbox.call("hang", Path("a"), 0.5)
    assert time.monotonic() - started < 20
    assert sandbox.call("echo", Path("a"), 60, value=7, shape=[1])[0]["value"] == 7


@pytest.mark.parametrize("task", ["die", "missing"])
def test_sandbox_survives_a_child_that_dies(sandbox: Sandbox, task: str) -> None:
    with pytest.raises(FileError, match="its reader crashed"):
        sandbox.call(task, Path("a"), 60)
    assert sandbox.call("echo", Path("a"), 60, value=7, shape=[1])[0]["value"] == 7


def test_time_for_imports_is_not_counted_as_the_file_s(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text("import time; time.sleep(1.5)")
    made = Sandbox("parsers", imports=("heavy",))
    try:
        assert made.call("echo", Path("a"), 1.0, value=7, shape=[1])[0]["value"] == 7
    finally:
        made.close()


def test_sandbox_whose_imports_fail_is_an_error(sandbox: Sandbox) -> None:
    made = Sandbox("parsers", imports=("no_such_module",))
    with pytest.raises(FileError, match="The reader of a did not start"):
        made.call("echo", Path("a"), 60, value=7, shape=[1])


def test_sandbox_killed_between_calls_starts_again(sandbox: Sandbox) -> None:
    pid = sandbox.call("echo", Path("a"), 60, value=0, shape=[1])[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    sandbox.start().wait(20)
    assert sandbox.call("echo", Path("a"), 60, value=7, shape=[1])[0]["pid"] != pid


@pytest.mark.skipif(sys.platform != "linux", reason="limits on address space are Linux's")
def test_sandbox_child_without_memory_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(FileError, match="memory"):
        sandbox.call("fill", Path("a"), 60)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")
def test_sandbox_ends_when_its_parent_was_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    note = tmp_path / "child.txt"
    code = (
        "from pathlib import Path; from omnidc.io.sandbox import Sandbox; box = Sandbox('parsers'); "
        "box.call('echo', Path('a'), 60, value=0, shape=[1]); "
        f"box.call('loop', Path({str(note)!r}), 4)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as parent:
        while not (note.is_file() and note.read_text()):
            assert parent.poll() is None
            time.sleep(0.01)
        parent.kill()
    child, until = int(note.read_text()), time.monotonic() + 30
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(child)


def is_running(process: int) -> bool:
    """True for a process that is there and no zombie."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.is_file() or status.read_text().rpartition(")")[2].split()[0] != "Z"
