"""A reader of Wavefront OBJ shapes: only where the triangles are, for sizes and for settling piles."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from omnidc.errors import FileError
from omnidc.scenes.description import Mesh
from omnidc.scenes.primitives import mesh


def read_obj(path: Path) -> Mesh:
    """Read vertices and triangles (polygons are cut into fans); materials, normals and uv are not read."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise FileError(f"Cannot read the model {path}: {error.strerror or error}.") from error
    points = [line.split()[1:4] for line in lines if line.startswith(b"v ")]
    if not points:
        raise FileError(f"The model {path} has no vertices; run `omnidc scenes setup --download` again.")
    vertices = np.array(points, dtype=np.float64)
    triangles: list[tuple[int, int, int]] = []
    for line in lines:
        if line.startswith(b"f "):
            corners = [int(corner.split(b"/")[0]) for corner in line.split()[1:]]
            # negative numbers count from the end of the vertices read so far; files here list vertices first
            corners = [c - 1 if c > 0 else c + len(vertices) for c in corners]
            triangles += [(corners[0], b, c) for b, c in pairwise(corners[1:])]
    return mesh(vertices, triangles=triangles, smooth=True)


def standing(shape: Mesh, size: float) -> Mesh:
    """Scale the mesh to `size` meters along its longest side, standing on z = 0, centered in x and y."""
    low, high = shape.bounds
    center = np.array([(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]])
    scale = size / max(float((high - low).max()), 1e-9)
    return Mesh(
        ((shape.vertices - center) * scale).astype(np.float32), shape.quads, shape.triangles, shape.smooth, shape.uv
    )
