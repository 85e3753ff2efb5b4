"""The focal length that a camera wrote into its photograph (EXIF)."""

from __future__ import annotations

import math
from typing import Any

EXIF_IFD = 0x8769  # the block of the camera's settings
FOCAL_LENGTH = 0x920A  # mm
FOCAL_35MM = 0xA405  # mm on film of 36×24 mm; 0 = unknown
PLANE_RESOLUTION = 0xA20E  # pixels in each unit of the sensor's width
PLANE_UNIT = 0xA210
PIXEL_WIDTH = 0xA002  # of the photograph as it was taken
UNIT_MM = {2: 25.4, 3: 10.0, 4: 1.0, 5: 1e-3}  # of PLANE_UNIT
FILM_DIAGONAL = math.hypot(36.0, 24.0)  # mm
PLAUSIBLE = (0.2, 20.0)  # focal length / longer side: 136° to 3° of view


def exif_focal(
    picture: Any,  # open Pillow picture
) -> float | None:
    """Return the focal length in pixels; None where the tags are missing, damaged or implausible.

    The equivalent on 35 mm film compares diagonals, so that it holds for every shape of the sensor and every size of
    the picture. Without it the focal length in mm and the resolution of the sensor serve. A crop is not noticed.
    """
    size = picture.size
    try:
        tags = picture.getexif().get_ifd(EXIF_IFD)
        focal = float(tags.get(FOCAL_35MM, 0)) / FILM_DIAGONAL * math.hypot(*size)
        if not focal > 0:
            unit = UNIT_MM[int(tags.get(PLANE_UNIT, 2))]
            taken = float(tags.get(PIXEL_WIDTH, size[0])) or size[0]
            focal = float(tags[FOCAL_LENGTH]) * float(tags[PLANE_RESOLUTION]) / unit * size[0] / taken
    except Exception:  # Pillow raises whatever a damaged tag makes it raise
        return None
    low, high = (share * max(size) for share in PLAUSIBLE)
    return focal if low <= focal <= high else None
