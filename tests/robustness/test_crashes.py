"""Processes that are killed, told to stop or run out of disk at random moments: resumed, they end with the same files.

OMNIDC_CRASH_TRIALS sets the number of moments for each command and ending (3 unless given).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fuzz"))
from targets import recordings, write_all

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and limits on file sizes"),
]
TRIALS = int(os.environ.get("OMNIDC_CRASH_TRIALS", "3"))
FRAMES = 6


@dataclass
class Launcher:
    """Starts commands in forks of one warm process."""

    process: subprocess.Popen[str]
    log: Path

    def run(
        self,
        arguments: list[str],
        file_size: int | None = None,
        number: signal.Signals = signal.SIGKILL,
        after: float | None = None,  # seconds until the signal; None = never
    ) -> tuple[int, str]:
        """Exit status and everything that was printed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = {"arguments": arguments, "file_size": file_size, "log": str(self.log), "signal": number, "after": after}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()), self.log.read_text()


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(Path(__file__).with_name("launcher.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Launcher(process, tmp_path_factory.mktemp("log") / "log.txt")
        process.kill()


def make_folders(folder: Path) -> list[str]:
    """Photographs and sparse depth; the command that completes them."""
    rng = np.random.default_rng(0)
    for name in ("images", "sparse"):
        (folder / name).mkdir(parents=True)
    for k in range(FRAMES):
        Image.fromarray(rng.integers(0, 255, (96, 128, 3), np.uint8)).save(folder / "images" / f"{k}.png")
        np.save(folder / "sparse" / f"{k}.npy", np.where(rng.random((96, 128)) < 0.05, 2.0, 0.0).astype(np.float32))
    return ["complete", str(folder / "images"), str(folder / "sparse"), "--format", "npy,png,preview"]


def make_recording(folder: Path) -> list[str]:
    """A recording in ScanNet's layout, exported for nerfstudio."""
    files = recordings()["scannet"]()
    for k in range(1, FRAMES):
        for name in ("color/0.png", "depth/0.png", "pose/0.txt"):
            files[name.replace("/0.", f"/{k}.")] = files[name]
    write_all(folder / "recording", files)
    return ["rgbd", str(folder / "recording"), "--export", "nerfstudio"]


COMMANDS = {"complete": make_folders, "rgbd": make_recording}


def digest(folder: Path) -> dict[str, str]:
    """Contents of all files by name; temporary ones, whose names start with a dot, do not count."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


@pytest.mark.parametrize("ending", ["SIGKILL", "SIGTERM", "full disk"])
@pytest.mark.parametrize("name", COMMANDS)
def test_interrupted_run_resumes_to_the_same_files(tmp_path: Path, launcher: Launcher, name: str, ending: str) -> None:
    command = [*COMMANDS[name](tmp_path), "--model", "harmonic", "--resume"]
    started = time.monotonic()
    code, text = launcher.run([*command, "-o", str(tmp_path / "whole")])
    seconds = time.monotonic() - started
    assert code == 0, text
    expected = digest(tmp_path / "whole")
    largest = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*") if path.is_file())
    rng = random.Random(f"{name} {ending}")
    for trial in range(TRIALS):
        output = tmp_path / f"trial{trial}"
        arguments = [*command, "-o", str(output)]
        if ending == "full disk":
            code, text = launcher.run(arguments, rng.randrange(1, largest))
            assert code != 0
            assert "Traceback" not in text, text
        else:
            launcher.run(arguments, number=signal.Signals[ending], after=rng.uniform(0, seconds))
        present = digest(output) if output.is_dir() else {}
        finished = {path: sum_ for path, sum_ in present.items() if Path(path).suffix in (".npy", ".png", ".jpg")}
        assert all(expected[path] == sum_ for path, sum_ in finished.items()), "a file was seen half-written"
        code, text = launcher.run(arguments)
        assert code == 0, text
        assert digest(output) == expected


@pytest.mark.parametrize("ros1", [True, False], ids=["ros1", "ros2"])
def test_bag_on_a_full_disk_leaves_nothing(tmp_path: Path, launcher: Launcher, ros1: bool) -> None:
    pytest.importorskip("rosbags")
    from targets import TARGETS

    TARGETS["bag-ros1"].make(tmp_path)
    written = tmp_path / ("new.bag" if ros1 else "new")
    command = ["bag", str(tmp_path / "a.bag"), "-o", str(tmp_path / "out"), "--model", "harmonic"]
    rng = random.Random(0)
    for _ in range(TRIALS):
        code, text = launcher.run([*command, "--write-bag", str(written)], rng.randrange(30_000, 60_000))
        assert "Traceback" not in text, text
        assert code == 2, text
        assert not written.exists()
    code, text = launcher.run([*command, "--write-bag", str(written)])
    assert code == 0, text
    assert written.exists()
