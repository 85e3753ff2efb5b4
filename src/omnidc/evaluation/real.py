"""Real photographs with measured depth, in thirteen sparse patterns: the development benchmark.

A folder of `.npz` files with `rgb` uint8 [H, W, 3], `depth` float32 [H, W] (0 = none), and where known `sparse` (what
a real sensor measured) and `K`. Names that begin with `nogt_` have no truth and are left out. Pictures are reduced to
640 pixels on the long side; depth is reduced by letting the nearest surface of each cell win. The sparse input is drawn
from the truth with a generator seeded by the CRC-32 of "image/pattern", so that every method gets the same points; a
frame whose truth covers less than a fifth of the picture is used only with its sensor's own input.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError
from omnidc.evaluation.metrics import Mask, edge_band
from omnidc.evaluation.protocols import SCALE_FACTORS, EvaluationProtocol
from omnidc.evaluation.sample import Depth, FrameRef, Image, Intrinsics, Sample
from omnidc.patterns import parse

LONG_SIDE = 640
MIN_DENSITY = 0.2  # of the truth, to draw patterns from it
MIN_POINTS = 3

SENSOR_GROUP = "real sparse input"
# Group of a frame by how its name begins; rows of the pattern "sensor" are in `SENSOR_GROUP` whatever the frame.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "fine structure": ("middlebury_",),
    "laser": ("eth3d_", "ibims_"),
    "indoor cameras": (
        "7scenes_",
        "azurekinect_",
        "cleargrasp_",
        "nyu_",
        "scannet_",
        "sun3d_",
        "sunrgbd_",
        "tum_",
    ),
    "driving": ("ddad_", "kitti_", "kittilidar_", "vod_", "waymo_"),
    "rendered": ("synth_",),
}


@dataclass(frozen=True)
class Photograph:
    image: Image  # [H, W, 3]
    depth: Depth  # [H, W], 0 = unknown
    sensor: Depth | None  # [H, W], a real sensor's measurement
    intrinsics: Intrinsics | None


# Each pattern in the grammar of `omnidc.patterns`; None is what the real sensor measured.
PATTERNS: Mapping[str, str | None] = {
    "random-0.7%": "0.7%",
    "random-0.1%": "0.1%",
    "random-0.03%": "0.03%",
    "random-5pt": "5",
    "noise-5%": "0.7% & noise(0.05)",
    "noise-10%": "0.7% & noise(0.1)",
    "orb": "orb(3000, harris, fewest=0)",
    "sift": "sift(fewest=0)",
    "lidar-64": "lidar-64(400)",
    "lidar-16": "lidar-16(400)",
    "lidar-8": "lidar-8(400)",
    "hole": "0.7% & hole(0.58)",
    "sensor": None,
}


def group_of(name: str, pattern: str = "") -> str:
    """Return the group a row is counted in: by the beginning of the frame's name, or the sensor's own."""
    if pattern == "sensor":
        return SENSOR_GROUP
    return next((group for group, beginnings in GROUPS.items() if name.startswith(beginnings)), "other")


def shrink_depth(
    depth: Depth,  # [h, w], 0 = unknown
    height: int,
    width: int,
) -> Depth:
    """Scatter the known pixels onto a coarser grid; the nearest surface wins, so no depth is invented."""
    ys, xs = np.nonzero(depth > 0)
    coarse = np.full((height, width), np.inf, np.float32)
    cell = ((ys * height) // depth.shape[0], (xs * width) // depth.shape[1])
    np.minimum.at(coarse, cell, depth[ys, xs])
    coarse[~np.isfinite(coarse)] = 0
    return coarse


def read_photograph(path: Path, long_side: int = LONG_SIDE) -> Photograph:
    try:
        with np.load(path) as file:
            image = file["rgb"]
            depth = _finite(file["depth"])
            sensor = _finite(file["sparse"]) if "sparse" in file.files else None
            intrinsics = file["K"].astype(np.float64) if "K" in file.files else None
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(
            f"Cannot read {path}: it must be an .npz file with rgb uint8 [H, W, 3] and depth [H, W] ({error})."
        ) from error
    _check_shapes(path, image, depth, sensor, intrinsics)
    height, width = depth.shape
    if max(height, width) > long_side:
        scale = long_side / max(height, width)
        new_height, new_width = round(height * scale), round(width * scale)
        image = cv2.resize(image, (new_width, new_height), interpolation=cv2.INTER_AREA)
        depth = shrink_depth(depth, new_height, new_width)
        sensor = None if sensor is None else shrink_depth(sensor, new_height, new_width)
        if intrinsics is not None:
            # Pixel centers are integers, so the corner that stays fixed is (-0.5, -0.5).
            center = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
            resize = np.diag([new_width / width, new_height / height, 1.0])
            intrinsics = np.linalg.inv(center) @ resize @ center @ intrinsics
    return Photograph(image, depth, sensor, intrinsics)


def _finite(depth: npt.NDArray[np.generic]) -> Depth:
    """Convert depth to float32; NaN and infinity become 0 = unknown."""
    return np.nan_to_num(depth.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def _check_shapes(
    path: Path, image: npt.NDArray[np.generic], depth: Depth, sensor: Depth | None, intrinsics: Intrinsics | None
) -> None:
    """Refuse arrays of the wrong type or size with a sentence."""
    if depth.ndim != 2 or image.dtype != np.uint8 or image.shape != (*depth.shape, 3):
        raise FileError(
            f"{path} has rgb {image.dtype} {list(image.shape)} and depth {list(depth.shape)}: "
            "they must be uint8 [H, W, 3] and [H, W]."
        )
    if sensor is not None and sensor.shape != depth.shape:
        raise FileError(f"{path} has sparse {list(sensor.shape)} and depth {list(depth.shape)}: they must be alike.")
    if intrinsics is not None and intrinsics.shape != (3, 3):
        raise FileError(f"{path} has K of shape {list(intrinsics.shape)}: it must be [3, 3].")


def draw(scene: Photograph, name: str, pattern: str, band: Mask | None = None) -> Sample | None:
    """Draw the sparse input of one pattern, the same at every call; None where the pattern does not apply."""
    known = scene.depth > 0
    scored, outlier_mask = known, None
    grammar = PATTERNS[pattern]
    if grammar is not None:
        if known.mean() < MIN_DENSITY:
            return None
        rng = np.random.default_rng(zlib.crc32(f"{name}/{pattern}".encode()))
        drawn = parse(grammar)(scene.depth, scene.image, rng)
        sparse, outlier_mask = drawn.sparse, drawn.outlier_mask
    else:
        if scene.sensor is None:
            return None
        sparse = scene.sensor
        # Pixels that were handed over as input are no test.
        scored = known & ~((sparse > 0) & (np.abs(sparse - scene.depth) < 1e-6))
    if (sparse > 0).sum() < MIN_POINTS:
        return None
    group = group_of(name, pattern)
    return Sample(scene.image, sparse, scene.depth, scene.intrinsics, scored, outlier_mask, band, group)


def real_frames(root: Path, only: str = "") -> Sequence[FrameRef]:
    """List the photographs under `root` whose name contains `only`, in the order of their names."""

    def reference(path: Path) -> FrameRef:
        def open_() -> Callable[[str], Sample | None]:
            scene = read_photograph(path)
            band = edge_band(scene.depth)
            return lambda pattern: draw(scene, path.stem, pattern, band)

        return FrameRef(path.stem, tuple(PATTERNS), open_)

    return [reference(p) for p in sorted(root.glob("*.npz")) if not p.stem.startswith("nogt_") and only in p.stem]


RULES = (
    "Pictures reduced to 640 px on the long side; points drawn from the truth with a seed fixed per image and pattern; "
    "every pixel with a truth counts (for the sensor's own input: those not handed over as input), no depth cap, no "
    "crop; plain mean over images."
)

REAL = EvaluationProtocol(
    name="real",
    title="Real photographs, thirteen sparse patterns",
    rules=RULES,
    patterns=tuple(PATTERNS),
    frames=real_frames,
    groups=(*GROUPS, SENSOR_GROUP),
    scores=(
        *("rel", "rmse", "rmse_median", "delta_1", "edge_rel", "boundary_f1"),
        *("rel_at_input", "coverage_95", "ause", "cpu_seconds"),
    ),
)

SCALES = {f"x{factor:g}": factor for factor in SCALE_FACTORS}
SCALE_PATTERN = "random-0.7%"


def scaled_frames(root: Path, only: str = "") -> Sequence[FrameRef]:
    """List the photographs with `SCALE_PATTERN`, its points and the truth multiplied by each of `SCALES`."""

    def reference(frame: FrameRef) -> FrameRef:
        def open_() -> Callable[[str], Sample | None]:
            sample = frame.open()(SCALE_PATTERN)

            def scaled(pattern: str) -> Sample | None:
                if sample is None:
                    return None
                factor = np.float32(SCALES[pattern])
                return replace(sample, sparse=sample.sparse * factor, gt_depth=sample.gt_depth * factor)

            return scaled

        return FrameRef(frame.name, tuple(SCALES), open_)

    return [reference(frame) for frame in real_frames(root, only)]


SCALE = EvaluationProtocol(
    name="scale",
    title="Scale equivariance: the same points in five units",
    rules=f"{RULES} All depths times the factor; an equivariant method has the same relative scores in every row.",
    patterns=tuple(SCALES),
    frames=scaled_frames,
    groups=tuple(GROUPS),
    scores=("rel", "rmse", "rmse_median", "delta_1"),
    total=False,
)
