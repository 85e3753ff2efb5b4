from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import trimesh

from omnidc.errors import FileError, InputError
from omnidc.geometry.camera import check_intrinsics, ray_to_z, unproject
from omnidc.geometry.surface import surface_mask
from omnidc.io.calibration import read_intrinsics
from omnidc.io.mesh import write_glb
from omnidc.io.pointcloud import write_ply

K = np.array([[100.0, 0, 31.5], [0, 110.0, 23.5], [0, 0, 1]])
SHAPE = (48, 64)


def plane(normal: tuple[float, float, float]) -> np.ndarray:
    """z-depth of the plane n · X = 1."""
    v, u = np.mgrid[: SHAPE[0], : SHAPE[1]]
    rays = np.stack([(u - 31.5) / 100, (v - 23.5) / 110, np.ones(SHAPE)], -1)
    return (1 / (rays @ np.array(normal))).astype(np.float32)


def step() -> np.ndarray:
    depth = np.full(SHAPE, 1.0, np.float32)
    depth[:, 32:] = 3
    depth[:, 32] = 2  # the flying column
    return depth


def test_points_project_back_to_their_pixels() -> None:
    points = unproject(plane((0.1, 0.2, 0.5)), K)
    pixels = points @ K.T
    v, u = np.mgrid[: SHAPE[0], : SHAPE[1]]
    np.testing.assert_allclose(pixels[..., 0] / pixels[..., 2], u, atol=1e-4)
    np.testing.assert_allclose(pixels[..., 1] / pixels[..., 2], v, atol=1e-4)


def test_distance_along_the_ray_becomes_depth() -> None:
    depth = plane((0.1, 0.2, 0.5))
    distance = np.linalg.norm(unproject(depth, K), axis=-1)
    np.testing.assert_allclose(ray_to_z(distance, K), depth, rtol=1e-6)


def test_flying_pixels_are_dropped_and_surfaces_kept() -> None:
    mask = surface_mask(step())
    assert not mask[:, 32].any()
    assert mask[:, :30].all()
    assert mask[:, 35:].all()


@pytest.mark.parametrize("normal", [(0.0, 0.0, 0.5), (0.3, 0.0, 0.12), (0.0, 1.9, 0.42)])
def test_a_plane_has_no_flying_pixels_however_steep(normal: tuple[float, float, float]) -> None:
    depth = plane(normal)
    assert depth.min() > 0
    assert surface_mask(depth).all()


def test_no_depth_is_no_surface() -> None:
    depth = plane((0, 0, 0.5))
    depth[3, 4] = 0
    depth[10, 10] = np.nan
    mask = surface_mask(depth)
    assert not mask[3, 4]
    assert not mask[10, 10]


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1)])
def test_tiny_maps_are_surfaces(shape: tuple[int, int]) -> None:
    assert surface_mask(np.ones(shape, np.float32)).all()


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


def test_glb_is_a_surface_with_y_up_and_z_backward_and_no_bridge_over_the_edge(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "bad",
    [
        (0, 1, 2, 3),
        (1, np.nan, 2, 3),
        (-5, 5, 2, 3),
        (1, 2, 3),
        np.zeros((3, 3)),
        K.T,
        "fx",
        [[1, 0], [0, 1]],
    ],
)
def test_singular_and_malformed_cameras_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        check_intrinsics(bad)


def test_cameras_are_read_from_text_npy_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("100 110 31.5 23.5\n")
    (tmp_path / "b.txt").write_text("\n".join(" ".join(map(str, row)) for row in K))
    np.save(tmp_path / "c.npy", K)
    (tmp_path / "d.json").write_text(json.dumps({"fl_x": 100, "fl_y": 110, "cx": 31.5, "cy": 23.5}))
    (tmp_path / "e.json").write_text(json.dumps({"K": K.tolist()}))
    for path in sorted(tmp_path.iterdir()):
        np.testing.assert_array_equal(read_intrinsics(path), K, err_msg=path.name)


@pytest.mark.parametrize(("name", "text"), [("a.txt", "hello"), ("a.json", "{}"), ("a.json", "["), ("a.npy", "x")])
def test_a_file_without_a_camera_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError, match="camera"):
        read_intrinsics(tmp_path / name)
