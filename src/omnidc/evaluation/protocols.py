"""Protocols: which frames, which sparse inputs, which scores, and what others have published for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omnidc.errors import ConfigError
from omnidc.evaluation.real import GROUPS, PATTERNS, SENSOR_GROUP, real_frames
from omnidc.evaluation.sample import FrameRef


@dataclass(frozen=True)
class Published:
    """One method's row of a published table: values[pattern][score]; a cell we have no source for is not there."""

    method: str
    values: Mapping[str, Mapping[str, float]]
    source: str


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
    average: str = "rows"  # mean over all "rows", or over the means of "groups" (data sets count alike)
    rmse_divisors: Mapping[str, float] = field(default_factory=dict)  # by group, before averaging
    published: tuple[Published, ...] = ()


REAL = EvaluationProtocol(
    name="real",
    title="Real photographs, thirteen sparse patterns",
    rules=(
        "Pictures reduced to 640 px on the long side; points drawn from the truth with a seed fixed per image and "
        "pattern; every pixel with a truth counts (for the sensor's own input: those not handed over as input), no "
        "depth cap, no crop; plain mean over images."
    ),
    patterns=tuple(PATTERNS),
    frames=real_frames,
    groups=(*GROUPS, SENSOR_GROUP),
    scores=("rel", "rmse_median", "d1", "edge_rel", "anchor", "cover95", "ause", "cpu_seconds"),
)

PROTOCOLS: Mapping[str, EvaluationProtocol] = {protocol.name: protocol for protocol in (REAL,)}


def find_protocol(name: str) -> EvaluationProtocol:
    if name not in PROTOCOLS:
        raise ConfigError(f"There is no protocol {name!r}: choose one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]
