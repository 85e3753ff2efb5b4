"""COLMAP's dense workspace: depth and normal maps that `colmap stereo_fusion` and the meshers read.

A map file is the text "width&height&channels&" followed by little-endian float32, channel after channel, row by row.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.errors import InputError
from omnidc.geometry.surface import depth_normals
from omnidc.interop.views import PosedView, place_image
from omnidc.io.files import atomic_path


def write_map(
    path: Path,
    values: npt.NDArray[np.floating],  # [H, W] or [H, W, C]
) -> None:
    """Write one depth or normal map."""
    planes = values[..., None] if values.ndim == 2 else values
    height, width, channels = planes.shape
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write(f"{width}&{height}&{channels}&".encode("ascii"))
        stream.write(np.ascontiguousarray(planes.transpose(2, 0, 1), dtype="<f4").tobytes())


def write_dense(
    folder: Path,
    views: list[PosedView],
) -> None:
    """Write images/ and stereo/ (depth and normal maps, fusion.cfg, patch-match.cfg); the model belongs in sparse/."""
    if not views:
        raise InputError("There is no posed frame to export; COLMAP's dense workspace needs poses.")
    for view in views:
        place_image(view, folder / "images")
        depth = view.depth()
        write_map(folder / "stereo" / "depth_maps" / f"{view.source}.geometric.bin", depth)
        normals = depth_normals(depth, view.intrinsics)
        write_map(folder / "stereo" / "normal_maps" / f"{view.source}.geometric.bin", normals)
    (folder / "stereo" / "consistency_graphs").mkdir(parents=True, exist_ok=True)
    files = [view.source for view in views]
    for name, lines in (
        ("fusion.cfg", files),
        ("patch-match.cfg", [line for file in files for line in (file, "__auto__, 20")]),
    ):
        with atomic_path(folder / "stereo" / name) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
