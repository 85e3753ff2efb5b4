"""Lenses, poses, and which views are worth rendering."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.geometry.surface import depth_edges
from omnidc.scenes.description import Rng, Scene, Viewpoint

# lens: bounds of the horizontal field of view in degrees (of the larger side of the picture)
LENSES: dict[str, tuple[float, float]] = {
    "indoor": (50.0, 90.0),
    "street": (45.0, 85.0),
    "driving": (72.0, 95.0),
    "drone": (55.0, 85.0),
    "close": (30.0, 65.0),
    "portrait": (22.0, 48.0),
}
# The share of views that are cut out of a larger picture, and the part of its width: frames are small, the photographs
# that people have are not, and in those a thing spans two or three times as many pixels.
CUT_SHARE, CUT_PART = 0.5, (0.35, 0.7)
RAY_ROWS, RAY_COLUMNS = 6, 8
CANDIDATES = 24
DULL_SHARE = 0.25  # views taken as they come, so that bare walls and empty roads stay in the data
DEPTH_TASTE = (-3.0, 3.0)  # worth of depth range, drawn for each view: always choosing the deepest would be learned
MIN_SPREAD = 0.05  # of depth, relative to its median
MIN_HIT_SHARE = 0.35
MIN_BRIGHTNESS, MIN_CONTRAST = 9.0, 5.0  # mean and standard deviation of an 8-bit picture
WALL_DISTANCE, WALL_SHARE = 0.3, 0.6
TOO_MANY_EDGES = "too many depth edges"
MAX_EDGES = 0.3  # share of the pixels at depth edges; photographs have 3 %, frames of leaves teach little

# eye [3], unit directions [N, 3] → distances [N] (inf = nothing) and what was hit (None = nothing)
RayCast = Callable[
    [npt.NDArray[np.float64], npt.NDArray[np.float64]], tuple[npt.NDArray[np.float64], Sequence[Hashable]]
]


@dataclass(frozen=True)
class View:
    """A camera that stands: pose is 4×4 camera-to-world with OpenCV axes (x right, y down, z ahead)."""

    pose: npt.NDArray[np.float64]
    intrinsics: npt.NDArray[np.float64]
    width: int
    height: int
    lens: str


def intrinsics(width: int, height: int, degrees: float) -> npt.NDArray[np.float64]:
    """Return the 3×3 matrix of a lens whose larger side spans `degrees`; centers at integers, axis in the middle."""
    focal = max(width, height) / 2 / np.tan(np.radians(degrees) / 2)
    return np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1.0]])


def look_at(eye: Sequence[float], target: Sequence[float], roll: float = 0.0) -> npt.NDArray[np.float64]:
    """Return the pose of a camera at `eye` that looks at `target`, turned by `roll` about its axis."""
    forward = np.asarray(target, dtype=np.float64) - np.asarray(eye, dtype=np.float64)
    forward /= np.linalg.norm(forward)
    # looking straight up or down has no horizon: any side will do
    up = np.array([0.0, 0.0, 1.0]) if abs(forward[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    c, s = np.cos(roll), np.sin(roll)
    pose = np.eye(4)
    pose[:3, 0], pose[:3, 1], pose[:3, 2], pose[:3, 3] = c * right + s * down, c * down - s * right, forward, eye
    return pose


def wide_size(width: int, height: int) -> tuple[int, int]:
    """Return the size of a picture in the shape of 1242×375 with about as many pixels as width × height."""
    ratio = 1242 / 375
    side = np.sqrt(width * height * ratio)
    return round(float(side) / 8) * 8, round(float(side) / ratio / 8) * 8


def draw_view(rng: Rng, spot: Viewpoint, width: int, height: int, wide_driving: float = 0.0) -> View:
    """Draw a view at a viewpoint with a lens of its kind; `wide_driving` is the share of wide driving pictures.

    `CUT_SHARE` of the views are the part of such a picture round a random point of it, as a photograph in more pixels
    would show it: its axis lies beside the middle, or outside.
    """
    wide = rng.random() < wide_driving and spot.lens == "driving"
    size = wide_size(width, height) if wide else (width, height)
    matrix = intrinsics(*size, rng.uniform(*LENSES[spot.lens]))
    if rng.random() < CUT_SHARE:
        part = rng.uniform(*CUT_PART)
        matrix = cut(matrix, size, part, rng.uniform(0, 1 - part, 2))
    return View(look_at(spot.eye, spot.target, spot.roll), matrix, *size, spot.lens)


def cut(
    matrix: npt.NDArray[np.float64], size: tuple[int, int], part: float, corner: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the intrinsics of the window at `corner` (x, y) that spans `part` of each side, shown at `size`."""
    move = np.eye(3)
    move[:2, :2] /= part
    move[:2, 2] = (0.5 - corner * size) / part - 0.5  # pixel centers are integers: x' + ½ = (x − left + ½) / part
    return np.asarray(move @ matrix)


