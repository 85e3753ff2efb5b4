"""Numbers that others have published, one CSV file per source.

A row of a file is one method on one sparse input of one table: `table` is the paper's number of it (a letter in the
appendix) or the name of a newer system, whose own table has other sparse inputs; `trained` is the data set of that
input where the method was trained on it, `note` what a reader should know.
Units are meters, 1 / meter and seconds, whatever the source prints. `read_table` is the only reader.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from importlib import resources

from omnidc.evaluation.protocols import Citation, Published

PAPER = Citation("paper", "Zuo, Yang, Ma and Deng, OMNI-DC, ICCV 2025 (arXiv 2411.19278)")
README = Citation("README", "github.com/princeton-vl/OMNI-DC at cc1a037, README, comparison of v1.0 and v1.1")
LDCM = Citation(
    "LDCM",
    "github.com/aigc3d/LDCM at 9128cb9, assets/quantitative_depthcompletion.png; it does not state the sparse inputs, "
    "so compare its rows with each other only",
)
PRIOR_DA = Citation(
    "Prior-DA",
    "github.com/SpatialVision/Prior-Depth-Anything at 8c029cb, assets/v_1_1results/sparse_prior.png; it names neither "
    "the score, which we take for REL in percent, nor the numbers of points, so compare its rows with each other only",
)
FILES: dict[str, Citation] = {
    "paper.csv": PAPER,
    "readme.csv": README,
    "ldcm.csv": LDCM,
    "prior_depth_anything.csv": PRIOR_DA,
}
TEXTS = ("table", "method", "trained", "pattern", "note")

# Rows that a user's own run of the released model should reproduce; all others are baselines or ablations.
REFERENCES = ("OMNI-DC v1.0", "OMNI-DC v1.1")

BASELINE_RULES = (
    "How the paper runs its baselines: Depth Pro predicts meters and is not aligned; Depth Anything v2 is fitted to "
    "the points by scale and shift in disparity, Marigold in depth, by least squares; BP-Net, Depth Prompting and "
    "OGNI-DC use their NYUv2 checkpoint indoors and their KITTI checkpoint outdoors; DFU uses its KITTI checkpoint "
    "everywhere; G2-MonoDepth divides by 20 indoors and by 100 outdoors."
)


@cache
def _rows(file: str) -> tuple[dict[str, str], ...]:
    text = (resources.files(__package__) / file).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def read_table(table: str) -> tuple[Published, ...]:
    """Read all published rows of a table, the paper's own first."""
    found: list[Published] = []
    for file, source in FILES.items():
        rows = [row for row in _rows(file) if row["table"] == table]
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if row["method"] == method]
            values = {
                row["pattern"]: {
                    score: float(value) for score, value in row.items() if score not in TEXTS and value != ""
                }
                for row in own
            }
            in_domain = frozenset(row["pattern"] for row in own if row["trained"])
            notes = tuple(dict.fromkeys(f"{row['pattern']}: {row['note']}" for row in own if row["note"]))
            found.append(Published(method, values, source, in_domain, notes, method in REFERENCES))
    return tuple(found)


def table_names() -> Sequence[str]:
    """Return the tables that have published rows: the paper's in its order, then those of newer systems."""
    return list(dict.fromkeys(row["table"] for file in FILES for row in _rows(file)))
