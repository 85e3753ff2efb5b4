"""nerfstudio: transforms.json with depth paths.

nerfstudio multiplies what a depth file holds by `depth_unit_scale_factor`, 1e-3 unless changed, also for .npy; the
files therefore hold depth × 1000 in the unit of the poses. Poses are camera to world with OpenGL axes (y up,
z backward), and the principal point counts from the pixel's corner (+0.5).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.geometry.transforms import OPENGL_AXES
from omnidc.interop.views import PosedView, common_unit, place_image
from omnidc.io.depth import write_depth
from omnidc.io.files import atomic_path
from omnidc.io.pointcloud import write_points

UNIT_FACTOR = 1e-3


def write_nerfstudio(
    folder: Path,
    views: list[PosedView],
    points: npt.NDArray[np.float64] | None = None,  # [N, 3], world: where splats start
    colors: npt.NDArray[np.uint8] | None = None,  # [N, 3]
) -> Path:
    """Write images/, depths/ and transforms.json; return the latter's path."""
    if not views:
        raise InputError("There is no posed frame to export; nerfstudio needs poses.")
    common_unit(views)
    frames: list[dict[str, Any]] = []
    for view in views:
        place_image(view, folder / "images")
        write_depth(folder / "depths" / f"{view.name}.npy", view.depth() / UNIT_FACTOR)
        K = view.intrinsics
        frames.append(
            {
                "file_path": f"images/{view.source}",
                "depth_file_path": f"depths/{view.name}.npy",
                "transform_matrix": (view.pose @ OPENGL_AXES).tolist(),
                "fl_x": K[0, 0],
                "fl_y": K[1, 1],
                "cx": K[0, 2] + 0.5,
                "cy": K[1, 2] + 0.5,
                "w": view.size[1],
                "h": view.size[0],
            }
        )
    table: dict[str, Any] = {"camera_model": "OPENCV", "k1": 0.0, "k2": 0.0, "p1": 0.0, "p2": 0.0, "frames": frames}
    if points is not None and len(points):
        write_points(folder / "sparse_pc.ply", points, colors)
        table["ply_file_path"] = "sparse_pc.ply"
    path = folder / "transforms.json"
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(table, indent=2), encoding="utf-8")
    return path
