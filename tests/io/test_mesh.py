from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh

from omnidc.geometry.camera import unproject
from omnidc.geometry.surface import surface_mask
from omnidc.io.mesh import write_glb
from omnidc.io.pointcloud import write_ply

K = np.array([[100.0, 0, 31.5], [0, 110.0, 23.5], [0, 0, 1]])
SHAPE = (48, 64)


def step() -> np.ndarray:
    depth = np.full(SHAPE, 1.0, np.float32)
    depth[:, 32:] = 3
    depth[:, 32] = 2  # the flying column
    return depth


@pytest.mark.parametrize(("keep_flying_pixels", "dropped"), [(False, True), (True, False)])
def test_ply_is_read_by_others_and_honours_the_edge_filter(
    keep_flying_pixels: bool, dropped: bool, tmp_path: Path
) -> None:
    colors = np.random.default_rng(0).integers(0, 256, (*SHAPE, 3)).astype(np.uint8)
    doubt = np.random.default_rng(1).random(SHAPE).astype(np.float32)
    count = write_ply(tmp_path / "a.ply", step(), K, colors, doubt, keep_flying_pixels=keep_flying_pixels)
    cloud = trimesh.load(tmp_path / "a.ply")
    assert len(cloud.vertices) == count
    assert (count < step().size) == dropped
    assert bool(np.isclose(cloud.vertices[:, 2], 2).any()) != dropped
    keep = surface_mask(step()) | keep_flying_pixels
    np.testing.assert_allclose(cloud.vertices, unproject(step(), K)[keep], atol=1e-6)
    assert (cloud.colors[:, :3] == colors[keep]).all()
    raw = cloud.metadata["_ply_raw"]["vertex"]["data"]
    np.testing.assert_array_equal(np.ravel(raw["uncertainty"]), doubt[keep])
    facing = np.stack([np.ravel(raw[n]) for n in ("nx", "ny", "nz")], axis=1)
    np.testing.assert_allclose(np.linalg.norm(facing, axis=1), 1, atol=1e-5)
    assert (facing[:, 2] <= 0).all()


def test_glb_has_y_up_and_no_faces_across_edges(tmp_path: Path) -> None:
    colors = np.zeros((*SHAPE, 3), np.uint8)
    count = write_glb(tmp_path / "a.glb", step(), K, colors)
    mesh = trimesh.load(tmp_path / "a.glb").to_geometry()
    assert len(mesh.faces) == count
    np.testing.assert_allclose(mesh.vertices.min(0)[2], -3)
    corner = unproject(step(), K)[0, 0] * (1, -1, -1)
    assert np.isclose(mesh.vertices, corner, atol=1e-5).all(1).any()
    depths = -mesh.vertices[mesh.faces][..., 2]
    assert np.ptp(depths, axis=1).max() < 1e-5
    normals = np.cross(*(mesh.vertices[mesh.faces[:, k]] - mesh.vertices[mesh.faces[:, 0]] for k in (1, 2)))
    assert (normals[:, 2] > 0).all()  # triangles face the camera, which looks along -z
