"""Which points of an SfM model a photograph shows, beyond those that were matched in it.

A point that was not matched in a photograph may be visible there, or hidden. Nearer points tell little where surfaces
have no texture, such as a road: then points of what lies behind it pierce it. The matched points outline the surface,
so another point counts only where it lies near that surface.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import KDTree, QhullError

from omnidc.geometry.transforms import Array

SURFACE_TOLERANCE = 0.15  # of depth; 0.1 keeps a tenth fewer points, 0.2 lets a fifth more wrong ones pass
OUTLINE_POINTS = 4  # matched points at least; also how many of the nearest give the depth outside their hull


def near_observed_surface(
    points: Array,  # [N, 3], camera frame
    K: Array,  # [3, 3]
    is_observed: npt.NDArray[np.bool_],  # [N], matched in this photograph
    tolerance: float = SURFACE_TOLERANCE,
) -> npt.NDArray[np.bool_]:
    """Return which points lie within `tolerance` of the surface that the observed ones outline, [N]; these do always.

    Inside the hull of the observed points the surface is linear in inverse depth over their Delaunay triangles, which
    is exact for planes. Outside, it has the median depth of the nearest observed points. With fewer than four
    observed points there is no surface, and all points pass.
    """
    front = points[:, 2] > 1e-6
    outline = is_observed & front
    if int(outline.sum()) < OUTLINE_POINTS:
        return np.ones(len(points), dtype=bool)
    z = np.where(front, points[:, 2], 1.0)
    pixels = (points @ K.T)[:, :2] / z[:, None]
    _, nearest = KDTree(pixels[outline]).query(pixels, k=OUTLINE_POINTS)
    surface = np.median(z[outline][nearest], axis=1)
    try:
        inside = 1.0 / LinearNDInterpolator(pixels[outline], 1.0 / z[outline])(pixels)
    except QhullError:  # all on one line
        inside = np.full(len(points), np.nan)
    surface = np.where(np.isfinite(inside), inside, surface)
    agrees = np.abs(np.log(z / surface)) <= np.log1p(tolerance)
    return np.asarray(outline | (agrees & front))