def test_rays(view: View) -> npt.NDArray[np.float64]:
    """Return the directions [R·C, 3] in the world through a coarse grid of pixels, scaled to z-depth 1."""
    v, u = np.meshgrid(
        np.linspace(0.04, 0.96, RAY_ROWS) * (view.height - 1),
        np.linspace(0.04, 0.96, RAY_COLUMNS) * (view.width - 1),
        indexing="ij",
    )
    pixels = np.stack([u.ravel(), v.ravel(), np.ones(u.size)])
    return np.asarray((view.pose[:3, :3] @ np.linalg.inv(view.intrinsics) @ pixels).T)


def score(
    depths: npt.NDArray[np.float64],  # [R·C], z-depth at the test rays, inf = sky
    hits: Sequence[Hashable],
    nearest: float,
    taste: float = 3.0,
) -> float | None:
    """Score how much a view shows (things, depth range times `taste`, little emptiness); None = refused."""
    if depths.min() < nearest:
        return None
    known = depths[np.isfinite(depths)]
    if len(known) < MIN_HIT_SHARE * len(depths) or spread(known) < MIN_SPREAD:
        return None
    far, near = np.percentile(known, (92, 8))
    empty = 1 - len(known) / len(depths)
    things = len({hit for hit in hits if hit is not None})
    return float(min(things, 14) + taste * min(np.log(far / near), 2.5) - 6 * max(0.0, empty - 0.35))


def spread(depths: npt.NDArray[np.floating]) -> float:
    """Return the relative variation of depth: (95th − 5th percentile) / median."""
    low, middle, high = np.percentile(depths, (5, 50, 95))
    return float((high - low) / middle)


def choose_view(
    rng: Rng, scene: Scene, cast: RayCast, width: int, height: int, wide_driving: float = 0.0
) -> View | None:
    """Choose the best of some candidates by their test rays, or the first passable one where a dull view is wanted.

    None: the scene has no passable view among three times as many candidates.
    """
    dull = rng.random() < DULL_SHARE
    taste = float(rng.uniform(*DEPTH_TASTE))
    best: tuple[float, View] | None = None
    for attempt in range(3 * CANDIDATES):
        if best is not None and (dull or attempt >= CANDIDATES):
            break
        view = draw_view(rng, scene.viewpoints(rng), width, height, wide_driving)
        rays = test_rays(view)
        lengths = np.linalg.norm(rays, axis=1)
        distances, hits = cast(view.pose[:3, 3], rays / lengths[:, None])
        worth = score(distances / lengths, hits, scene.nearest, taste)
        if worth is not None:
            worth += rng.normal()
            if best is None or worth > best[0]:
                best = worth, view
    return best[1] if best else None


def fault(
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    depth: npt.NDArray[np.float32],  # [H, W], 0 = sky
) -> str | None:
    """Return why a rendered frame is not kept; None = it is good."""
    known = depth[depth > 0]
    if known.size < 0.3 * depth.size:
        return "mostly sky"
    if spread(known) < MIN_SPREAD:
        return "flat"
    if (known < WALL_DISTANCE).mean() > WALL_SHARE:
        return "a wall before the lens"
    if depth_edges(depth).mean() > MAX_EDGES:
        return TOO_MANY_EDGES
    if image.mean() < MIN_BRIGHTNESS or image.std() < MIN_CONTRAST:
        return "too dark"
    return None
