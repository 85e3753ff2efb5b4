"""Meshes of posed views: near the true surface, closed, facing the cameras; thin or missing input in a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.interop import tsdf
from omnidc.interop.tsdf import Volume, fuse_mesh, surface_nets
from posed_views import wall_views


def sphere(radius: float, shape: tuple[int, int, int] = (20, 22, 24), voxel: float = 0.5) -> Volume:
    """A volume with the exact distance to a sphere around its middle."""
    places = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing="ij"), axis=-1) * voxel
    middle = (np.array(shape) - 1) * voxel / 2
    distance = np.linalg.norm(places - middle, axis=-1) - radius
    return Volume(-middle, voxel, distance.astype(np.float32), np.ones(shape, np.float32))


def test_surface_nets_of_a_sphere_is_closed_and_round() -> None:
    vertices, faces = surface_nets(sphere(3.0))
    assert np.abs(np.linalg.norm(vertices, axis=1) - 3.0).max() < 0.1
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert (counts == 2).all()  # closed: every edge has two triangles
    assert len(vertices) - len(counts) + len(faces) == 2  # Euler's formula
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((normals * corners.mean(axis=1)).sum(axis=1) > 0).all()


def test_surface_nets_leave_unknown_voxels_out() -> None:
    volume = sphere(3.0)
    volume.weight[:, :, 12:] = 0
    vertices, faces = surface_nets(volume)
    assert len(faces)
    assert vertices[:, 2].max() < 0.5


def test_fuse_mesh_of_a_wall_lies_on_it(tmp_path: Path) -> None:
    mesh = fuse_mesh(wall_views(tmp_path))
    assert np.abs(mesh.vertices[:, 2] - 3.0).max() < 0.1 * mesh.voxel
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (normals[:, 2] < 0).all()  # toward the cameras
    assert 0 < mesh.colors.mean() < 120  # a mean of the views' grays 0, 40, 80, 120


def test_fuse_mesh_voxel_is_kept_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = wall_views(tmp_path)
    assert fuse_mesh(views, voxel=0.2).voxel == 0.2
    with pytest.raises(InputError, match="raise --voxel"):
        fuse_mesh(views, voxel=1e-4)
    monkeypatch.setattr(tsdf, "MAX_VOXELS", 60_000)
    assert fuse_mesh(views).voxel > 0.12


def test_fuse_mesh_of_one_view_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 2 posed frames"):
        fuse_mesh(wall_views(tmp_path, 1))
