"""Is the photograph mirrored, or are x and y of the measurements swapped?

Each hypothesis moves the depth edges as a whole; the one under which they meet the contours of the photograph best, at
any small shift, should be "as given".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.alignment import MIN_EDGES, Transform, shift_scores, sort_by_block
from omnidc.diagnose.edges import DepthEdges, Map, Values
from omnidc.diagnose.verdict import Finding, cannot_tell, ok, suspicious

MIRRORED, SWAPPED = "mirrored image", "swapped axes"
ALARM = 1.2  # standard errors by which another hypothesis must beat "as given"
CLEAR = 1.0  # standard errors by which "as given" must beat the other ones
MIN_POINTS = 100  # for the test by coverage
ELONGATED = 1.15  # least ratio of the image's sides for the test by coverage


@dataclass(frozen=True)
class Hypothesis:
    """One way in which the measurements may have been moved, and the sentence for it."""

    name: str
    undo: Callable[[DepthEdges, tuple[int, int]], DepthEdges]


def check_mirrored(
    contour: npt.NDArray[np.float32],  # [2, H, W]
    edges: DepthEdges,
) -> Finding:
    """Compare the photograph as given with the mirrored one, left to right and upside down."""
    others = (
        Hypothesis("left and right exchanged", _mirror_x),
        Hypothesis("top and bottom exchanged", _mirror_y),
        Hypothesis("turned by 180°", lambda e, shape: _mirror_x(_mirror_y(e, shape), shape)),
    )
    advice = "Mirror the photograph or the depth map back; check the flip and EXIF settings of the recording."
    return _check(MIRRORED, contour, edges, others, advice)


def check_swapped(
    contour: npt.NDArray[np.float32],
    edges: DepthEdges,
    sparse: Map,  # [H, W], 0 = no measurement
) -> Finding:
    """Test by coverage in an elongated image, then by edges: were rows taken for columns?"""
    advice = "Exchange the columns u and v of the point list, or transpose the depth map."
    rows, columns = np.nonzero(sparse > 0)
    height, width = sparse.shape
    long, short = max(height, width), min(height, width)
    along = columns if width > height else rows
    if len(rows) >= MIN_POINTS and long > ELONGATED * short:
        if along.max() < short:
            evidence = f"All {len(rows)} points lie in the first {short} of {long} pixels of the longer side."
            return suspicious(SWAPPED, evidence, advice, last=float(along.max()), short=short, long=long)
        evidence = "Points lie beyond the shorter side's length, where swapped axes would leave none."
        return ok(SWAPPED, evidence, last=float(along.max()), short=short, long=long)
    return _check(SWAPPED, contour, edges, (Hypothesis("x and y exchanged", _transpose),), advice)


def _check(
    check: str,
    contour: npt.NDArray[np.float32],
    edges: DepthEdges,
    others: tuple[Hypothesis, ...],
    advice: str,
) -> Finding:
    if len(edges) < MIN_EDGES:
        return cannot_tell(check, f"Only {len(edges)} samples of depth edges: too few to compare with the photograph.")
    shape = (int(contour.shape[1]), int(contour.shape[2]))
    given = _best_blocks(contour, edges)
    rivals = [(_best_blocks(contour, other.undo(edges, shape)), other.name) for other in others]
    rival, name = max(rivals, key=lambda entry: float(entry[0].sum()))
    # Independent sums: the blocks of two hypotheses lie at different places, so their variances add.
    lead = _lead(given, rival)
    numbers = {"score_as_given": float(given.sum()), "score_rival": float(rival.sum()), "lead": lead}
    if lead < -ALARM:
        evidence = (
            f"Depth edges meet the photograph's contours with {name}, not as given ({-lead:.1f} standard errors)."
        )
        return suspicious(check, evidence, advice, **numbers)
    if lead > CLEAR:
        return ok(check, f"Depth edges meet the contours as given ({lead:.1f} standard errors better).", **numbers)
    return cannot_tell(check, "Depth edges meet the contours about as well either way.", **numbers)


def _best_blocks(contour: npt.NDArray[np.float32], edges: DepthEdges) -> Values:
    """Return the block sums [blocks] of the shift with the best score."""
    if len(edges) < MIN_EDGES:
        return np.zeros(2)
    scores = shift_scores(contour, sort_by_block(edges, contour.shape[1:]), Transform(0, 0), (0.0, 0.0))
    return np.asarray(scores[int(np.argmax(scores.sum(axis=1)))])


def _lead(first: Values, second: Values) -> float:
    error = np.sqrt(sum(len(v) * float(v.var(ddof=1)) for v in (first, second)))
    return float((first.sum() - second.sum()) / error) if error > 0 else 0.0


def _mirror_x(edges: DepthEdges, shape: tuple[int, int]) -> DepthEdges:
    return DepthEdges(shape[1] - 1 - edges.x, edges.y, edges.inverse_depth, edges.axis, edges.weight)


def _mirror_y(edges: DepthEdges, shape: tuple[int, int]) -> DepthEdges:
    return DepthEdges(edges.x, shape[0] - 1 - edges.y, edges.inverse_depth, edges.axis, edges.weight)


def _transpose(edges: DepthEdges, shape: tuple[int, int]) -> DepthEdges:
    inside = (edges.y < shape[1]) & (edges.x < shape[0])
    return DepthEdges(
        edges.y[inside], edges.x[inside], edges.inverse_depth[inside], 1 - edges.axis[inside], edges.weight[inside]
    )
