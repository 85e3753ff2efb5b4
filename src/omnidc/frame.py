"""`Frame`: one photograph with what was measured of its depth; what sensors and datasets hand to everyone else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError


@dataclass
class Frame:
    """One view. Arrays share the image's height and width; see docs/conventions.md.

    image: uint8 [H, W, 3], RGB.
    sparse: float32 [H, W], z-depth, 0 = no measurement; None when a pattern is to be drawn from `depth`.
    depth: float32 [H, W], dense truth as far as it is known, 0 = unknown; None outside evaluation and training.
    intrinsics: float64 [3, 3], pixel centres at integers (OpenCV); None = not known.
    pose: float64 [4, 4], camera to world, OpenCV axes; None = not known.
    unit: the unit of `sparse` and `depth` ("m", "mm", or "scene" where the scale is arbitrary, as in SfM).
    name: file-system safe name without suffix, unique within its source; may hold "/" for sub-folders.
    extra: whatever only one reader knows (time stamps, paths); nothing in the package depends on it.
    sky: bool [H, W], True where the sky is visible; None = not known.
    """

    image: npt.NDArray[np.uint8]
    sparse: npt.NDArray[np.float32] | None = None
    depth: npt.NDArray[np.float32] | None = None
    intrinsics: npt.NDArray[np.float64] | None = None
    pose: npt.NDArray[np.float64] | None = None
    unit: str = "m"
    name: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    sky: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if self.image.ndim != 3 or self.image.shape[2] != 3 or self.image.dtype != np.uint8:
            raise InputError(
                f"Frame {self.name!r}: the image must be uint8 [H, W, 3], "
                f"not {self.image.dtype} {list(self.image.shape)}."
            )
        for label in ("sparse", "depth", "sky"):
            array = getattr(self, label)
            if array is not None and array.shape != self.image.shape[:2]:
                raise InputError(
                    f"Frame {self.name!r}: {label} is {array.shape[0]}x{array.shape[1]} but the image is "
                    f"{self.image.shape[0]}x{self.image.shape[1]} (rows x columns); resize one to the other."
                )

    @property
    def height(self) -> int:
        return int(self.image.shape[0])

    @property
    def width(self) -> int:
        return int(self.image.shape[1])
