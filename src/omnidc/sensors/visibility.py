"""Find the points of an SfM model that are visible in a photograph, beyond those matched in it.

A point that was not matched in a photograph may be visible there, or hidden. Nearer points decide little where surfaces
have no texture, such as a road: then points of what lies behind it pierce it. The matched points outline the surface,
so another point between them counts only if it lies near that surface.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import QhullError

from omnidc.geometry.transforms import Array

SURFACE_TOLERANCE = 0.2  # of depth; `benchmarks/visibility.py` has what it costs and gains


def near_observed_surface(
    points: Array,  # [N, 3], camera frame
    K: Array,  # [3, 3]
    is_observed: npt.NDArray[np.bool_],  # [N], matched in this photograph
    tolerance: float = SURFACE_TOLERANCE,
) -> npt.NDArray[np.bool_]:
    """Return which points lie within `tolerance` of the surface that the observed ones outline, [N]; these do always.

    The surface is linear in inverse depth over the Delaunay triangles of the observed points in the image, which is
    exact for planes. Outside their hull there is no surface, and all points pass.
    """
    front = points[:, 2] > 1e-6
    outline = is_observed & front
    z = np.where(front, points[:, 2], 1.0)
    pixels = (points @ K.T)[:, :2] / z[:, None]
    try:
        inverse = LinearNDInterpolator(pixels[outline], 1.0 / z[outline])(pixels)
    except (QhullError, ValueError):  # fewer than three points, or all on one line: no triangle
        return np.ones(len(points), dtype=bool)
    is_outside = np.isnan(inverse)
    difference = np.abs(np.log(z * np.where(is_outside, 1.0 / z, inverse)))
    return np.asarray(is_observed | ~front | (difference <= np.log1p(tolerance)))
