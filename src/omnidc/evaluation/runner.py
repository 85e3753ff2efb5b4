"""Run methods over a protocol, one row of scores per (image, pattern, method), resumable."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from omnidc.errors import ConfigError, FileError, InputError
from omnidc.evaluation.catalog import find_protocol
from omnidc.evaluation.memory import PeakMemory
from omnidc.evaluation.methods import find_method, fingerprint, run_method
from omnidc.evaluation.metrics import (
    OLD_NAMES,
    boundary_f1,
    calibration,
    depth_metrics,
    edge_rel,
    mean_scores,
    rel_at_input,
)
from omnidc.evaluation.pictures import write_strip
from omnidc.evaluation.protocols import EvaluationProtocol
from omnidc.evaluation.sample import FrameRef, Method, Sample
from omnidc.io.files import atomic_path

PICTURES_FOLDER = "pictures"


@dataclass(frozen=True)
class Row:
    """The scores of one method on one sparse input of one image. No scores = the pattern does not apply there."""

    image: str
    pattern: str
    method: str
    group: str = ""
    points: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.image, self.pattern, self.method

    def to_json(self) -> str:
        scores = {name: None if math.isnan(value) else value for name, value in self.scores.items()}
        return json.dumps({**self.__dict__, "scores": scores}, ensure_ascii=False)

    @staticmethod
    def from_json(line: str) -> Row:
        record: dict[str, Any] = json.loads(line)
        scores = {
            OLD_NAMES.get(name, name): math.nan if value is None else float(value)
            for name, value in record.pop("scores").items()
        }
        return Row(**record, scores=scores)


@dataclass(frozen=True)
class Results:
    """Rows of one protocol, with the means that its tables show."""

    protocol: EvaluationProtocol
    rows: Sequence[Row]
    methods: Sequence[str]
    folder: Path | None = None

    def select(self, method: str | None = None, pattern: str | None = None, group: str | None = None) -> list[Row]:
        return [
            row
            for row in self.rows
            if method in (None, row.method) and pattern in (None, row.pattern) and group in (None, row.group)
        ]

    def count(self, score: str, method: str | None = None, pattern: str | None = None, group: str | None = None) -> int:
        """Count the selected rows that have that score."""
        return sum(not math.isnan(row.scores.get(score, math.nan)) for row in self.select(method, pattern, group))

    def mean(self, method: str, pattern: str | None = None, group: str | None = None) -> dict[str, float]:
        """Average scores of a method (over one pattern, one group, or all) as the protocol says."""
        rows = self.select(method, pattern, group)
        if not self.protocol.by_group:
            return mean_scores(row.scores for row in rows)
        parts = []
        for name in dict.fromkeys(row.group for row in rows):
            scores = mean_scores(row.scores for row in rows if row.group == name)
            if "rmse" in scores:
                scores["rmse"] /= self.protocol.rmse_divisors.get(name, 1.0)
            parts.append(scores)
        return mean_scores(parts)

    def is_complete(self, pattern: str | None = None) -> bool:
        """Whether every group that the protocol's mean of a pattern (None: of each pattern) is over has rows."""
        if pattern is None:
            return all(map(self.is_complete, self.protocol.patterns))
        return self.protocol.groups_of.get(pattern, frozenset()) <= {row.group for row in self.select(pattern=pattern)}

    @property
    def patterns(self) -> list[str]:
        """Those that have rows, in the protocol's order."""
        present = {row.pattern for row in self.rows}
        return [pattern for pattern in self.protocol.patterns if pattern in present]

    @property
    def groups(self) -> list[str]:
        """Those that have rows, in the protocol's order."""
        present = dict.fromkeys(row.group for row in self.rows)
        return [
            *(g for g in self.protocol.groups if g in present),
            *(g for g in present if g not in self.protocol.groups),
        ]


Methods = str | Method | Sequence[str] | Mapping[str, str | Method]


