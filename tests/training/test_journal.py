from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from omnidc.errors import MissingExtraError
from omnidc.training.journal import Journal, Table


def steps(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [row["step"] for row in csv.DictReader(file)]


def fill(table: Table, numbers: range) -> None:
    for number in numbers:
        table.add({"step": number, "total": number / 3})
    table.close()


def test_resumed_table_forgets_what_will_be_done_again(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    fill(Table(path, ("step", "total"), 0), range(6))
    fill(Table(path, ("step", "total"), 4), range(4, 8))
    assert steps(path) == [str(i) for i in range(8)]


def test_row_cut_off_by_a_kill_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    fill(Table(path, ("step", "total"), 0), range(3))
    with path.open("a") as file:
        file.write("3")
    fill(Table(path, ("step", "total"), 4), range(4, 5))
    assert steps(path) == ["0", "1", "2", "4"]


def test_new_run_starts_a_new_table(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    fill(Table(path, ("step", "total"), 0), range(3))
    fill(Table(path, ("step", "total"), 0), range(1))
    assert steps(path) == ["0"]


def test_missing_tensorboard_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"omnidc\[train\]"):
        Journal(tmp_path, step=0, tensorboard=True, quiet=True)


def test_tensorboard_gets_losses_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    import numpy as np

    row = {"step": 0, "progress": 0.0, "lr": 1e-3, "norm": 1.0, "total": 2.0, "l1": 2.0}
    with Journal(tmp_path, step=0, tensorboard=True, quiet=True) as journal:
        journal.step(row, rate=1.0, left="?")
        score = {"step": 1, "pattern": "0.7%", "rel": 0.1, "delta1": 0.9, "coverage": 0.95}
        journal.validation([score], np.zeros((8, 8, 3), np.uint8))
    (events,) = (tmp_path / "tensorboard").iterdir()
    content = events.read_bytes()
    assert b"training/l1" in content
    assert b"rel/0.7%" in content
    assert b"validation" in content
