"""What a run tells: a progress bar, CSV files, and TensorBoard where wanted."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from omnidc.errors import FileError, MissingExtraError
from omnidc.io.files import atomic_path
from omnidc.training.losses import TERMS

LOSS_COLUMNS = ("step", "epoch", "progress", "elapsed", "lr", "norm", "skipped", "replaced", "size", "total", *TERMS)
VALIDATION_COLUMNS = ("step", "elapsed", "pattern", "frames", "rel", "delta1", "coverage", "log_error")


class Table:
    """A CSV that grows row by row. When a run is resumed at `keep_below`, later rows are forgotten first."""

    def __init__(self, path: Path, columns: tuple[str, ...], keep_below: int) -> None:
        self.columns = columns
        old: list[dict[str, str]] = []
        if keep_below > 0 and path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                # a row that was cut off by a kill lacks values
                old = [
                    row for row in csv.DictReader(file) if (row["step"] or "").isdigit() and None not in row.values()
                ]
            old = [row for row in old if int(row["step"]) < keep_below]
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


class Journal:
    """Everything that the first process reports; a context manager."""

    def __init__(self, folder: Path, *, step: int, tensorboard: bool, quiet: bool = False) -> None:
        self.losses = Table(folder / "losses.csv", LOSS_COLUMNS, step)
        self.validations = Table(folder / "validation.csv", VALIDATION_COLUMNS, step + 1 if step else 0)
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

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()
        self.losses.close()
        self.validations.close()
        if self._board is not None:
            self._board.close()

    def step(self, row: dict[str, Any], *, rate: float, left: str) -> None:
        """One optimiser step: `rate` in images a second, `left` the estimate for people."""
        self.losses.add(row)
        self.bar.set_postfix_str(
            f"loss {row['total']:.3f}, {rate:.1f} img/s, lr {row['lr']:.1e}, {row['progress']:.1%} done, left {left}",
            refresh=False,
        )
        self.bar.update(1)
        if self._board is not None:
            for name in ("total", *TERMS, "lr", "norm"):
                if name in row:
                    self._board.add_scalar(f"training/{name}", row[name], row["step"])

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
        """A line that does not disturb the bar."""
        self.bar.write(text, file=sys.stderr)

    def flush(self) -> None:
        self.losses.flush()
