"""The eight orientations of EXIF, for maps, cameras and poses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.geometry.transforms import Array, inverse

Values = TypeVar("Values", bound=np.generic)

# EXIF's number of an orientation: mirrored left to right first, then quarter turns clockwise.
_EXIF = {
    1: (False, 0),
    2: (True, 0),
    3: (False, 2),
    4: (True, 2),
    5: (True, 3),
    6: (False, 1),
    7: (True, 1),
    8: (False, 3),
}


@dataclass(frozen=True)
class Orientation:
    """A turn of the image plane."""

    mirrored: bool = False  # left to right, before the turn
    quarters: int = 0  # clockwise, 0 to 3

    @classmethod
    def of_exif(cls, number: int) -> Orientation:
        """Return the turn of an EXIF tag; numbers that EXIF does not know mean none, as for viewers."""
        return cls(*_EXIF.get(number, (False, 0)))

    def __bool__(self) -> bool:
        """Return True where anything changes."""
        return self.mirrored or self.quarters != 0

    def __str__(self) -> str:
        words = ["mirrored"] if self.mirrored else []
        if self.quarters:
            words.append(f"turned by {('', '90° clockwise', '180°', '90° counterclockwise')[self.quarters]}")
        return " and ".join(words) or "not turned"

    def shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Return height and width after the turn."""
        return (shape[1], shape[0]) if self.quarters % 2 else shape

    def apply(self, values: npt.NDArray[Values]) -> npt.NDArray[Values]:  # [H, W] or [H, W, C]
        """Return a map or picture after the turn."""
        flipped = values[:, ::-1] if self.mirrored else values
        return np.ascontiguousarray(np.rot90(flipped, -self.quarters))

    def undo(self, values: npt.NDArray[Values]) -> npt.NDArray[Values]:  # [H, W] or [H, W, C]
        """Return a turned map or picture as it was before."""
        straight = np.rot90(values, self.quarters)
        return np.ascontiguousarray(straight[:, ::-1] if self.mirrored else straight)

    def rotation(self) -> Array:
        """Return the 4×4 matrix that takes points of the camera to those of the turned one: a turn about z."""
        if self.mirrored:
            raise InputError("The photograph is mirrored by its EXIF tag, which no camera is: give --ignore-exif.")
        x, y = ((1, 0), (0, 1), (-1, 0), (0, -1))[self.quarters]  # where the x axis goes
        return np.array([[x, -y, 0, 0], [y, x, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=np.float64)

    def intrinsics(self, K: Array, shape: tuple[int, int]) -> Array:  # [3, 3]; height and width before the turn
        """Return the camera matrix of the turned picture; skew must be 0."""
        if K[0, 1] != 0:
            raise InputError("A camera with skew cannot be turned as the EXIF tag says: give --ignore-exif.")
        # One clockwise turn takes the pixel (u, v) to (H − 1 − v, u).
        fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]
        self.rotation()  # refuses mirrors
        for _ in range(self.quarters):
            fx, fy, cx, cy = fy, fx, shape[0] - 1 - cy, cx
            shape = (shape[1], shape[0])
        return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])

    def pose(self, pose: Array) -> Array:  # [4, 4], camera to world
        """Return the pose of the turned camera."""
        return pose @ inverse(self.rotation())


UPRIGHT = Orientation()
