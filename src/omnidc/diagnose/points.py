"""Single measurements that cannot be right: outliers, second returns, points in the sky."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from omnidc.diagnose.folds import Map
from omnidc.diagnose.sky import sky_mask
from omnidc.diagnose.verdict import Finding, cannot_tell, ok, suspicious

Values = npt.NDArray[np.float64]

OUTLIERS, RETURNS, SKY = "outliers", "two returns", "points in the sky"

NEIGHBORS = 10
SAMPLED = 4000  # measurements that are compared with their neighbors
MIN_POINTS = 200
AGREEING = 6  # neighbors of one depth that make a surface
NOISE_FACTOR = 4  # tolerance in medians of the difference between neighbors
TOLERANCES = (0.02, 0.25)  # least tolerance of log depth; above the largest, neighbors say nothing about each other
OUTLIER_ALARM, OUTLIER_OK = 0.06, 0.045  # share of measurements off the surface around them

JUMP = 0.1  # difference of log depth between two returns
SAME_RAY, APART = 1.5, (2.5, 5.0)  # pixels between two returns of one ray; between measurements of other rays
RETURN_ALARM, RETURN_OK = 0.14, 0.1  # share of points with a jump on their ray; parallax alone reaches the latter
RASTER = 0.2  # share of measured pixels above which each pixel has one value and its neighbors are other rays
SAME_DIRECTION = 1e-4  # radians between two returns in a scan
SCAN_RANGES = 0.05  # least relative difference of their ranges
SCAN_ALARM = 0.01  # share of a scan's points that share a ray

SKY_MARGIN = 0.01  # of the image's longer side: the border of the sky is not exact
MIN_SKY_POINTS = 5
ROUGH = 0.1  # median difference of log depth of neighbors in the sky above which there is no surface
SATURATED = 0.5  # share of the points in the sky that have one and the same depth


@dataclass(frozen=True)
class Neighborhood:
    """Some measurements with their nearest others."""

    log_depth: Values  # [N]
    neighbors: Values  # [N, K] log depth of the nearest measurements
    distance: Values  # [N, K] pixels

    @classmethod
    def of(cls, sparse: Map, rng: np.random.Generator) -> Neighborhood:
        rows, columns = np.nonzero(sparse > 0)
        position = np.stack([columns, rows], axis=1)
        log = np.log(sparse[rows, columns].astype(np.float64))
        chosen = rng.choice(len(log), min(SAMPLED, len(log)), replace=False)
        # A plain tree: there are few queries, and balancing the tree would cost more than it saves.
        tree = cKDTree(position, compact_nodes=False, balanced_tree=False)
        distance, index = (np.asarray(found)[:, 1:] for found in tree.query(position[chosen], k=NEIGHBORS + 1))
        return cls(log[chosen], log[index], distance)

    @property
    def difference(self) -> Values:
        """|log depth| difference from each neighbor, [N, K]."""
        return np.abs(self.neighbors - self.log_depth[:, None])


def check_outliers(sparse: Map, rng: np.random.Generator) -> Finding:
    """Count measurements that differ from a surface on which their neighbors agree."""
    count = int((sparse > 0).sum())
    if count < MIN_POINTS:
        return cannot_tell(OUTLIERS, f"{count} points are too few to compare with their neighbors.")
    around = Neighborhood.of(sparse, rng)
    difference = around.difference
    noise = float(np.median(difference[:, :4]))
    tolerance = max(TOLERANCES[0], NOISE_FACTOR * noise)
    middle = np.median(around.neighbors, axis=1)
    surface = (np.abs(around.neighbors - middle[:, None]) < tolerance).sum(axis=1) >= AGREEING
    if tolerance > TOLERANCES[1] or surface.sum() < MIN_POINTS // 4:
        return cannot_tell(
            OUTLIERS, f"Neighboring points differ by {100 * noise:.0f} % (median): no surface shows which are wrong."
        )
    alone = (difference < tolerance).sum(axis=1) <= 1
    share = float(alone[surface].mean())
    numbers = {"share": share, "tolerance": tolerance}
    evidence = (
        f"{100 * share:.1f} % of the points differ by more than {100 * tolerance:.0f} % from the surface around them."
    )
    if share > OUTLIER_ALARM:
        return suspicious(
            OUTLIERS, evidence, "Filter the points (confidence, intensity, statistical outliers) first.", **numbers
        )
    if share < OUTLIER_OK:
        return ok(OUTLIERS, evidence, **numbers)
    return cannot_tell(OUTLIERS, evidence + " Thin objects may explain it.", **numbers)


def check_returns(sparse: Map, rng: np.random.Generator) -> Finding:
    """Compare jumps of depth within one ray with jumps between rays.

    Depths of one sensor change more between distant rays than between near ones. Two returns of one ray, drawn beside
    each other, reverse this.
    """
    measured = sparse > 0
    if measured.mean() > RASTER:
        return cannot_tell(RETURNS, "The map is a raster with one value for each pixel.")
    if measured.sum() < MIN_POINTS:
        return cannot_tell(RETURNS, f"{int(measured.sum())} points are too few.")
    around = Neighborhood.of(sparse, rng)
    jump = around.difference > JUMP
    near = around.distance <= SAME_RAY
    apart = (around.distance >= APART[0]) & (around.distance <= APART[1])
    if near.sum() < MIN_POINTS // 4 or apart.sum() < MIN_POINTS // 4:
        return cannot_tell(RETURNS, "The points lie too far apart to share a ray.")
    same, other = float(jump[near].mean()), float(jump[apart].mean())
    share = float((jump & near).any(axis=1).mean())
    numbers = {"share": share, "adjacent": same, "apart": other}
    evidence = f"{100 * share:.0f} % of the points lie beside a point of another depth."
    if share > RETURN_ALARM and same > other:
        return suspicious(RETURNS, evidence, _RETURN_ADVICE, **numbers)
    if share < RETURN_OK:
        return ok(RETURNS, evidence, **numbers)
    return cannot_tell(RETURNS, f"{evidence} Outliers, or points hidden from the camera, would explain it.", **numbers)


def check_scan_returns(points: Values) -> Finding:  # [N, 3], sensor frame
    """Count the points of a scan that share their direction with a point at another range."""
    distance = np.linalg.norm(points, axis=1)
    valid = np.isfinite(distance) & (distance > 0)
    if valid.sum() < MIN_POINTS:
        return cannot_tell(RETURNS, f"{int(valid.sum())} points are too few.")
    distance = distance[valid]
    pairs = cKDTree(points[valid] / distance[:, None]).query_pairs(SAME_DIRECTION, output_type="ndarray")
    different = np.abs(np.log(distance[pairs[:, 0]] / distance[pairs[:, 1]])) > SCAN_RANGES
    share = len(np.unique(pairs[different])) / len(distance)
    evidence = f"{100 * share:.1f} % of the scan's points share their ray with a point at another range."
    if share > SCAN_ALARM:
        return suspicious(RETURNS, evidence, _RETURN_ADVICE, share=share)
    return ok(RETURNS, evidence, share=share)


_RETURN_ADVICE = "Export one return for each ray: the strongest, or the last outdoors."


def check_sky(
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    sparse: Map,  # [H, W]
) -> Finding:
    """Look for measurements in the sky that are no surface: scattered, or all of one saturated depth."""
    sky = sky_mask(image)
    if not sky.any():
        return cannot_tell(SKY, "No sky was recognized in the photograph.")
    radius = max(1, round(SKY_MARGIN * max(sky.shape)))
    window = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    padded = cv2.copyMakeBorder(sky.astype(np.uint8), radius, radius, radius, radius, cv2.BORDER_REPLICATE)
    inner = cv2.erode(padded, window)[radius:-radius, radius:-radius] > 0
    rows, columns = np.nonzero((sparse > 0) & inner)
    share = float(sky.mean())
    if len(rows) < MIN_SKY_POINTS:
        return ok(
            SKY, f"{len(rows)} points in the {100 * share:.0f} % of the image that look like sky.", points=len(rows)
        )
    log = np.log(sparse[rows, columns].astype(np.float64))
    position = np.stack([columns, rows], axis=1)
    nearest = np.asarray(cKDTree(position).query(position, k=2)[1])[:, 1]
    rough = float(np.median(np.abs(log[nearest] - log)))
    _, counts = np.unique(log, return_counts=True)
    saturated = float(counts.max() / len(log))
    numbers = {"points": float(len(rows)), "roughness": rough, "same_depth": saturated, "sky": share}
    evidence = f"{len(rows)} points lie in the sky, where neighbors differ by {100 * rough:.0f} % (median)."
    advice = "Remove them: set the depth of the sky to 0, or lower the sensor's maximum range."
    if saturated > SATURATED and log.max() >= np.log(sparse.max()) - 1e-6:
        evidence = f"{len(rows)} points lie in the sky, {100 * saturated:.0f} % of them at the map's largest depth."
        return suspicious(SKY, evidence, advice, **numbers)
    if rough > ROUGH:
        return suspicious(SKY, evidence, advice, **numbers)
    return ok(SKY, "The points in the region that looks like sky form a surface: it is none.", **numbers)
