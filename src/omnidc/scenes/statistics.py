"""Figures that tell a rendered world from photographs: depth histogram, depth edges, bare surfaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.geometry.surface import depth_edges
from omnidc.scenes.camera import spread

WIDTH = 320  # all pictures are compared at this width
BINS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, np.inf)  # meters
EDGE_REACH = 2  # pixels
BARE_WINDOW, BARE_DEVIATION = 7, 3.0  # pixels; gray levels out of 255
SHALLOW = 0.5  # relief below which a frame is shallow
DENSE = 0.6  # share of known depth from which edges are counted


@dataclass(frozen=True)
class Figures:
    """Of one frame or a group. histogram sums to 1 over known pixels; edges is NaN where depth is too sparse.

    relief: (95th − 5th percentile) / median of depth, of a group its median. shallow: share of frames below 0.5.
    """

    frames: int
    histogram: npt.NDArray[np.float64]
    edges: float
    bare: float
    sky: float
    median: float
    brightness: float
    relief: float = float("nan")
    shallow: float = float("nan")


def near_edges(depth: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return [H, W]: True within two pixels of a depth edge."""
    edge = depth_edges(depth).astype(np.uint8)
    return cv2.dilate(edge, np.ones((2 * EDGE_REACH + 1,) * 2, dtype=np.uint8)) > 0


def bare(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return [H, W]: True where gray values deviate by less than 3 of 255 in a 7×7 window."""
    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
    window = (BARE_WINDOW, BARE_WINDOW)
    mean, square = cv2.blur(gray, window), cv2.blur(gray * gray, window)
    return np.asarray(np.maximum(square - mean * mean, 0) < BARE_DEVIATION**2)


def measure(frame: Frame, sky: npt.NDArray[np.bool_] | None = None) -> Figures:
    """Measure the figures of one frame, at a width of 320."""
    assert frame.depth is not None
    image, depth = frame.image, frame.depth
    if frame.width > WIDTH:
        size = (WIDTH, max(1, round(frame.height * WIDTH / frame.width)))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
        depth = np.asarray(cv2.resize(depth, size, interpolation=cv2.INTER_NEAREST), dtype=np.float32)
    known = depth[depth > 0]
    counts = np.histogram(known, BINS)[0].astype(np.float64)
    relief = spread(known) if known.size else float("nan")
    dense = known.size > DENSE * depth.size or sky is not None
    return Figures(
        1,
        counts / max(1, known.size),
        float(near_edges(depth).mean()) if dense else float("nan"),
        float(bare(image).mean()),
        float(sky.mean()) if sky is not None else float("nan"),
        float(np.median(known)) if known.size else float("nan"),
        float(image.mean()),
        relief,
        float("nan") if np.isnan(relief) else float(relief < SHALLOW),
    )


def summarize(figures: Sequence[Figures]) -> Figures:
    """Average over frames, each frame counting the same; NaN are left out."""

    def mean(values: list[float]) -> float:
        known = [value for value in values if not np.isnan(value)]
        return float(np.mean(known)) if known else float("nan")

    # a median, since a single window onto far hills makes a relief of hundreds
    reliefs = [one.relief for one in figures if not np.isnan(one.relief)]
    return Figures(
        len(figures),
        np.mean([one.histogram for one in figures if one.histogram.any()] or [figures[0].histogram], axis=0),
        mean([one.edges for one in figures]),
        mean([one.bare for one in figures]),
        mean([one.sky for one in figures]),
        mean([one.median for one in figures]),
        mean([one.brightness for one in figures]),
        float(np.median(reliefs)) if reliefs else float("nan"),
        mean([one.shallow for one in figures]),
    )


def real_frames(folder: Path) -> Iterable[Frame]:
    """Open the frames of a folder of .npz with `rgb` and `depth` (z-depth, meters, 0 = unknown)."""
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise FileError(f"No .npz with rgb and depth in {folder}.")
    for path in files:
        with np.load(path) as arrays:
            if "rgb" not in arrays or "depth" not in arrays:
                continue
            depth = np.nan_to_num(arrays["depth"].astype(np.float32), posinf=0, neginf=0)
            yield Frame(np.ascontiguousarray(arrays["rgb"][..., :3]), depth=np.maximum(depth, 0), name=path.stem)


def table(rows: Sequence[tuple[str, Figures]]) -> str:
    """Format the figures as a Markdown table."""
    limits = [f"{low:g}–{high:g} m" if np.isfinite(high) else f"> {low:g} m" for low, high in pairwise(BINS)]
    head = ["frames of", "number", *limits, "near edges", "bare", "sky", "median m", "relief", "shallow", "brightness"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]

    def percent(value: float) -> str:
        return "–" if np.isnan(value) else f"{100 * value:.1f} %"

    for name, one in rows:
        cells = [name, str(one.frames), *(percent(share) for share in one.histogram)]
        cells += [percent(one.edges), percent(one.bare), percent(one.sky), f"{one.median:.2f}"]
        cells += [f"{one.relief:.2f}", percent(one.shallow), f"{one.brightness:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
