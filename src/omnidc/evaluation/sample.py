"""Records that all parts of the evaluation share: a sparse input with its truth, and the type of a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Depth = npt.NDArray[np.float32]
Intrinsics = npt.NDArray[np.float64]

# (image uint8 [H, W, 3], sparse float32 [H, W] with 0 = unknown, intrinsics [3, 3] or None) → depth float32 [H, W],
# or an object with `.depth` and `.uncertainty` (`omnidc.Completion`), whose uncertainty is then scored as well.
Method = Callable[[Image, Depth, Intrinsics | None], Any]


@dataclass(frozen=True)
class Sample:
    """One sparse input drawn from (or stored with) one frame."""

    image: Image  # [H, W, 3]
    sparse: Depth  # [H, W], 0 = unknown
    gt_depth: Depth  # [H, W], 0 = unknown
    intrinsics: Intrinsics | None = None
    scored: npt.NDArray[np.bool_] | None = None  # [H, W], pixels that count; None = all with a truth
    outlier_mask: npt.NDArray[np.bool_] | None = None  # [H, W], points of `sparse` known to be wrong
    band: npt.NDArray[np.bool_] | None = None  # [H, W], `edge_band` of the truth; None = not computed yet
    group: str = ""  # kind of scene, for tables by group


@dataclass(frozen=True)
class FrameRef:
    """A frame that a protocol will score, not read yet. `open` reads it and returns the drawer of its sparse inputs.

    The drawer takes the name of a pattern and returns None when that pattern does not apply to the frame.
    """

    name: str
    patterns: tuple[str, ...]
    open: Callable[[], Callable[[str], Sample | None]]
