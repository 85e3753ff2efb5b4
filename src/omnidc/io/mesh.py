"""Depth maps as textured surfaces: GLB (glTF 2.0). Triangle meshes: PLY."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from omnidc.errors import InputError
from omnidc.geometry.camera import unproject
from omnidc.geometry.surface import kept_pixels
from omnidc.io.files import atomic_path

Array = npt.NDArray[Any]

# Beyond this many vertices a GLB becomes too heavy for viewers; the grid is thinned to it.
GLB_VERTICES = 1_500_000


def write_glb(
    path: str | Path,
    depth: Array,  # [H, W]
    intrinsics: Array,
    colors: Array,  # uint8 [H, W, 3]
    *,
    keep_flying_pixels: bool = False,
) -> int:
    """Write a textured surface in glTF's axes (y up, z backward); return the number of triangles.

    The material is unlit: viewers show the photograph as it is.
    """
    import trimesh.exchange.gltf

    library: Any = trimesh  # parts of it have no types
    height, width = depth.shape
    step = max(1, int(np.ceil(np.sqrt(height * width / GLB_VERTICES))))
    keep = kept_pixels(depth, keep_flying_pixels)[::step, ::step]
    positions = (unproject(depth, intrinsics)[::step, ::step] * np.array([1, -1, -1], np.float32))[keep]
    v, u = np.mgrid[:height:step, :width:step]
    texture = np.stack([(u + 0.5) / width, 1 - (v + 0.5) / height], -1)[keep]  # trimesh counts v from below

    index = np.full(keep.shape, -1, np.int64)
    index[keep] = np.arange(keep.sum())
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    triangles = np.concatenate([np.stack([a, c, b], -1).reshape(-1, 3), np.stack([b, c, d], -1).reshape(-1, 3)])
    triangles = triangles[(triangles >= 0).all(1)].astype(np.uint32)
    if not len(triangles):
        raise InputError(f"{path}: the depth map has no surface to write; try PLY or keep_flying_pixels.")
    material = library.visual.material.PBRMaterial(
        baseColorTexture=_Jpeg(colors), metallicFactor=0.0, roughnessFactor=1.0, doubleSided=True
    )
    visual = library.visual.TextureVisuals(uv=texture, material=material)
    mesh = library.Trimesh(positions, triangles, visual=visual, process=False)
    with atomic_path(path) as temporary:
        temporary.write_bytes(library.exchange.gltf.export_glb(mesh.scene(), tree_postprocessor=_unlit))
    return len(triangles)


def write_mesh(
    path: str | Path,
    vertices: Array,  # [V, 3]
    faces: Array,  # [F, 3]
    colors: Array,  # uint8 [V, 3]
) -> None:
    """Write a triangle mesh with colored vertices as binary PLY."""
    import trimesh

    library: Any = trimesh
    mesh = library.Trimesh(vertices.astype(np.float32), faces, vertex_colors=colors, process=False)
    with atomic_path(path) as temporary:
        temporary.write_bytes(mesh.export(file_type="ply"))


class _Jpeg:
    """A picture for trimesh, which would write Pillow's own at a lower quality."""

    format = "JPEG"

    def __init__(self, colors: Array) -> None:
        self.picture = Image.fromarray(colors)

    def save(self, stream: io.BytesIO, format: str) -> None:
        self.picture.save(stream, format=format, quality=92)


def _unlit(tree: dict[str, Any]) -> None:
    """Add the glTF extension for materials without lighting."""
    tree["extensionsUsed"] = ["KHR_materials_unlit"]
    for material in tree["materials"]:
        material["extensions"] = {"KHR_materials_unlit": {}}
