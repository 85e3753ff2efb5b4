"""However a run ends, its workers end too, and nothing half-made stays."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnidc.datasets.shards import Shards, ShardWriter
from omnidc.errors import FileError
from omnidc.scenes.generate import Run, finished_shards
from omnidc.scenes.manifest import Manifest, Settings
from omnidc.scenes.scratch import PREFIX, Scratch, sweep

# a worker inside a render: deaf to SIGTERM, a shard and a picture begun; argv: settings, shard, folder, parent
WORKER = """
import json, os, signal, sys, threading, time
from pathlib import Path
import numpy as np
from omnidc.datasets.shards import ShardWriter
from omnidc.scenes.generate import end_with
from omnidc.scenes.manifest import Settings
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
settings, shard, folder = Settings.from_json(json.loads(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3])
threading.Thread(target=end_with, args=(int(sys.argv[4]), settings, shard, folder), daemon=True).start()
writer = ShardWriter(settings.shard_path(shard)).__enter__()
writer.add("room_0", np.zeros((32, 32, 3), np.uint8), np.ones((32, 32)))
(folder / "light0001.exr").write_bytes(b"begun")
(Path(settings.folder) / "pid").write_text(str(os.getpid()))
time.sleep(120)
"""
PARENT = f"""
import json, os, signal, subprocess, sys
from pathlib import Path
from omnidc.scenes import scratch
from omnidc.scenes.generate import Run
from omnidc.scenes.manifest import Settings
scratch.MEMORY = Path(sys.argv[2])
def launch(settings, shard, folder):
    command = [sys.executable, "-c", {WORKER!r}, json.dumps(settings.to_json()), str(shard), str(folder)]
    return subprocess.Popen([*command, str(os.getpid())], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored
Run(Settings.from_json(json.loads(sys.argv[1])), 4, 1, lambda event: None, launch).go()
"""


def wait_for(happened: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.05)
    return happened()


def alive(pid: int) -> bool:
    try:  # a zombie that nobody reaps has ended, too
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(folder=str(tmp_path / "out"), seed=7, views=2, scenes_per_shard=2, width=32, height=32)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_run_and_leave_nothing(kind: signal.Signals, settings: Settings, tmp_path: Path) -> None:
    memory, output = tmp_path / "memory", Path(settings.folder)
    memory.mkdir()
    run = subprocess.Popen(
        [sys.executable, "-c", PARENT, json.dumps(settings.to_json()), str(memory)], stderr=subprocess.PIPE
    )
    try:
        assert wait_for((output / "pid").exists)
        worker = int((output / "pid").read_text())
        assert alive(worker)
        assert list(output.glob(".scenes-7-00000.*.tar"))
        assert list(memory.glob("*/*/light0001.exr"))
        run.send_signal(kind)
        assert wait_for(lambda: run.poll() is not None)
        assert wait_for(lambda: not alive(worker))
    finally:
        run.kill()
        run.wait()
    assert [path for path in output.iterdir() if path.suffix == ".tar"] == []
    assert list(memory.iterdir()) == []


def test_cleanup_removes_dead_runs_only(tmp_path: Path) -> None:
    living = Scratch(tmp_path)
    dead = tmp_path / f"{PREFIX}dead"
    dead.mkdir()
    (dead / "depth0001.exr").write_bytes(b"begun")
    stranger = tmp_path / "omnidc-of-something-else"
    stranger.mkdir()
    other = Scratch(tmp_path)
    assert not dead.exists()
    assert stranger.is_dir()
    assert living.folder.is_dir()
    living.close()
    other.close()
    assert sweep(tmp_path) == []
    assert list(tmp_path.iterdir()) == [stranger]


def test_two_runs_cannot_render_into_one_folder(settings: Settings) -> None:
    first = Run(settings, 0, 1, lambda event: None)
    with pytest.raises(FileError, match="Another run"):
        Run(settings, 0, 1, lambda event: None)
    first.go()
    Run(settings, 0, 1, lambda event: None).go()


def test_resume_removes_files_of_killed_run(settings: Settings) -> None:
    output = Path(settings.folder)
    output.mkdir()
    # a whole tar under the name of one that was begun is no shard either: nobody said that it was finished
    with ShardWriter(output / "scenes-7-00001.tar") as writer:
        writer.add("room_0", np.zeros((32, 32, 3), np.uint8), np.ones((32, 32)))
    shutil.copy(output / "scenes-7-00001.tar", output / ".scenes-7-00000.abcd1234.tar")
    (output / ".manifest.abcd1234.json").write_text("{")
    assert len(Shards(output)) == 1
    assert finished_shards(settings, Manifest(settings)) == {1: 1}
    assert sorted(path.name for path in output.iterdir()) == ["scenes-7-00001.tar"]
