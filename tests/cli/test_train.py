from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from omnidc.cli import app
from omnidc.datasets.shards import ShardWriter
from omnidc.errors import ConfigError

SMALL = ["network.options={channels = [8, 16, 16, 24, 24], attention_blocks = 1, heads = 2}", "data.sizes=[[32, 64]]"]
QUICK = [
    "data.max_edge_fraction=1",
    "optimizer.batch=2",
    "data.workers=0",
    "validation.frames=1",
    "data.pattern='100'",
    "runtime.threads=1",
    "runtime.processes=1",
    "network.encoder=''",
]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    with ShardWriter(tmp_path / "frames.tar") as writer:
        for i in range(6):
            image = rng.integers(0, 256, (32, 64, 3), dtype=np.uint8)
            writer.add(f"noise_{i}_0", image, rng.uniform(1, 4, (32, 64)))
    return tmp_path / "frames.tar"


def call(*words: str) -> str:
    result = CliRunner().invoke(app, ["train", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return str(result.stdout)


def test_train_resume_and_plan(shard: Path, tmp_path: Path) -> None:
    settings = [word for text in (*SMALL, *QUICK) for word in ("--set", text)]
    common = ["--out", str(tmp_path / "run"), "--set", "schedule.steps=2"]
    start = ["--preset", "compact", "--data", f"mine={shard}", *settings]
    assert "images a second" in call(*start, *common, "--dry-run")
    assert not (tmp_path / "run").exists()
    assert call(*start, *common).startswith("2 steps")
    assert (tmp_path / "run" / "last.safetensors").is_file()
    # a resumed run knows its own configuration; only what changes is given
    assert call("--out", str(tmp_path / "run"), "--resume", "--set", "schedule.steps=3").startswith("3 steps")


def test_wrong_words_are_explained(tmp_path: Path) -> None:
    for words, complaint in (
        (["--data", "x"], "NAME=PATH"),
        (["--data", "x=/a", "--data", "x=/b"], "twice"),
        (["--data", f"x={tmp_path}"], "no end"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            call("--out", str(tmp_path / "run"), *words)
