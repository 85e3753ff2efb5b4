"""Depth maps as textured surfaces: GLB, the container of glTF 2.0."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
    keep_edges: bool = False,
) -> int:
    """Write a textured surface in glTF's axes (y up, z backward); return the number of triangles.

    The material is unlit: viewers show the photograph as it is.
    """
    height, width = depth.shape
    step = max(1, int(np.ceil(np.sqrt(height * width / GLB_VERTICES))))
    keep = kept_pixels(depth, keep_edges)[::step, ::step]
    positions = (unproject(depth, intrinsics)[::step, ::step] * np.array([1, -1, -1], np.float32))[keep]
    v, u = np.mgrid[:height:step, :width:step]
    texture = np.stack([(u + 0.5) / width, (v + 0.5) / height], -1).astype(np.float32)[keep]

    index = np.full(keep.shape, -1, np.int64)
    index[keep] = np.arange(keep.sum())
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    triangles = np.concatenate([np.stack([a, c, b], -1).reshape(-1, 3), np.stack([b, c, d], -1).reshape(-1, 3)])
    triangles = triangles[(triangles >= 0).all(1)].astype(np.uint32)
    if not len(triangles):
        raise InputError(f"{path}: the depth map has no surface to write; try PLY or keep_edges.")
    with atomic_path(path) as temporary:
        temporary.write_bytes(_glb(positions, texture, triangles, _jpeg(colors)))
    return len(triangles)


def _jpeg(colors: Array) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(colors).save(buffer, format="JPEG", quality=92)
    return buffer.getvalue()


def _glb(positions: Array, texture: Array, triangles: Array, jpeg: bytes) -> bytes:
    """The container of glTF 2.0: a JSON chunk that describes a binary chunk of four parts."""
    parts = [positions.tobytes(), texture.tobytes(), triangles.tobytes(), jpeg]
    views: list[dict[str, int]] = []
    binary = b""
    for part, target in zip(parts, (34962, 34962, 34963, None)):
        view = {"buffer": 0, "byteOffset": len(binary), "byteLength": len(part)}
        views.append(view if target is None else {**view, "target": target})
        binary += part + b"\0" * (-len(part) % 4)
    floats, integers = 5126, 5125
    scene = {
        "asset": {"version": "2.0", "generator": "omnidc"},
        "extensionsUsed": ["KHR_materials_unlit"],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [
            {"primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2, "material": 0, "mode": 4}]}
        ],
        "materials": [
            {
                "pbrMetallicRoughness": {
                    "baseColorTexture": {"index": 0},
                    "metallicFactor": 0.0,
                    "roughnessFactor": 1.0,
                },
                "doubleSided": True,
                "extensions": {"KHR_materials_unlit": {}},
            }
        ],
        "textures": [{"source": 0}],
        "images": [{"bufferView": 3, "mimeType": "image/jpeg"}],
        "accessors": [
            {
                "bufferView": 0,
                "componentType": floats,
                "count": len(positions),
                "type": "VEC3",
                "min": positions.min(0).tolist(),
                "max": positions.max(0).tolist(),
            },
            {"bufferView": 1, "componentType": floats, "count": len(texture), "type": "VEC2"},
            {"bufferView": 2, "componentType": integers, "count": triangles.size, "type": "SCALAR"},
        ],
        "bufferViews": views,
        "buffers": [{"byteLength": len(binary)}],
    }
    text = json.dumps(scene, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    header = struct.pack("<4sII", b"glTF", 2, 12 + 8 + len(text) + 8 + len(binary))
    return b"".join(
        [header, struct.pack("<I4s", len(text), b"JSON"), text, struct.pack("<I4s", len(binary), b"BIN\0"), binary]
    )
