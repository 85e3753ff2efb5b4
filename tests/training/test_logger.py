from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from omnidc.errors import MissingExtraError
from omnidc.training import logger as logger_module
from omnidc.training.logger import CsvLog, RunLogger, StepRecord


def steps(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [row["step"] for row in csv.DictReader(file)]


def fill(table: CsvLog, numbers: range) -> None:
    for number in numbers:
        table.add({"step": number, "total": number / 3})
    table.close()


def record(**losses: float) -> StepRecord:
    return StepRecord(0, 0, 0.0, 1.0, 1e-3, 1.0, 0, 0, "8x8", 2.0, losses)


def test_resumed_table_forgets_what_will_be_done_again(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    fill(CsvLog(path, ("step", "total"), 0), range(6))
    fill(CsvLog(path, ("step", "total"), 4), range(4, 8))
    assert steps(path) == [str(i) for i in range(8)]


def test_row_cut_off_by_a_kill_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    fill(CsvLog(path, ("step", "total"), 0), range(3))
    with path.open("a") as file:
        file.write("3")
    fill(CsvLog(path, ("step", "total"), 4), range(4, 5))
    assert steps(path) == ["0", "1", "2", "4"]


def test_new_run_starts_a_new_table(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    fill(CsvLog(path, ("step", "total"), 0), range(3))
    fill(CsvLog(path, ("step", "total"), 0), range(1))
    assert steps(path) == ["0"]


def test_missing_tensorboard_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"omnidc\[train\]"):
        RunLogger(tmp_path, step=0, tensorboard=True, quiet=True)


def test_tensorboard_gets_losses_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    import numpy as np

    with RunLogger(tmp_path, step=0, tensorboard=True, quiet=True) as logger:
        logger.step(record(l1=2.0), rate=1.0, left="?")
        score = {"step": 1, "pattern": "0.7%", "rel": 0.1, "delta1": 0.9, "coverage": 0.95}
        logger.validation([score], np.zeros((8, 8, 3), np.uint8))
    (events,) = (tmp_path / "tensorboard").iterdir()
    content = events.read_bytes()
    assert b"training/l1" in content
    assert b"rel/0.7%" in content
    assert b"validation" in content


def test_resumed_table_keeps_columns_of_earlier_versions(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("step,replaced,normals,total\n0,2,0.5,1\n1,0,0.25,1\n")
    CsvLog(path, ("step", "resampled", "total"), 1).close()
    with path.open(newline="") as file:
        assert list(csv.DictReader(file)) == [{"step": "0", "resampled": "2", "total": "1", "normals": "0.5"}]


def test_logger_any_name_of_a_loss_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger_module, "LOSS_COLUMNS", (*logger_module.STEP_COLUMNS, "ssim"))
    with RunLogger(tmp_path, step=0, tensorboard=False, quiet=True) as logger:
        logger.step(record(ssim=0.25), rate=1.0, left="?")
    with (tmp_path / "losses.csv").open(newline="") as file:
        assert [row["ssim"] for row in csv.DictReader(file)] == ["0.25"]
