"""Protocols: which frames, which sparse inputs, which scores, and what others have published for them.

`catalog.PROTOCOLS` lists them; `paper.py` holds the tables of the paper, `real.py` the development photographs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omnidc.evaluation.sample import FrameRef


@dataclass(frozen=True)
class Citation:
    """Where a number was read: a word for the head of a column, and the place in full."""

    short: str
    text: str


@dataclass(frozen=True)
class Published:
    """One method's row of a published table: values[pattern][score]; a cell we have no source for is not there."""

    method: str
    values: Mapping[str, Mapping[str, float]]
    source: Citation
    in_domain: frozenset[str] = frozenset()  # patterns whose dataset the method was trained on
    notes: tuple[str, ...] = ()
    reference: bool = False  # what a run of the released model should reproduce; else a baseline

    @property
    def label(self) -> str:
        return f"{self.method}, {self.source.short}"

    def has(self, score: str) -> bool:
        """Return whether any pattern has this score."""
        return any(score in values for values in self.values.values())


SCALE_FACTORS = (0.001, 0.1, 1.0, 10.0, 1000.0)  # of the paper's scale test


def _nothing(root: Path) -> list[str]:
    return []


@dataclass(frozen=True)
class EvaluationProtocol:
    """A table as data. `rules` (masks, caps, crops, averages) is printed with every result."""

    name: str
    title: str
    rules: str
    patterns: tuple[str, ...]
    frames: Callable[[Path, str], Sequence[FrameRef]]  # (root of the data, part of the name) → frames
    scores: tuple[str, ...]  # what the tables show, the first being the headline
    groups: tuple[str, ...] = ()  # kinds of frames, in the order of the table
    groups_of: Mapping[str, frozenset[str]] = field(default_factory=dict)  # pattern → those that its mean is over
    by_group: bool = False  # mean over images, then over groups; else over all rows
    rmse_divisors: Mapping[str, float] = field(default_factory=dict)  # by group, before averaging
    total: bool = True  # whether a mean over the patterns says anything
    published: tuple[Published, ...] = ()
    missing: Callable[[Path], list[str]] = _nothing  # data of this protocol that a root does not have
    needs_data: bool = True
    memory: bool = False  # measure the peak memory of every run
    untiled: bool = False  # networks of this package run the whole image at its own size
    counts: Callable[[Path], list[str]] = _nothing  # sentences on numbers of frames that differ from the paper's
