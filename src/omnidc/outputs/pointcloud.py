"""Depth to points and surfaces: cameras, the edge filter, PLY and GLB."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.files import atomic_path

Array = npt.NDArray[Any]

# A neighbourhood whose depth varies by more than this factor is looked at as a possible edge.
EDGE = 1.06
# Beyond this many vertices a GLB becomes too heavy for viewers; the grid is thinned to it.
GLB_VERTICES = 1_500_000


def check_intrinsics(intrinsics: Any) -> npt.NDArray[np.float64]:
    """Camera matrix 3×3 from itself or from fx, fy, cx, cy; pixel centres at integers."""
    try:
        values = np.asarray(intrinsics, np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape == (4,):
        fx, fy, cx, cy = values
        values = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    if values.shape == (4, 4):
        values = values[:3, :3]
    if values.shape != (3, 3):
        raise InputError("Intrinsics are fx fy cx cy or a 3x3 camera matrix.")
    if not np.isfinite(values).all() or values[0, 0] <= 0 or values[1, 1] <= 0:
        raise InputError(
            f"The camera matrix is singular (fx = {values[0, 0]:g}, fy = {values[1, 1]:g}): "
            "both focal lengths must be positive numbers of pixels."
        )
    if not np.allclose(values[2], (0, 0, 1)) or values[1, 0] != 0:
        raise InputError("The last row of a camera matrix is 0 0 1: is this matrix transposed or a projection?")
    return values


def read_intrinsics(path: str | Path) -> npt.NDArray[np.float64]:
    """A camera matrix from a text, npy or JSON file (keys fx, fy, cx, cy or fl_x, fl_y, cx, cy, or K)."""
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path} does not exist; give --intrinsics as fx,fy,cx,cy or as a file.")
    try:
        if path.suffix.lower() == ".npy":
            values = np.load(path, allow_pickle=False)
        elif path.suffix.lower() == ".json":
            values = _intrinsics_of_json(json.loads(path.read_text(encoding="utf-8")))
        else:
            values = np.array([float(x) for x in path.read_text(encoding="utf-8").replace(",", " ").split()])
            values = values.reshape({9: (3, 3), 16: (4, 4)}.get(values.size, (-1,)))
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise FileError(
            f"{path} holds no camera: write fx fy cx cy, nine numbers of a 3x3 matrix, or JSON with these names."
        ) from error
    return check_intrinsics(values)


def _intrinsics_of_json(data: Any) -> Array:
    if isinstance(data, dict):
        for four in (("fx", "fy", "cx", "cy"), ("fl_x", "fl_y", "cx", "cy")):
            if all(name in data for name in four):
                return np.array([float(data[name]) for name in four])
        names = [name for name in ("K", "intrinsics", "camera_matrix", "intrinsic_matrix") if name in data]
        if not names:
            raise KeyError("K")
        data = data[names[0]]
        if isinstance(data, dict):
            return _intrinsics_of_json(data)
    values = np.array(data, np.float64)
    return values.reshape(3, 3) if values.size == 9 else values


def rays(shape: tuple[int, int], intrinsics: Array) -> npt.NDArray[np.float64]:
    """K⁻¹ (u, v, 1) for every pixel, [H, W, 3] with z = 1."""
    v, u = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    return np.stack([u, v, np.ones_like(u)], -1) @ np.linalg.inv(intrinsics).T


def ray_to_z(
    distance: Array,  # [H, W], along the ray, 0 = none
    intrinsics: Array,
) -> npt.NDArray[np.float32]:
    """Depth along the optical axis from distance along the ray: z = d / ‖K⁻¹ (u, v, 1)‖."""
    norm = np.linalg.norm(rays((distance.shape[0], distance.shape[1]), check_intrinsics(intrinsics)), axis=-1)
    return np.asarray(distance / norm, np.float32)


def unproject(
    depth: Array,  # [H, W], z-depth
    intrinsics: Array,
) -> npt.NDArray[np.float32]:
    """Points in the camera's frame, [H, W, 3]: x right, y down, z forward."""
    direction = rays((depth.shape[0], depth.shape[1]), check_intrinsics(intrinsics))
    return (direction * depth[..., None]).astype(np.float32)


def surface_mask(
    depth: Array,  # [H, W]
    edge: float = EDGE,
) -> npt.NDArray[np.bool_]:
    """True where a pixel belongs to a surface, False for the flying pixels between two of them, and where no depth is.

    A pixel flies where depth varies by more than `edge` within 3×3 and is not plane there. On any plane 1 / depth is
    linear in the pixel, so that a floor seen at a grazing angle varies a lot and still stays.
    """
    valid = np.isfinite(depth) & (depth > 0)
    inverse = np.where(valid, 1 / np.where(valid, depth, 1), 0).astype(np.float32)
    low, high = _extremes(inverse, 1)
    padded = np.pad(inverse, 1, mode="reflect", reflect_type="odd") if min(depth.shape) > 1 else np.pad(inverse, 1)
    centre = padded[1:-1, 1:-1]
    bend = np.zeros_like(centre)
    if min(depth.shape) > 1:
        across = np.abs(padded[1:-1, :-2] - 2 * centre + padded[1:-1, 2:])
        along = np.abs(padded[:-2, 1:-1] - 2 * centre + padded[2:, 1:-1])
        bend = np.maximum(across, along)
    bent = _extremes(np.where(bend > 0.5 * (edge - 1) * np.maximum(low, 1e-30), 1.0, 0.0), 1)[1] > 0
    varies = high > edge * low
    return valid & ~(varies & bent)


def _extremes(values: Array, radius: int) -> tuple[Array, Array]:
    """Smallest and largest value in a square window."""
    import cv2

    kernel = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    values = np.ascontiguousarray(values, np.float32)
    return cv2.erode(values, kernel), cv2.dilate(values, kernel)


def write_ply(
    path: str | Path,
    depth: Array,  # [H, W]
    intrinsics: Array,
    colors: Array,  # uint8 [H, W, 3]
    *,
    keep_edges: bool = False,
) -> int:
    """Write a binary point cloud (camera frame, x right, y down, z forward); return the number of points."""
    keep = _kept(depth, keep_edges)
    vertices = np.empty(int(keep.sum()), [("xyz", "<f4", 3), ("rgb", "u1", 3)])
    vertices["xyz"] = unproject(depth, intrinsics)[keep]
    vertices["rgb"] = colors[keep]
    header = (
        f"ply\nformat binary_little_endian 1.0\ncomment omnidc; camera frame: x right, y down, z forward\n"
        f"element vertex {len(vertices)}\n"
        "property float x\nproperty float y\nproperty float z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n"
    )
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write(header.encode("ascii"))
        stream.write(vertices.tobytes())
    return len(vertices)


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
    keep = _kept(depth, keep_edges)[::step, ::step]
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


def _kept(depth: Array, keep_edges: bool) -> npt.NDArray[np.bool_]:
    return np.isfinite(depth) & (depth > 0) if keep_edges else surface_mask(depth)


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
