"""`Camera`: a pinhole camera that stands somewhere in the world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Camera:
    """Intrinsics in pixels with pixel centers at integers; OpenCV axes (x right, y down, z forward)."""

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int
    view: Array  # [4, 4], world to camera

    @classmethod
    def from_pose(cls, intrinsics: Array, pose: Array, size: tuple[int, int]) -> Camera:
        """Return the camera of a 3×3 matrix and a camera-to-world pose [4, 4]; `size` is height, width."""
        K = np.asarray(intrinsics, dtype=np.float64)
        view = np.linalg.inv(np.asarray(pose, dtype=np.float64))
        return cls(float(K[0, 0]), float(K[1, 1]), float(K[0, 2]), float(K[1, 2]), size[1], size[0], view)

    @property
    def intrinsics(self) -> Array:
        """3×3 matrix, pixel centers at integers."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])

    @property
    def pose(self) -> Array:
        """[4, 4], camera to world."""
        return np.asarray(np.linalg.inv(self.view))

    @property
    def center(self) -> Array:
        """[3], world."""
        return self.pose[:3, 3]
