"""`SplatView`: one photograph with its camera and what is known of its depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.splatting.camera import Camera

DepthMap = npt.NDArray[np.float32]  # [H, W], z-depth, 0 = none


@dataclass(frozen=True)
class SplatView:
    """Arrays share the camera's size; depth is z-depth in the unit of the poses."""

    name: str
    camera: Camera
    image: npt.NDArray[np.uint8]  # [H, W, 3], RGB, free of distortion
    depth: DepthMap | None = None  # supervision
    uncertainty: DepthMap | None = None  # Laplace scale b of `depth`; None = equal weights
    sky: npt.NDArray[np.bool_] | None = None  # [H, W], True = sky, where depth is not supervised
    gt_depth: DepthMap | None = None  # truth, for evaluation only

    def __post_init__(self) -> None:
        size = (self.camera.height, self.camera.width)
        for label in ("image", "depth", "uncertainty", "sky", "gt_depth"):
            array = getattr(self, label)
            if array is not None and array.shape[:2] != size:
                raise InputError(
                    f"View {self.name!r}: {label} is {array.shape[1]}x{array.shape[0]} but the camera is "
                    f"{size[1]}x{size[0]}; give maps of the size of the photograph."
                )
        if self.depth is not None and not (np.isfinite(self.depth).all() and (self.depth >= 0).all()):
            raise InputError(f"View {self.name!r}: depth must be finite and not negative; write 0 where there is none.")


def scene_extent(
    points: npt.NDArray[np.floating],  # [P, 3]
    cameras: list[Camera],
) -> float:
    """Return a length to scale rates by: 0.4 of the median distance of the points from the middle of the cameras."""
    middle = np.mean([camera.center for camera in cameras], axis=0)
    return float(0.4 * np.median(np.linalg.norm(points - middle, axis=1)))
