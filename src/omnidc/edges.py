"""Where depth jumps: one meaning of "depth edge" for the generator, the training data and the evaluation."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

EDGE_RATIO = 1.05  # of the depths of two neighbours


def depth_edges(
    depth: npt.NDArray[np.floating],  # [H, W], 0 = unknown
    ratio: float = EDGE_RATIO,
) -> npt.NDArray[np.bool_]:
    """[H, W]: pixels one of whose four neighbours is nearer or farther by more than `ratio`, both being known."""
    known = depth > 0
    log = np.log(np.where(known, depth, 1))
    edge = np.zeros_like(known)
    for axis in (0, 1):
        here, there = (np.s_[1:], np.s_[:-1]) if axis == 0 else (np.s_[:, 1:], np.s_[:, :-1])
        jump = (np.abs(log[here] - log[there]) > math.log(ratio)) & known[here] & known[there]
        edge[here] |= jump
        edge[there] |= jump
    return edge
