"""The log of a run: progress bar, CSV files, TensorBoard where wanted."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from omnidc.errors import FileError, MissingExtraError
from omnidc.io.files import atomic_path
from omnidc.training.losses import LOSSES

STEP_COLUMNS = ("step", "epoch", "progress", "elapsed", "lr", "norm", "skipped", "resampled", "size", "total")
LOSS_COLUMNS = (*STEP_COLUMNS, *(loss.name for loss in LOSSES))
RENAMED_COLUMNS = {"replaced": "resampled"}  # of earlier versions
VALIDATION_COLUMNS = ("step", "elapsed", "pattern", "frames", "rel", "delta1", "coverage", "log_error")


@dataclass(frozen=True)
class StepRecord:
    """One optimizer step."""

    step: int
    epoch: int
    progress: float  # share of the run that was over before the step
    elapsed: float  # seconds of training after the step
    lr: float
    norm: float  # of the gradients before clipping
    skipped: int  # steps so far without a finite loss
    resampled: int  # frames that gave no usable sample
    size: str  # HEIGHTxWIDTH
    total: float
    losses: dict[str, float]  # by name


class CsvLog:
    """A CSV that grows row by row. When a run is resumed at step `keep_below`, later rows are removed first."""

    def __init__(self, path: Path, columns: Sequence[str], keep_below: int) -> None:
        old: list[dict[str, str]] = []
        if keep_below > 0 and path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                reader.fieldnames = [RENAMED_COLUMNS.get(name, name) for name in reader.fieldnames or ()]
                # a row that was cut off by a kill lacks values
                old = [row for row in reader if (row["step"] or "").isdigit() and None not in row.values()]
            old = [row for row in old if int(row["step"]) < keep_below]
            # an earlier version may have logged other losses
            columns = list(dict.fromkeys([*columns, *reader.fieldnames]))
        with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(old)
        try:
            self._file: IO[str] = path.open("a", newline="", encoding="utf-8")
        except OSError as error:  # pragma: no cover
            raise FileError(f"Cannot write {path}: {error.strerror or error}.") from error
        self._writer = csv.DictWriter(self._file, columns, restval="")
        self._flushed = time.monotonic()

    def add(self, row: dict[str, Any]) -> None:
        self._writer.writerow(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
        )
        if time.monotonic() - self._flushed > 5:
            self.flush()

    def flush(self) -> None:
        self._file.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        self._file.close()


class RunLogger:
    """The reports of the main process; a context manager."""

    def __init__(self, folder: Path, *, step: int, tensorboard: bool, quiet: bool = False) -> None:
        self.losses = CsvLog(folder / "losses.csv", LOSS_COLUMNS, step)
        self.validations = CsvLog(folder / "validation.csv", VALIDATION_COLUMNS, step + 1 if step else 0)
        self._board: Any = None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise MissingExtraError("tensorboard", "train", "Writing TensorBoard logs") from error
            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step or None)
        self.bar = tqdm(
            initial=step,
            unit="step",
            disable=quiet,
            dynamic_ncols=True,
            smoothing=0.05,
            # a log file needs a line now and then, not ten a second
            mininterval=0.5 if sys.stderr.isatty() else 30.0,
        )

    def __enter__(self) -> RunLogger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()
        self.losses.close()
        self.validations.close()
        if self._board is not None:
            self._board.close()

    def step(self, record: StepRecord, *, rate: float, left: str) -> None:
        """Log one optimizer step: `rate` in images a second, `left` the estimate for people."""
        row = {name: getattr(record, name) for name in STEP_COLUMNS} | record.losses
        self.losses.add(row)
        self.bar.set_postfix_str(
            f"loss {record.total:.3f}, {rate:.1f} img/s, lr {record.lr:.1e}, {record.progress:.1%} done, left {left}",
            refresh=False,
        )
        self.bar.update(1)
        if self._board is not None:
            for name, value in {"total": record.total, "lr": record.lr, "norm": record.norm, **record.losses}.items():
                self._board.add_scalar(f"training/{name}", value, record.step)

    def validation(self, rows: list[dict[str, Any]], picture: npt.NDArray[np.uint8] | None) -> None:
        for row in rows:
            self.validations.add(row)
            if self._board is not None:
                for name in ("rel", "delta1", "coverage"):
                    self._board.add_scalar(f"{name}/{row['pattern']}", row[name], row["step"])
        self.validations.flush()
        if self._board is not None and picture is not None and rows:
            self._board.add_image("validation", picture, rows[0]["step"], dataformats="HWC")

    def note(self, text: str) -> None:
        """Print a line above the progress bar."""
        self.bar.write(text, file=sys.stderr)

    def flush(self) -> None:
        self.losses.flush()
