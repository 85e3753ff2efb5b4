"""Spinning LiDAR: the simple scan of the evaluation, and the one for training that stands beside the camera.

A sensor some centimeters from the camera sees past the edges of near objects. Drawn into the picture, those
background points lie on the foreground. The training pattern makes them the way they come about: warp the depth map
to the sensor, fill the holes that open, scan, project back.

Scanner coordinates are those of the camera (x right, y down, z forward); a ray of pitch φ and yaw θ is
(cos φ sin θ, sin φ, z > 0) of length one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from omnidc.errors import ConfigError
from omnidc.patterns.fill import nnfill, spread
from omnidc.patterns.numbers import Number, Span, span, whole
from omnidc.patterns.sample import Depth, Image, Pattern, SparseSample, is_outlier, median_depth, sample_at, sanitize
from omnidc.patterns.scatter import fallback
from omnidc.patterns.zbuffer import nearest_into

YAW = np.pi / 2.1  # half the horizontal field of view, radians
EVALUATION_PITCH = 0.5  # half the vertical one of the evaluation's scanner
MAX_LINES, MAX_COLUMNS = 1024, 4096  # of a scanner; 100 MB of rays
MARGIN = 0.25  # the sensor's canvas is wider than the picture by this part of it, on every side


def rays(
    pitch: NDArray[np.float64],  # [lines]
    yaw: NDArray[np.float64],  # [columns]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x/z and y/z of the scanner's rays, [lines · columns] each, line by line."""
    y = np.sin(pitch)[:, None] + 0 * yaw
    x = np.cos(pitch)[:, None] * np.sin(yaw)
    z = np.sqrt(np.maximum(1 - x * x - y * y, 1e-9))
    return (x / z).ravel(), (y / z).ravel()


def scan_pixels(height: int, width: int, lines: int, columns: int = 200) -> NDArray[np.intp]:
    """Return the rows and columns [2, N] that the evaluation's scanner hits, in scan order, some more than once.

    Fixed whatever the depth: f = height, principal point in the middle, pitch ±0.5 in `lines` steps, yaw ±π/2.1 in
    `columns` steps (200 in the paper at every resolution).
    """
    pitch = np.linspace(-EVALUATION_PITCH, EVALUATION_PITCH, lines)
    x, y = rays(pitch, np.linspace(-YAW, YAW, columns))
    u = np.rint(height * x + width / 2).astype(np.intp)
    v = np.rint(height * y + height / 2).astype(np.intp)
    inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
    return np.stack([v[inside], u[inside]])


def lidar_scan(lines: int, columns: int = 200) -> Pattern:
    """Make a pattern: the deterministic LiDAR-N of the evaluation; every hit pixel has its true depth."""

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        hit = np.zeros(depth.shape, np.bool_)
        hit[tuple(scan_pixels(depth.shape[0], depth.shape[1], lines, columns))] = True
        return sample_at(depth, hit)

    return draw


@dataclass(frozen=True)
class LidarDraw:
    """Everything that is random about one scan. Lengths in the unit of the depth, angles in radians."""

    baseline_x: float  # where the sensor stands, to the right of the camera
    baseline_y: float  # below it
    focal: float  # of the camera, pixels
    cx: float
    cy: float
    pitch_min: float
    pitch_max: float
    lines: int
    columns: int
    roll: float = 0.0  # of the sensor about the optical axis
    background: bool = False  # what the sensor sees past an edge: the surface behind, or the near one continued


def draw_lidar(
    height: int,
    width: int,
    unit: float,  # median depth of the scene; the baseline is a part of it
    rng: np.random.Generator,
    lines: Number | None = None,
    released: bool = False,
    tilt: Number | None = None,
) -> LidarDraw:
    """Draw camera, sensor and baseline at random: 4–128 lines, and a camera that may show any part of the scan.

    Released: the constants of the release, 8–63 lines, no roll, near surfaces continued past their edges. Ours reach
    from those to the evaluation's scanner (pitch ±0.5 at f = H, 200 columns), and higher up in the picture, where the
    release's misplaced rays happen to fall. Columns are drawn in the logarithm: what counts is how many pixels lie
    between them. So it is for lines, but the paper draws those evenly; write lidar(2~~64) for small crops.
    """
    sign = 1.0 if rng.random() < 0.5 else -1.0
    baseline_x, baseline_y = sign * rng.uniform(0.03 if released else 0.0, 0.06), rng.uniform(-0.02, 0.02)
    cx = rng.uniform(-0.5, 1.5) * width
    cy = rng.uniform(0.5 if released else 0.25, 0.7) * height
    focal = rng.uniform(1.5 if released else 1.0, 2.0) * height
    pitch_max = rng.uniform(0.25, 0.30 if released else 0.5)
    pitch_min = rng.uniform(-0.20 if released else -0.5, -0.15)
    lines = lines if lines is not None else (8, 63) if released else (4, 128)
    return LidarDraw(
        baseline_x=unit * baseline_x,
        baseline_y=unit * baseline_y,
        focal=focal,
        cx=cx,
        cy=cy,
        pitch_min=pitch_min,
        pitch_max=pitch_max,
        lines=whole(lines, "The number of lines", most=MAX_LINES).integer(rng),
        columns=(Span(400, 999) if released else Span(100, 1000, log=True)).integer(rng),
        roll=0.0 if released else rng.uniform(-0.05, 0.05) if tilt is None else sign * span(tilt).draw(rng),
        background=not released and rng.random() < 0.5,
    )


