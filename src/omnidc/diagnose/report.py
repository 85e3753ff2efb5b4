"""One page of text for a person, and the same as JSON."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.alignment import Transform, image_center
from omnidc.diagnose.calibration import corrected_map
from omnidc.diagnose.doctor import Diagnosis, Errors
from omnidc.diagnose.edges import Map
from omnidc.diagnose.holdout import Row, Score
from omnidc.diagnose.verdict import Verdict

MARKS = {Verdict.OK: "ok", Verdict.SUSPICIOUS: "SUSPICIOUS", Verdict.CANNOT_TELL: "cannot tell"}
MAX_ROWS = 5  # of a table, so that the report stays one page


def as_text(diagnosis: Diagnosis) -> str:
    """Return the report, at most a page, to read or to paste into a bug report.

    >>> from pathlib import Path
    >>> import omnidc
    >>> room = Path(omnidc.__file__).parent / "examples"  # the bundled example
    >>> from omnidc.pipeline import make_frame
    >>> frame = make_frame(room / "room.jpg", room / "room_sparse.npz", (247.9, 247.9, 159.5, 119.5))
    >>> from omnidc.diagnose import diagnose
    >>> as_text(diagnose(frame, None)).splitlines()[1][2:21]
    '320x240, 500 points'
    """
    from omnidc import __version__

    unit = diagnosis.unit.label
    low, median, high = diagnosis.depths
    width, height = diagnosis.size
    lines = [
        f"omnidc doctor {__version__}, Python {platform.python_version()}, {platform.system()}",
        f"{diagnosis.name}: {width}x{height}, {diagnosis.measured:,} points, "
        f"depth {low:.3g} / {median:.3g} / {high:.3g} {unit} (min / median / max)".replace("  ", " "),
        "",
    ]
    for finding in diagnosis.examination.findings:
        lines.append(f"{finding.check:<18}{MARKS[finding.verdict]:<12}{finding.evidence}")
        if finding.advice:
            lines.append(f"{'':<30}→ {finding.advice}")
    lines.append("")
    if diagnosis.errors is not None:
        lines += _errors(diagnosis.errors, diagnosis.model, unit)
    elif diagnosis.model:
        lines.append("Errors were not measured: too few points to hide some of them.")
    return "\n".join(lines) + "\n"


def as_lines(diagnosis: Diagnosis) -> list[str]:
    """Return the verdict in a few lines: the error on hidden points, and each suspicion with its advice."""
    lines = []
    if diagnosis.errors is not None:
        comparison = diagnosis.errors.comparison
        lines.append(
            f"doctor: REL {100 * comparison.network.rel:.2f} % at {comparison.count:,} hidden points, "
            f"{100 * comparison.linear.rel:.2f} % by linear interpolation"
        )
    for finding in diagnosis.examination.suspicions:
        lines.append(f"doctor: {finding.check}: {finding.evidence} {finding.advice}")
    return lines or ["doctor: nothing suspicious"]


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as plain numbers and strings."""
    from omnidc import __version__

    errors = diagnosis.errors
    alignment = diagnosis.examination.alignment
    return {
        "omnidc": __version__,
        "name": diagnosis.name,
        "width": diagnosis.size[0],
        "height": diagnosis.size[1],
        "points": diagnosis.measured,
        "depth": dict(zip(("min", "median", "max"), diagnosis.depths)),
        "unit": diagnosis.unit.value,
        "model": diagnosis.model,
        "findings": [
            {**asdict(finding), "verdict": finding.verdict.value} for finding in diagnosis.examination.findings
        ],
        "alignment": None if alignment is None else asdict(alignment),
        "errors": None
        if errors is None
        else {
            **asdict(errors.comparison),
            "network_is_worse": errors.comparison.network_is_worse,
            "mixed": asdict(errors.mixed),
            "mixture": {"gap": errors.mixture.gap.tolist(), "network_weight": errors.mixture.weight.tolist()},
            "coverage": None if errors.coverage is None else asdict(errors.coverage),
        },
    }


def calibration_picture(
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    sparse: Map,  # [H, W]
    transform: Transform,
    intrinsics: npt.NDArray[np.float64] | None,  # [3, 3]
) -> npt.NDArray[np.uint8]:
    """Draw the points as given and as corrected, one above the other."""
    from omnidc.viz.overlay import point_overlay
    from omnidc.viz.panels import contact_sheet

    after = corrected_map(sparse, transform, image_center(sparse.shape, intrinsics))
    return contact_sheet([point_overlay(image, sparse), point_overlay(image, after)], columns=1)


def _errors(errors: Errors, model: str, unit: str) -> list[str]:
    comparison = errors.comparison
    lines = [
        f"Errors at {comparison.count:,} of your own points, hidden in blocks "
        "(REL = mean |error| / depth, bias = median; + is too far):",
        f"  {'':<24}{'points':>8}{model:>30}{'linear interpolation':>30}",
        _row("all", comparison.count, comparison.network, comparison.linear, unit),
    ]
    for title, rows, end in (("distance", comparison.by_distance, unit), ("gap", comparison.by_gap, "px")):
        for row in _thinned(rows):
            label = f"{title} {row.low:.3g} to {row.high:.3g} {end}".rstrip()
            lines.append(_row(label, row.count, row.network, row.linear, unit))
    lines.append(
        f"  --best (mixed by gap size): REL {100 * errors.mixed.rel:.2f} %, RMSE {errors.mixed.rmse:.3g} {unit}"
    )
    if comparison.network_is_worse:
        lines.append("  On this data linear interpolation is better than the network: use --best.")
    coverage = errors.coverage
    if coverage is not None:
        levels = ", ".join(
            f"{100 * level:.0f} %: {100 * before:.0f} → {100 * after:.0f} %"
            for level, before, after in zip(coverage.levels, coverage.before, coverage.after)
        )
        lines.append(f"  Uncertainty × {coverage.factor:.2f}; points inside its interval, before → after: {levels}.")
    return lines


def _row(label: str, count: int, network: Score, linear: Score, unit: str) -> str:
    def cell(score: Score) -> str:
        return f"{100 * score.rel:.2f} %, {score.rmse:.3g} {unit}, {100 * score.bias:+.2f} %".replace(" ,", ",")

    return f"  {label:<24}{count:>8,}{cell(network):>30}{cell(linear):>30}"


def _thinned(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    if len(rows) <= MAX_ROWS:
        return rows
    chosen = np.unique(np.rint(np.linspace(0, len(rows) - 1, MAX_ROWS)).astype(int))
    return tuple(rows[int(k)] for k in chosen)
