from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import OmnidcError
from omnidc.training.launch import launch, process_count
from omnidc.training.state import load_state
from omnidc.training.trainer import train
from tiny import tiny_config


@pytest.fixture(autouse=True)
def _children_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def losses(folder: Path) -> list[float]:
    with (folder / "losses.csv").open(newline="") as file:
        return [float(row["total"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize(("batch", "accumulate", "cores", "expected"), [(8, 1, 2, 2), (8, 1, 3, 2), (6, 2, 4, 3)])
def test_processes_divide_the_batch(
    batch: int, accumulate: int, cores: int, expected: int, shard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    config = tiny_config(shard, f"optimizer.batch={batch}", f"optimizer.accumulate={accumulate}")
    config.runtime.processes = 0
    assert process_count(config) == expected


def test_two_started_processes_give_the_losses_of_one(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "schedule.steps=4", "validation.every_steps=2")
    train(config, tmp_path / "one", quiet=True)
    config.runtime.processes = 2
    summary = launch("train", config, tmp_path / "two", quiet=True)
    assert summary.step == 4
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=2e-5)


def test_error_of_a_process_is_one_sentence(shard: Path, tmp_path: Path) -> None:
    config = tiny_config(shard, "data.sizes=[[33, 48]]", "runtime.processes=2")
    with pytest.raises(OmnidcError, match="multiples of 8"):
        launch("train", config, tmp_path, quiet=True)


def test_signal_ends_all_processes_with_a_checkpoint(shard: Path, tmp_path: Path) -> None:
    script = tmp_path / "go.py"
    script.write_text(
        "import sys, pathlib\nfrom tiny import tiny_config\nfrom omnidc.training.launch import launch\n"
        "config = tiny_config(pathlib.Path(sys.argv[1]), 'schedule.steps=100000', 'runtime.processes=2')\n"
        "config.runtime.checkpoint_steps = 2\n"
        "launch('train', config, pathlib.Path(sys.argv[2]), quiet=True)\n"
    )
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, str(script), str(shard), str(run)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not (run / "state.pt").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) != 0
    state = load_state(run)
    assert state["step"] == len(losses(run))
    assert not state["finished"]