def evaluate(
    protocol: str | EvaluationProtocol,
    data: str | Path | None,
    methods: Methods,
    *,
    patterns: Sequence[str] | None = None,
    only: str = "",
    folder: str | Path | None = None,
    resume: bool = False,
    pictures: bool = False,
    progress: bool = True,
    released: bool = False,
) -> Results:
    """Score methods on a protocol.

    methods: a name (see `find_method`), a callable, several names, or {label: name or callable}.
    patterns: only these of the protocol's; only: only images whose name contains this.
    folder: where scores go as they are made (and pictures of them, if wanted); with `resume`, those already there are
    kept, unless the checkpoint behind them (or `released`) has changed.
    released: metrics as in the released evaluation, see `omnidc.evaluation.metrics`.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:  # one photograph of the protocol "real"
    ...     image, depth = np.zeros((48, 64, 3), np.uint8), np.full((48, 64), 2.0, np.float32)
    ...     np.savez(f"{folder}/nyu_x.npz", rgb=image, depth=depth)
    ...     results = evaluate("real", folder, ["nearest", "linear"], patterns=["random-0.7%"], progress=False)
    >>> [(row.method, row.pattern) for row in results.rows]
    [('nearest', 'random-0.7%'), ('linear', 'random-0.7%')]
    """
    table = find_protocol(protocol) if isinstance(protocol, str) else protocol
    wanted = _check_patterns(table, patterns)
    named = _named(methods)
    if data is None and table.needs_data:
        raise ConfigError(f"Say where the data of the protocol {table.name!r} is with --data FOLDER.")
    root = Path(data or ".")
    if not root.is_dir():
        raise FileError(f"There is no folder {root}: give the root of the data with --data.")
    frames = table.frames(root, only)
    if not frames:
        raise InputError(
            f"No frame for the protocol {table.name!r} in {root}" + (f" with {only!r} in its name." if only else ".")
        )
    out = None if folder is None else Path(folder)
    prints = {label: fingerprint(source) + "+released" * released for label, source in named.items()}
    log_path = None if out is None else out / f"scores-{table.name}.jsonl"
    done: dict[tuple[str, str, str], Row] = {}
    if log_path is not None and resume:
        kept = (row for row in _read(log_path) if row.fingerprint == prints.get(row.method, row.fingerprint))
        done = {row.key: row for row in kept}

    # A model is loaded when it is first needed: a finished run needs none.
    method_of = functools.cache(lambda label: _method(named[label], table.untiled))
    rows: list[Row] = []
    jobs = [(frame, pattern, label) for frame in frames for pattern in frame.patterns for label in named]
    jobs = [job for job in jobs if job[1] in wanted]
    with (
        tqdm(jobs, desc=table.name, unit="map", disable=None if progress else True) as bar,
        nullcontext() if log_path is None else _scores_file(log_path, done.values()) as log,
    ):
        current, sample_of = None, _sampler(frames[0])
        for frame, pattern, label in bar:
            row = done.get((frame.name, pattern, label))
            if row is None:
                if frame is not current:
                    current, sample_of = frame, _sampler(frame)
                sample = sample_of(pattern)
                row = Row(frame.name, pattern, label, fingerprint=prints[label])
                if sample is not None:
                    picture = picture_path(out, *row.key) if out is not None and pictures else None
                    row = _score(row, method_of(label), sample, picture, released, table.memory)
                if log is not None:
                    log.write(row.to_json() + "\n")
                    log.flush()
            if row.scores:
                rows.append(row)
    return Results(table, rows, list(named), out)


def _sampler(frame: FrameRef) -> Callable[[str], Sample | None]:
    """Return the frame's drawer: it reads the frame at the first call and keeps the last sample for the next method."""
    opened = functools.cache(frame.open)
    return functools.lru_cache(maxsize=1)(lambda pattern: opened()(pattern))


def _method(source: str | Method, untiled: bool) -> Method:
    return find_method(source, untiled) if isinstance(source, str) else source


def _score(row: Row, method: Method, sample: Sample, picture: Path | None, released: bool, memory: bool) -> Row:
    """Return `row` with the scores of `method` on `sample`, and write its picture."""
    with PeakMemory() if memory else nullcontext() as peak:
        wall, cpu = time.perf_counter(), time.process_time()
        depth, scale = run_method(method, sample)
        seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    scores = depth_metrics(depth, sample.gt_depth, sample.scored, released=released)
    scores["edge_rel"] = edge_rel(depth, sample.gt_depth, sample.scored, sample.band)
    scores["boundary_f1"] = boundary_f1(depth, sample.gt_depth, sample.scored)
    scores["rel_at_input"] = rel_at_input(depth, sample.sparse, sample.outlier_mask)
    if scale is not None:
        scores.update(calibration(depth, scale, sample.gt_depth, sample.scored))
    scores.update(seconds=seconds, cpu_seconds=cpu_seconds)
    if peak is not None:
        scores["peak_gb"] = peak.gigabytes
    if picture is not None:
        write_strip(picture, sample, depth)
    return replace(row, group=sample.group, points=int((sample.sparse > 0).sum()), scores=scores)


def picture_path(folder: Path, image: str, pattern: str, method: str) -> Path:
    """Return where the picture of one row lies; any name becomes one that file systems take."""

    def safe(text: str) -> str:
        return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)

    return folder / PICTURES_FOLDER / safe(method) / f"{safe(image)}--{safe(pattern)}.jpg"


def _named(methods: Methods) -> dict[str, str | Method]:
    if isinstance(methods, str):
        return {methods: methods}
    if isinstance(methods, Mapping):
        return dict(methods)
    if isinstance(methods, Sequence):
        return {name: name for name in methods}
    return {getattr(methods, "__name__", type(methods).__name__): methods}


def _check_patterns(protocol: EvaluationProtocol, patterns: Sequence[str] | None) -> list[str]:
    wanted = list(protocol.patterns if patterns is None else patterns)
    for pattern in wanted:
        if pattern not in protocol.patterns:
            raise ConfigError(
                f"The protocol {protocol.name!r} has no pattern {pattern!r}: "
                f"choose from {', '.join(protocol.patterns)}."
            )
    return wanted


def _read(path: Path) -> Iterator[Row]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        # A run that was killed may leave a torn last line; that row is simply made again.
        try:
            yield Row.from_json(line)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


@contextmanager
def _scores_file(path: Path, kept: Iterable[Row]) -> Iterator[IO[str]]:
    """Open a scores file that begins with the rows that are kept; one line per row from then on."""
    with atomic_path(path) as temporary:
        temporary.write_text("".join(row.to_json() + "\n" for row in kept), encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        yield file
