"""Depth edges between measurements and contours of the photograph: the evidence for alignment.

A depth edge lies somewhere between two neighboring measurements whose depths do not continue each other. The photograph
should have a contour there. Horizontal pairs are compared with horizontal color gradients, vertical pairs with vertical
ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

Map = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

MIN_JUMP = 0.06  # |log depth| difference of an edge, and from what either side would continue to
LARGE_JUMP = 0.4  # beyond which a larger jump does not count more
MAX_PAIR = 24  # pixels between two measurements of a pair; farther apart the edge's place is not known
NEIGHBORS = 12
DENSE = 0.4  # share of measured pixels above which the map is a raster
MAX_EDGES = 4000  # samples; enough for a stable score, few enough for a fast search
LOCAL = 41  # pixels of the window in which contours are compared with their surroundings
CONTOUR_LIMIT = 4.0  # times the local mean, beyond which a contour does not count more


@dataclass(frozen=True)
class DepthEdges:
    """Samples of depth edges, [N] each."""

    x: Values  # pixels
    y: Values
    inverse_depth: Values  # of the nearer side, which owns the silhouette
    axis: npt.NDArray[np.int64]  # 0: depth changes along x; 1: along y
    weight: Values  # by size of the jump, divided among the samples of a pair

    def __len__(self) -> int:
        return len(self.x)


def depth_edges_between(
    sparse: Map,  # [H, W], 0 = no measurement
    rng: np.random.Generator,
) -> DepthEdges:
    """Find the depth edges between neighboring measurements, at most `MAX_EDGES` samples of them."""
    rows, columns = np.nonzero(sparse > 0)
    q = 1.0 / sparse[rows, columns].astype(np.float64)
    parts = []
    for axis in (0, 1):
        after = _next_along(sparse, rows, columns, axis)
        before = np.full(len(q), -1)
        linked = after >= 0
        before[after[linked]] = np.flatnonzero(linked)
        parts.append(_edges_of_pairs(rows, columns, q, before, after, axis))
    joined = [np.concatenate(column) for column in zip(*parts)]
    x, y, inverse, axes, weight = joined
    if len(x) > MAX_EDGES:
        chosen = rng.choice(len(x), MAX_EDGES, replace=False)
        x, y, inverse, axes, weight = (column[chosen] for column in joined)
    return DepthEdges(x, y, inverse, axes.astype(np.int64), weight)


def contours(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return the contour strength along x and y, [2, H, W], relative to its local mean; 0 = as strong as around."""
    smooth = cv2.GaussianBlur(image, (0, 0), 1.0).astype(np.float32)
    out = []
    for dx, dy in ((1, 0), (0, 1)):
        red, green, blue = cv2.split(np.abs(cv2.Sobel(smooth, cv2.CV_32F, dx, dy, ksize=3)))
        gradient = cv2.max(cv2.max(red, green), blue)
        # The constant is the gradient of noise: without it, noise in flat regions would count as contours.
        mean = cv2.blur(gradient, (LOCAL, LOCAL)) + 4.0
        relative = np.minimum(gradient / mean, CONTOUR_LIMIT)
        out.append(relative - cv2.blur(relative, (LOCAL, LOCAL)))
    return np.stack(out)


def _next_along(
    sparse: Map, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp], axis: int
) -> npt.NDArray[np.intp]:
    """Return for each measurement the index of the nearest one to its right (axis 0) or below (axis 1); −1 = none.

    The neighbor lies within ±27° (one pixel in two) of the axis and at most `MAX_PAIR` pixels away.
    """
    if len(rows) > DENSE * sparse.size:  # a raster: the next measured pixel of the row or column
        along, across = (columns, rows) if axis == 0 else (rows, columns)
        order = np.lexsort((along, across))
        near = (np.diff(across[order]) == 0) & (np.diff(along[order]) <= MAX_PAIR)
        following = np.full(len(rows), -1)
        following[order[:-1][near]] = order[1:][near]
        return following
    points = np.stack([columns, rows] if axis == 0 else [rows, columns], axis=1)
    k = min(NEIGHBORS, len(points))
    _, found = cKDTree(points).query(points, k=k, distance_upper_bound=MAX_PAIR)
    neighbor = np.reshape(found, (len(points), k))
    step = points[np.minimum(neighbor, len(points) - 1)] - points[:, None]
    ahead = (neighbor < len(points)) & (step[..., 0] > 0) & (2 * np.abs(step[..., 1]) <= step[..., 0])
    first = np.argmax(ahead, axis=1)  # sorted by distance: the first one ahead is the nearest
    chosen = neighbor[np.arange(len(points)), first]
    return np.where(ahead.any(axis=1), chosen, -1)


def _edges_of_pairs(
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
    q: Values,  # inverse depth
    before: npt.NDArray[np.intp],
    after: npt.NDArray[np.intp],
    axis: int,
) -> tuple[Values, ...]:
    """Return x, y, inverse depth of the near side, axis and weight of the samples on the pairs with an edge."""
    a = np.flatnonzero(after >= 0)
    b = after[a]
    position = (columns if axis == 0 else rows).astype(np.float64)
    jump = np.abs(np.log(q[a] / q[b]))
    edge = jump > MIN_JUMP
    a, b, jump = a[edge], b[edge], jump[edge]
    # A slanted plane has jumps too, but its inverse depth is affine: either side continues to the other.
    for here, there, beyond in ((a, b, before[a]), (b, a, after[b])):
        known = beyond >= 0
        span = position[here] - position[np.maximum(beyond, 0)]
        slope = np.where(known & (span != 0), (q[here] - q[np.maximum(beyond, 0)]) / np.where(span == 0, 1, span), 0.0)
        expected = q[here] + slope * (position[there] - position[here])
        jump = np.minimum(jump, np.abs(np.log(np.maximum(expected, 1e-3 * q[here]) / q[there])))
    edge = jump > MIN_JUMP
    a, b, jump = a[edge], b[edge], np.minimum(jump[edge], LARGE_JUMP)
    count = np.maximum(1, np.abs(position[b] - position[a]).astype(int))
    pair = np.repeat(np.arange(len(a)), count)
    step = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    t = (step + 0.5) / count[pair]
    x = columns[a][pair] * (1 - t) + columns[b][pair] * t
    y = rows[a][pair] * (1 - t) + rows[b][pair] * t
    near = np.maximum(q[a], q[b])[pair]
    return x, y, near, np.full(len(pair), float(axis)), (jump / count)[pair]
