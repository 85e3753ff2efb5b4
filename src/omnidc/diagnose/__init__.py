"""The doctor: errors on the user's own points, and what may be wrong with the input."""

from omnidc.diagnose.doctor import Diagnosis, Examination, diagnose, examine
from omnidc.diagnose.mixing import best
from omnidc.diagnose.report import as_json, as_lines, as_text
from omnidc.diagnose.verdict import Finding, Verdict

__all__ = [
    "Diagnosis",
    "Examination",
    "Finding",
    "Verdict",
    "as_json",
    "as_lines",
    "as_text",
    "best",
    "diagnose",
    "examine",
]
