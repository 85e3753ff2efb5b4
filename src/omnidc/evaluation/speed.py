"""Speed and memory by resolution, on a scene made by formula: needs no data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from omnidc.evaluation.protocols import EvaluationProtocol
from omnidc.evaluation.published import read_table
from omnidc.evaluation.sample import FrameRef, Sample

SIZES = ((240, 320), (480, 640), (960, 1280), (1280, 1706))
REPEATS = 3
DENSITY = 0.007


def scene(height: int, width: int, seed: int = 0) -> Sample:
    """Make a slanted floor with spheres on it, textured, and 0.7 % random points."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / height
    depth = 6.0 / (0.6 + y)
    for cx, cy, radius in rng.uniform((0.1, 0.2, 0.05), (1.2, 0.9, 0.2), (12, 3)):
        inside = radius**2 - (x - cx) ** 2 - (y - cy) ** 2
        depth = np.where(inside > 0, np.minimum(depth, 4.0 / (0.6 + cy) - np.sqrt(np.maximum(inside, 0))), depth)
    gt_depth = depth.astype(np.float32)
    shade = 0.5 + 0.3 * np.sin(40 * x * depth) * np.cos(40 * y * depth)
    image = (255 * np.clip(np.stack([shade, 1 / depth, 0.3 + 0.1 * depth], axis=-1), 0, 1)).astype(np.uint8)
    sparse = np.where(rng.random(gt_depth.shape) < DENSITY, gt_depth, np.float32(0))
    return Sample(image, sparse, gt_depth, group="formula")


def speed_frames(root: Path, only: str = "") -> Sequence[FrameRef]:
    def reference(height: int, width: int, repeat: int) -> FrameRef:
        def open_() -> Callable[[str], Sample | None]:
            return lambda pattern: scene(height, width, repeat)

        return FrameRef(f"scene-{repeat}", (f"{height}x{width}",), open_)

    # The first run of a method at a size pays for caches and compilation; the mean is over all of them.
    return [reference(*size, repeat) for size in SIZES for repeat in range(REPEATS) if only in f"scene-{repeat}"]


TABLE_G = EvaluationProtocol(
    name="table-g",
    title="Table g: speed and memory by resolution (height x width)",
    rules=(
        "0.7 % random points on a scene made by formula; seconds of wall clock and of CPU time over all threads, mean "
        "of three; memory on top of what the process had (with a GPU: all allocated there, weights included). Networks "
        "run untiled, at the size of the image."
    ),
    patterns=tuple(f"{height}x{width}" for height, width in SIZES),
    frames=speed_frames,
    scores=("seconds", "cpu_seconds", "peak_gb"),
    published=read_table("table-g"),
    total=False,
    needs_data=False,
    memory=True,
    untiled=True,
)
