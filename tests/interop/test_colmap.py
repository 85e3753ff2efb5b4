from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.geometry.surface import depth_normals
from omnidc.interop.colmap import write_dense, write_map
from posed_views import SIZE, K, wall_views


def test_maps_have_colmaps_byte_layout(tmp_path: Path) -> None:
    depth = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_map(tmp_path / "d.bin", depth)
    data = (tmp_path / "d.bin").read_bytes()
    assert data[:6] == b"3&2&1&"
    assert np.frombuffer(data[6:], "<f4").tolist() == [0, 1, 2, 3, 4, 5]
    normals = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
    write_map(tmp_path / "n.bin", normals)
    # COLMAP's own script: Fortran order over (width, height, channels), then transposed
    body = (tmp_path / "n.bin").read_bytes()[6:]
    script = np.frombuffer(body, np.float32).reshape((3, 2, 3), order="F").transpose(1, 0, 2)
    assert np.array_equal(script, normals)


def test_workspace_without_views_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no posed frame"):
        write_dense(tmp_path, [])


def test_normals_of_a_wall_face_the_camera(tmp_path: Path) -> None:
    view = wall_views(tmp_path)[3]
    normals = depth_normals(view.depth(), K)
    world = normals @ view.pose[:3, :3].T
    assert np.allclose(world, [0, 0, -1], atol=1e-3)


def test_normals_ignore_neighbors_without_depth(tmp_path: Path) -> None:
    view = wall_views(tmp_path)[3]
    depth = view.depth().copy()
    depth[10:20, 30:40] = 0
    normals = depth_normals(depth, K)[depth > 0]
    assert np.allclose(normals @ view.pose[:3, :3].T, [0, 0, -1], atol=1e-3)


def test_colmap_itself_fuses_the_workspace(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap")
    views = wall_views(tmp_path, count=6)
    write_dense(tmp_path / "w", views)
    rec = pycolmap.Reconstruction()
    camera = pycolmap.Camera(camera_id=1, model="PINHOLE", width=SIZE[1], height=SIZE[0], params=[60, 60, 32, 24])
    rec.add_camera_with_trivial_rig(camera)
    for i, view in enumerate(views):
        image = pycolmap.Image(name=view.source, keypoints=np.array([[32.0, 24.0]]), camera_id=1, image_id=i + 1)
        camera_from_world = np.linalg.inv(view.pose)[:3]
        rec.add_image_with_trivial_frame(image, pycolmap.Rigid3d(camera_from_world))
    track = pycolmap.Track()
    for i in range(len(views)):
        track.add_element(i + 1, 0)
    rec.add_point3D(np.array([0.0, 0.0, 3.0]), track, np.zeros(3, np.uint8))
    (tmp_path / "w" / "sparse").mkdir()
    rec.write_binary(str(tmp_path / "w" / "sparse"))
    pycolmap.logging.minloglevel = 2
    options = pycolmap.StereoFusionOptions()
    options.num_threads = 1
    options.min_num_pixels = 3
    pycolmap.stereo_fusion(str(tmp_path / "fused.ply"), str(tmp_path / "w"), options=options, output_type="PLY")
    import trimesh

    cloud = trimesh.load(tmp_path / "fused.ply")
    assert len(cloud.vertices) > 1000
    assert np.allclose(cloud.vertices[:, 2], 3.0, atol=1e-2)
