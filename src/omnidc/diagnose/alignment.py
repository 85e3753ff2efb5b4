"""Search the small transform that brings depth edges onto the contours of the photograph.

The displacement of a measurement at pixel p with depth z is

    d(p) = t + ω × (p − c) + τ (p − c) / z

with the shift t (pixels; with the focal length f, a turn of t / f about the camera's other axis), the roll ω about the
optical axis and the motion τ along it (unit of the depth). τ is how a late LiDAR of a vehicle appears: its points are
where the scene was at another time. The score of a transform is the mean contour strength at the displaced depth edges.
Blocks of the image are resampled (bootstrap) to find how well the data determines the best transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.diagnose.edges import DepthEdges, Map, Values, contours, depth_edges_between

MAX_SHIFT = 12  # pixels in x and y that are searched,
FAMILY_SHIFT = 6  # and together with a roll or a motion
ROLLS = np.radians([-1.5, -1.0, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0, 1.5])
MOTIONS = (
    -12.0,
    -9.0,
    -6.0,
    -4.0,
    -2.0,
    2.0,
    4.0,
    6.0,
    9.0,
    12.0,
)  # pixels that the motion displaces the edges by, RMS
BLOCKS = (6, 8)  # of the bootstrap, rows and columns
BOOTSTRAPS = 200
NEAR = 1.5  # pixels: candidates that count as "aligned as given"
FAR = 4.0  # pixels: candidates that count as another answer than the best
MIN_EDGES = 60  # samples below which no score is stable


@dataclass(frozen=True)
class Transform:
    """Correction of the measurements: where they belong in the photograph, seen from where they are drawn."""

    x: float  # pixels to the right
    y: float  # pixels down
    roll: float = 0.0  # radians, clockwise in the image
    motion: float = 0.0  # τ in the unit of the depth: positive moves points away from the center

    def displace(
        self,
        x: Values,
        y: Values,
        inverse_depth: Values,
        center: tuple[float, float],
    ) -> tuple[Values, Values]:
        """Return the corrected pixel coordinates."""
        dx, dy = x - center[0], y - center[1]
        grow = self.motion * inverse_depth
        return x + self.x - self.roll * dy + grow * dx, y + self.y + self.roll * dx + grow * dy


@dataclass(frozen=True)
class Alignment:
    """Result of the search. Margins are differences of scores in standard errors, from the spread over blocks."""

    best: Transform
    displacement: float  # pixels, RMS over the depth edges
    low: float  # 5th and 95th percentile of the displacement over the resamples
    high: float
    margin_given: float  # best above everything that displaces the edges by less than `NEAR`
    margin_rival: float  # best above everything that differs from it by more than `FAR`
    score: float  # mean contour strength at the displaced edges; 0 = as anywhere
    score_as_given: float
    edges: int


def align(
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    sparse: Map,  # [H, W], 0 = no measurement
    center: tuple[float, float] | None,  # principal point; None = the middle of the image
    rng: np.random.Generator,
) -> Alignment | None:
    """Search shift, roll and motion; None where the measurements have too few depth edges."""
    edges = depth_edges_between(sparse, rng)
    if len(edges) < MIN_EDGES:
        return None
    return search(contours(image), edges, center or image_center(sparse.shape), rng)


def image_center(
    shape: tuple[int, ...],  # height, width
    intrinsics: Values | None = None,  # [3, 3]
) -> tuple[float, float]:
    """Return the principal point, or the middle of the image where the camera is not known."""
    if intrinsics is not None:
        return float(intrinsics[0, 2]), float(intrinsics[1, 2])
    return (shape[1] - 1) / 2, (shape[0] - 1) / 2


def search(
    contour: npt.NDArray[np.float32],  # [2, H, W]
    edges: DepthEdges,
    center: tuple[float, float],
    rng: np.random.Generator,
) -> Alignment:
    """Score every candidate per block of the image, then resample the blocks."""
    edges = sort_by_block(edges, contour.shape[1:])
    spread = np.sqrt(_mean(edges, edges.inverse_depth**2 * _squared_radius(edges, center)))
    families = [Transform(0, 0)]
    families += [Transform(0, 0, float(roll)) for roll in ROLLS]
    families += [Transform(0, 0, 0, pixels / spread) for pixels in MOTIONS]
    windows = [_shifts(MAX_SHIFT), *[_shifts(FAMILY_SHIFT)] * (len(families) - 1)]
    # [candidates, blocks]: every sum over blocks is a score, every choice of blocks a resample.
    scores = np.concatenate([shift_scores(contour, edges, f, center, s) for f, s in zip(families, windows)])
    moved = np.concatenate([_displacements(edges, f, center, s) for f, s in zip(families, windows)])
    shifts = np.concatenate(windows)
    family_of = np.repeat(np.arange(len(families)), [len(s) for s in windows])
    mean = scores.sum(axis=1)
    best = int(np.argmax(mean))
    family, shift = families[family_of[best]], shifts[best]
    near = np.flatnonzero(moved <= NEAR)
    far = np.flatnonzero(np.hypot(*(shifts - shift).T) > FAR)
    blocks = scores.shape[1]
    counts = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=BOOTSTRAPS)
    low, high = np.quantile(moved[np.argmax(counts @ scores.T, axis=1)], [0.05, 0.95])
    return Alignment(
        best=Transform(float(shift[0]), float(shift[1]), family.roll, family.motion),
        displacement=float(moved[best]),
        low=float(low),
        high=float(high),
        margin_given=margin(scores[best], scores[near[np.argmax(mean[near])]]),
        margin_rival=margin(scores[best], scores[far[np.argmax(mean[far])]]),
        score=float(mean[best]),
        score_as_given=float(mean[len(windows[0]) // 2]),
        edges=len(edges),
    )


def margin(
    first: Values,  # [blocks]
    second: Values,
) -> float:
    """Return the difference of two scores in standard errors, from the spread of the difference over the blocks."""
    difference = first - second
    error = math.sqrt(len(difference) * float(difference.var(ddof=1)))
    return float(difference.sum()) / error if error > 0 else 0.0


def _shifts(reach: int) -> npt.NDArray[np.int64]:
    side = np.arange(-reach, reach + 1)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def sort_by_block(edges: DepthEdges, shape: tuple[int, ...]) -> DepthEdges:
    """Return the edges in the order of the image's blocks, with weights that add up to 1."""
    order = np.argsort(_block_of(edges, shape), kind="stable")
    x, y, q, axis, weight = edges.x, edges.y, edges.inverse_depth, edges.axis, edges.weight / edges.weight.sum()
    return DepthEdges(x[order], y[order], q[order], axis[order], weight[order])


