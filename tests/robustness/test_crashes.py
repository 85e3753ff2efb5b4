"""Processes that are killed, told to stop or run out of disk at random moments: resumed, they end with the same files.

OMNIDC_CRASH_TRIALS sets the number of moments for each command and ending (3 unless given); `splat` and `scenes render`
take at most 10 of them, and one unless it is given.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from targets import recordings, write_all

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and limits on file sizes"),
]
CHOSEN = os.environ.get("OMNIDC_CRASH_TRIALS")
TRIALS = int(CHOSEN or 3)
LONG_TRIALS = min(10, int(CHOSEN or 1))  # of commands that take many seconds
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


SETTINGS = """
seed = 3
[network]
name = "tiny:TinyNetwork"
[data]
sizes = [[32, 48]]
pattern = "200"
noise = ""
val_fraction = 0.25
min_points = 5
workers = 0
[loss.weights]
l1_log = 1.0
laplace_log = 0.1
[optimizer]
batch = 4
lr = 1e-2
ema = 0.9
[schedule]
kind = "cosine"
warmup = 0.1
steps = 12
[validation]
frames = 2
patterns = ["100"]
every_epochs = 0
pictures = 1
[runtime]
threads = 1
processes = 1
checkpoint_minutes = 0.0
device = "cpu"
"""


def make_training(folder: Path) -> list[str]:
    """Frames and settings of a run of twelve steps on the tiny network, with a checkpoint after each."""
    from omnidc.datasets.shards import ShardWriter
    from tiny import scene

    with ShardWriter(folder / "frames.tar") as writer:
        for i in range(12):
            writer.add(f"plane_{i // 2:05d}_{i % 2}", *scene(i))
    settings = folder / "settings.toml"
    settings.write_text(SETTINGS)
    return ["train", "--config", str(settings), "--data", f"planes={folder / 'frames.tar'}"]


def make_scenes(folder: Path) -> list[str]:
    """Two shards of three small pictures each; of smaller ones nearly all are refused, and 37 shards were needed."""
    if importlib.util.find_spec("bpy") is None:
        pytest.skip("bpy is not installed")
    count = ["--count", "6", "--views", "3", "--scenes-per-shard", "1"]
    return ["scenes", "render", *count, "--size", "64x48", "--samples", "4", "--seed", "7", "--worlds", "room"]


def make_splat(folder: Path) -> list[str]:
    """A short training on the world of the splatting tests."""
    pytest.importorskip("numba")
    pytest.importorskip("pycolmap")
    from colmap_text import write_project

    model, images = write_project(folder / "project")
    size = ["--steps", "60", "--size", "40", "--gaussians", "300", "--holdout", "4", "--depth", "linear"]
    return ["splat", str(model), str(images), *size]


@dataclass(frozen=True)
class Command:
    """A command that can be resumed."""

    make: Callable[[Path], list[str]]  # writes the input into a folder and returns the arguments
    resume: tuple[str, ...]  # further arguments, with which a run goes on
    equal: tuple[str, ...]  # names of the files that a resumed run must end with, bit for bit
    final: tuple[str, ...]  # names of the files that appear once, as they stay
    trials: int = TRIALS


INTERPOLATE = ("--model", "interpolate", "--resume")
PICTURES = ("*.npy", "*.png", "*.jpg")
COMMANDS = {
    "complete": Command(make_folders, INTERPOLATE, ("*",), PICTURES),
    "rgbd": Command(make_recording, INTERPOLATE, ("*",), PICTURES),
    "train": Command(make_training, (), ("last.safetensors", "frames.json"), ()),
    "splat": Command(make_splat, ("--resume",), ("*.ply", "*.npy", "*.png"), ("*.ply",), LONG_TRIALS),
    "scenes": Command(make_scenes, (), ("*.tar",), ("*.tar",), LONG_TRIALS),
}


def digest(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Contents of the files of these names; temporary ones, whose names start with a dot, do not count."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in names
        for path in sorted(folder.rglob(name))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


@pytest.mark.parametrize("ending", ["SIGKILL", "SIGTERM", "full disk"])
@pytest.mark.parametrize("name", COMMANDS)
def test_interrupted_run_resumes_to_the_same_files(tmp_path: Path, launcher: Launcher, name: str, ending: str) -> None:
    command = COMMANDS[name]
    arguments = [*command.make(tmp_path), *command.resume]
    started = time.monotonic()
    code, text = launcher.run([*arguments, "-o", str(tmp_path / "whole")])
    seconds = time.monotonic() - started
    assert code == 0, text
    expected = digest(tmp_path / "whole", command.equal)
    assert expected
    largest = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*") if path.is_file())
    rng = random.Random(f"{name} {ending}")
    for trial in range(command.trials):
        output = tmp_path / f"trial{trial}"
        again = [*arguments, "-o", str(output)]
        if ending == "full disk":
            code, text = launcher.run(again, rng.randrange(1, largest))
            assert code != 0
            assert "Traceback" not in text, text
        else:
            launcher.run(again, number=signal.Signals[ending], after=rng.uniform(0, seconds))
        present = digest(output, command.final) if output.is_dir() else {}
        assert present.items() <= expected.items(), "a file was seen half-written"
        code, text = launcher.run(again)
        assert code == 0, text
        assert digest(output, command.equal) == expected


@pytest.mark.parametrize("ending", ["SIGKILL", "SIGTERM", "full disk"])
@pytest.mark.parametrize("ros1", [True, False], ids=["ros1", "ros2"])
def test_interrupted_bag_is_whole_or_absent(tmp_path: Path, launcher: Launcher, ros1: bool, ending: str) -> None:
    pytest.importorskip("rosbags")
    from targets import TARGETS

    TARGETS["bag-ros1"].make(tmp_path)
    command = ["bag", str(tmp_path / "a.bag"), "-o", str(tmp_path / "out"), "--model", "interpolate"]
    suffix = ".bag" if ros1 else ""
    whole = tmp_path / f"whole{suffix}"
    started = time.monotonic()
    code, text = launcher.run([*command, "--write-bag", str(whole)])
    seconds = time.monotonic() - started
    assert code == 0, text
    expected = messages(whole)
    assert expected
    rng = random.Random(f"bag {ending}")
    for trial in range(TRIALS):
        written = tmp_path / f"trial{trial}{suffix}"
        again = [*command, "--write-bag", str(written)]
        if ending == "full disk":
            code, text = launcher.run(again, rng.randrange(30_000, 60_000))
            assert "Traceback" not in text, text
            assert code == 2, text
            assert not written.exists()
        else:
            launcher.run(again, number=signal.Signals[ending], after=rng.uniform(0, seconds))
        if not written.exists():  # else the command would refuse to write over it
            code, text = launcher.run(again)
            assert code == 0, text
        assert messages(written) == expected


def messages(path: Path) -> list[tuple[str, int, bytes]]:
    """Topic, time in nanoseconds and contents of every message of a bag."""
    from rosbags.highlevel import AnyReader

    with AnyReader([path]) as reader:
        return [(connection.topic, stamp, bytes(data)) for connection, stamp, data in reader.messages()]