def scan_from_baseline(depth: Depth, draw: LidarDraw, released: bool = False, unit: float = 1.0) -> NDArray[np.float32]:
    """Draw the measurements of the sensor of `draw` into the picture: [H, W], 0 = nothing; no randomness.

    Released: the scan's rays are placed on the sensor's canvas without its margin (which moves them up and to the left
    by a quarter of the picture), every return nearer than the truth is dropped, however little, and the filling is
    `nnfill`, which works on depth / `unit`.
    """
    h, w = depth.shape
    canvas = (int(h * (1 + 2 * MARGIN)), int(w * (1 + 2 * MARGIN)))
    top, left = MARGIN * h, MARGIN * w
    shift_x, shift_y = draw.focal * draw.baseline_x, draw.focal * draw.baseline_y  # pixels at depth 1

    v, u = np.nonzero(depth)
    z = depth[v, u]
    seen = nearest_into(canvas, v + top - shift_y / z.astype(np.float64), u + left - shift_x / z.astype(np.float64), z)
    if not seen.any():
        return np.zeros_like(depth)
    filled = nnfill(seen, unit) if released else spread(seen, draw.background)

    x, y = rays(
        np.linspace(draw.pitch_min, draw.pitch_max, draw.lines),
        np.linspace(-YAW, YAW, draw.columns),
    )
    if draw.roll:
        x, y = np.cos(draw.roll) * x - np.sin(draw.roll) * y, np.sin(draw.roll) * x + np.cos(draw.roll) * y
    column = np.rint(draw.focal * x + draw.cx + (0 if released else left))
    row = np.rint(draw.focal * y + draw.cy + (0 if released else top))
    inside = (row >= 0) & (row < canvas[0]) & (column >= 0) & (column < canvas[1])
    row, column = row[inside], column[inside]
    z = filled[row.astype(np.intp), column.astype(np.intp)]
    hit = z > 0
    row, column, z = row[hit], column[hit], z[hit]

    back = nearest_into(
        (h, w), row - top + shift_y / z.astype(np.float64), column - left + shift_x / z.astype(np.float64), z
    )
    # Nearer than the picture's own surface means filled in wrongly: the camera would have seen it.
    slack = 0 if released else 0.01
    return np.where((depth > 0) & (back >= (1 - slack) * depth), back, np.float32(0))


BASELINES = ("random", "none")


def lidar(
    lines: Number | None = None, tilt: Number | None = None, baseline: str = "random", released: bool = False
) -> Pattern:
    """Make a pattern: LiDAR beside the camera, everything about it drawn per frame; `lines` 4–128 unless given.

    `tilt`: angle in radians by which the lines are seen obliquely, to either side; 0 to 0.05 unless given.
    `baseline`: "none" puts the sensor where the camera is, so that no point is wrong at boundaries (an ablation).

    Background that bleeds onto foreground is flagged. Where the scan meets nothing, 1000 random points,
    density-matched.
    """
    if lines is not None:
        whole(lines, "The number of lines", most=MAX_LINES)  # complains now, not at the first frame
    if baseline not in BASELINES:
        raise ConfigError(f"The baseline of lidar is one of {', '.join(BASELINES)}, not {baseline!r}.")

    def draw(depth: Depth, image: Image, rng: np.random.Generator) -> SparseSample:
        depth = sanitize(depth)
        unit = median_depth(depth)
        settings = draw_lidar(depth.shape[0], depth.shape[1], unit, rng, lines, released, tilt)
        if baseline == "none":
            settings = replace(settings, baseline_x=0.0, baseline_y=0.0)
        sparse = scan_from_baseline(depth, settings, released, unit)
        if not sparse.any():
            return fallback(depth, rng, released)
        return SparseSample(sparse, is_outlier(sparse, depth, released))

    return draw