def shift_scores(
    contour: npt.NDArray[np.float32],  # [2, H, W]
    edges: DepthEdges,  # as `sort_by_block` returns them
    family: Transform,
    center: tuple[float, float],
    shifts: npt.NDArray[np.int64] | None = None,  # [S, 2], x and y; None = all within `MAX_SHIFT`
) -> Values:
    """Return the sum of weight × contour for each shift, added to `family`, and each block: [shifts, blocks]."""
    shifts = _shifts(MAX_SHIFT) if shifts is None else shifts
    margin = 2 * MAX_SHIFT
    block = _block_of(edges, contour.shape[1:])
    padded = np.pad(contour, ((0, 0), (margin, margin), (margin, margin)))
    _, height, width = padded.shape
    x, y = family.displace(edges.x, edges.y, edges.inverse_depth, center)
    column = np.clip(np.rint(x).astype(np.int32) + margin, MAX_SHIFT, width - 1 - MAX_SHIFT)
    row = np.clip(np.rint(y).astype(np.int32) + margin, MAX_SHIFT, height - 1 - MAX_SHIFT)
    start = ((edges.axis * height + row) * width + column).astype(np.int32)
    step = (shifts[:, 1] * width + shifts[:, 0]).astype(np.int32)
    values = padded.ravel().take(start + step[:, None]) * edges.weight.astype(np.float32)
    present, first = np.unique(block, return_index=True)
    out = np.zeros((len(shifts), BLOCKS[0] * BLOCKS[1]))
    out[:, present] = np.add.reduceat(values, first, axis=1)
    return out


def _block_of(edges: DepthEdges, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    rows = np.clip(edges.y * BLOCKS[0] / shape[0], 0, BLOCKS[0] - 1).astype(np.int64)
    columns = np.clip(edges.x * BLOCKS[1] / shape[1], 0, BLOCKS[1] - 1).astype(np.int64)
    return np.asarray(rows * BLOCKS[1] + columns)


def _displacements(
    edges: DepthEdges, family: Transform, center: tuple[float, float], shifts: npt.NDArray[np.int64]
) -> Values:
    """Return the RMS displacement of the edges for each shift, pixels."""
    x, y = family.displace(edges.x, edges.y, edges.inverse_depth, center)
    dx, dy = x - edges.x, y - edges.y
    square = _mean(edges, dx**2 + dy**2) + 2 * (shifts[:, 0] * _mean(edges, dx) + shifts[:, 1] * _mean(edges, dy))
    return np.asarray(np.sqrt(np.maximum(square + (shifts**2).sum(axis=1), 0)))


def _squared_radius(edges: DepthEdges, center: tuple[float, float]) -> Values:
    return (edges.x - center[0]) ** 2 + (edges.y - center[1]) ** 2


def _mean(edges: DepthEdges, values: Values) -> float:
    return float((edges.weight * values).sum() / edges.weight.sum())
