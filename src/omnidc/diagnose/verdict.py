"""`Finding`: the answer of one check, in one of three verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Verdict(str, Enum):
    """Answer of a check."""

    OK = "ok"
    SUSPICIOUS = "suspicious"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Finding:
    """One check of one frame. `evidence` and `advice` are sentences; `numbers` go into the JSON report."""

    check: str
    verdict: Verdict
    evidence: str
    advice: str = ""  # what to do; empty unless suspicious
    numbers: dict[str, float] = field(default_factory=dict)


def ok(check: str, evidence: str, **numbers: float) -> Finding:
    return Finding(check, Verdict.OK, evidence, "", numbers)


def suspicious(check: str, evidence: str, advice: str, **numbers: float) -> Finding:
    return Finding(check, Verdict.SUSPICIOUS, evidence, advice, numbers)


def cannot_tell(check: str, evidence: str, **numbers: float) -> Finding:
    return Finding(check, Verdict.CANNOT_TELL, evidence, "", numbers)
