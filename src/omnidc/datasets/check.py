"""`omnidc data check`: what a dataset on disk looks like, in a few lines and one picture."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.io.files import atomic_path

Picture = npt.NDArray[np.uint8]


def describe(frame: Frame) -> list[str]:
    """Describe one frame in lines: size, camera, and the distribution of its depths."""
    lines = [f"frame      {frame.name or '(no name)'}, {frame.width}x{frame.height}, unit {frame.unit}"]
    if frame.intrinsics is not None:
        K = frame.intrinsics
        lines.append(f"camera     fx {K[0, 0]:.2f}  fy {K[1, 1]:.2f}  cx {K[0, 2]:.2f}  cy {K[1, 2]:.2f}")
    else:
        lines.append("camera     not known")
    lines += [statistics("truth", frame.depth), statistics("sparse", frame.sparse)]
    if frame.unit_reason:
        lines.append(f"scale      {frame.unit_reason}")
    return lines


def statistics(label: str, depth: npt.NDArray[np.float32] | None) -> str:
    """Return the share of known pixels and the spread of their depths."""
    if depth is None:
        return f"{label:<10} none in this dataset"
    known = depth[depth > 0]
    if known.size == 0:
        return f"{label:<10} no known pixel"
    low, p5, p50, p95, high = np.percentile(known, [0, 5, 50, 95, 100])
    return (
        f"{label:<10} {known.size} of {depth.size} pixels ({100 * known.size / depth.size:.2f} %), min {low:.3f}  "
        f"5 % {p5:.3f}  median {p50:.3f}  95 % {p95:.3f}  max {high:.3f}"
    )


def picture(frame: Frame) -> Picture:
    """Draw RGB | sparse | depth side by side, depths in one color scale (logarithmic, near = red), unknown = black."""
    known = [d[d > 0] for d in (frame.sparse, frame.depth) if d is not None]
    values = np.concatenate(known) if known else np.empty(0, np.float32)
    low, high = np.percentile(values, [2, 98]) if values.size else (1.0, 2.0)
    panels = [frame.image]
    if frame.sparse is not None:
        # Single pixels vanish when the picture is shown smaller: draw every point a little larger.
        reach = max(1, round(min(frame.height, frame.width) / 240)) * 2 + 1
        points = np.asarray(cv2.dilate(frame.sparse, np.ones((reach, reach), np.uint8)), dtype=np.float32)
        panels.append(color(points, low, high))
    if frame.depth is not None:
        panels.append(color(frame.depth, low, high))
    return np.concatenate(panels, axis=1)


def color(depth: npt.NDArray[np.float32], low: float, high: float) -> Picture:
    """Color depth [H, W] as RGB; log scale between `low` and `high`."""
    span = max(float(np.log(high / low)), 1e-6)
    share = np.log(np.maximum(depth, 1e-12) / low) / span
    index = np.clip(255 * (1 - share), 0, 255).astype(np.uint8)
    rgb = cv2.cvtColor(cv2.applyColorMap(index, cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB)
    rgb[depth <= 0] = 0
    return np.asarray(rgb, dtype=np.uint8)


def write_picture(path: Path, image: Picture) -> None:
    """Write a picture by its suffix (png or jpg)."""
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise FileError(f"Cannot write a picture to {path}: its name should end in .png or .jpg.")
    with atomic_path(path) as temporary:
        Image.fromarray(image).save(temporary)
