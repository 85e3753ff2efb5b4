"""Point clouds as binary PLY."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnidc.files import atomic_path
from omnidc.geometry.camera import unproject
from omnidc.geometry.surface import depth_normals, kept_pixels


def write_points(
    path: str | Path,
    points: npt.NDArray[np.floating],  # [N, 3]
    colors: npt.NDArray[np.uint8] | None = None,  # [N, 3]
    normals: npt.NDArray[np.floating] | None = None,  # [N, 3]
    uncertainty: npt.NDArray[np.floating] | None = None,  # [N]
    comment: str = "omnidc",
) -> None:
    """Write a binary PLY with whatever is known of each point."""
    fields: list[tuple[str, str, npt.NDArray[np.generic]]] = [
        (axis, "<f4", points[:, i]) for i, axis in enumerate("xyz")
    ]
    if normals is not None:
        fields += [(f"n{axis}", "<f4", normals[:, i]) for i, axis in enumerate("xyz")]
    if colors is not None:
        fields += [(name, "u1", colors[:, i]) for i, name in enumerate(("red", "green", "blue"))]
    if uncertainty is not None:
        fields.append(("uncertainty", "<f4", uncertainty))
    table = np.empty(len(points), dtype=[(name, kind) for name, kind, _ in fields])
    for name, _, values in fields:
        table[name] = values
    lines = ["ply", "format binary_little_endian 1.0", f"comment {comment}", f"element vertex {len(points)}"]
    lines += [f"property {'float' if kind == '<f4' else 'uchar'} {name}" for name, kind, _ in fields]
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write(("\n".join([*lines, "end_header"]) + "\n").encode("ascii"))
        stream.write(table.tobytes())


def write_ply(
    path: str | Path,
    depth: npt.NDArray[np.float32],  # [H, W]
    intrinsics: npt.NDArray[np.float64],
    colors: npt.NDArray[np.uint8],  # [H, W, 3]
    uncertainty: npt.NDArray[np.float32] | None = None,  # [H, W], Laplace scale, unit of the depth
    *,
    keep_edges: bool = False,
) -> int:
    """Write a depth map as points with colours, normals and uncertainty; return their number.

    The frame is the camera's: x right, y down, z forward.
    """
    keep = kept_pixels(depth, keep_edges)
    write_points(
        path,
        unproject(depth, intrinsics)[keep],
        colors[keep],
        depth_normals(depth, intrinsics)[keep],
        None if uncertainty is None else uncertainty[keep],
        "omnidc; camera frame: x right, y down, z forward",
    )
    return int(keep.sum())
