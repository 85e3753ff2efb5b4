from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from omnidc.errors import InputError
from omnidc.frame import Unit
from omnidc.interop.gaussian_splatting import encode_inverse_depth, inverse_depth_scale, write_dn_splatter, write_inria
from omnidc.interop.nerfstudio import write_nerfstudio
from omnidc.interop.views import common_unit
from posed_views import SIZE, K, turned, wall_views


def test_inria_inverse_depth_reads_back_as_the_trainer_reads_it(tmp_path: Path) -> None:
    views = wall_views(tmp_path)
    write_inria(tmp_path / "o", views)
    params = json.loads((tmp_path / "o" / "sparse" / "0" / "depth_params.json").read_text())
    scales = [entry["scale"] for entry in params.values()]
    for view in views:
        # image name without suffix names both the PNG and the entry; ÷ 65536, then scale and offset
        stored = cv2.imread(str(tmp_path / "o" / "depths" / f"{view.source[:-4]}.png"), -1)
        assert stored.dtype == np.uint16
        entry = params[view.source[:-4]]
        # the trainer ignores images whose scale is far from the median
        assert 0.2 * np.median(scales) < entry["scale"] < 5 * np.median(scales)
        inverse = stored.astype(np.float32) / float(2**16) * entry["scale"] + entry["offset"]
        assert np.allclose(inverse, 1 / view.depth(), rtol=1e-3)
        assert (tmp_path / "o" / "images" / view.source).read_bytes() == view.image.read_bytes()


def test_exr_pixel_at_the_lens_keeps_precision(tmp_path: Path) -> None:
    [view, *rest] = wall_views(tmp_path)
    depth = view.depth()
    depth[0, 0] = 1e-4
    write_inria(tmp_path / "o", [replace(view, depth=lambda: depth), *rest])
    scale = json.loads((tmp_path / "o" / "sparse" / "0" / "depth_params.json").read_text())["view0"]["scale"]
    stored = cv2.imread(str(tmp_path / "o" / "depths" / "view0.png"), -1)
    assert stored[0, 0] == 65535
    assert np.allclose(stored[1:] / 65536 * scale, 1 / depth[1:], rtol=1e-3)


def test_dn_splatter_files_keep_the_order_of_images(tmp_path: Path) -> None:
    views = wall_views(tmp_path)
    write_dn_splatter(tmp_path / "o", views)
    files = sorted((tmp_path / "o" / "mono_depth").glob("*_aligned.npy"))
    images = sorted((tmp_path / "o" / "images").iterdir())
    assert [f.name.removesuffix("_aligned.npy") for f in files] == [i.stem for i in images]
    assert np.array_equal(np.load(files[2]), views[2].depth())  # factor 1: the unit of the poses
    with pytest.raises(InputError, match="sub-folders"):
        write_dn_splatter(tmp_path / "p", [replace(views[0], name="left/a")])


def test_nerfstudio_depth_has_the_unit_of_poses(tmp_path: Path) -> None:
    views = wall_views(tmp_path, z=3.0)
    points = np.array([[0.0, 0.0, 3.0]])
    path = write_nerfstudio(tmp_path / "o", views, points, np.array([[1, 2, 3]], np.uint8))
    table = json.loads(path.read_text())
    assert len(table["frames"]) == 4
    for frame in table["frames"]:
        for key in ("file_path", "depth_file_path"):
            assert (path.parent / frame[key]).is_file()
        depth = np.load(path.parent / frame["depth_file_path"]) * 1e-3  # nerfstudio's default factor, also for .npy
        assert depth.shape == (frame["h"], frame["w"])
        # nerfstudio: pixel (x, y) has its center at +0.5; camera looks along -z with y up
        y, x = 10, 50
        ray = np.array([(x + 0.5 - frame["cx"]) / frame["fl_x"], -(y + 0.5 - frame["cy"]) / frame["fl_y"], -1.0])
        world = np.array(frame["transform_matrix"]) @ [*(ray * depth[y, x]), 1.0]
        assert world[2] == pytest.approx(3.0, abs=1e-4)
    import trimesh

    cloud = trimesh.load(path.parent / table["ply_file_path"])
    assert np.allclose(cloud.vertices, points)
    assert cloud.colors[0, :3].tolist() == [1, 2, 3]


def test_exports_without_poses_or_with_mixed_units_are_refused(tmp_path: Path) -> None:
    for write in (write_nerfstudio, write_inria):
        with pytest.raises(InputError, match="no posed frame"):
            write(tmp_path / "o", [])
    views = wall_views(tmp_path)
    with pytest.raises(InputError, match="different units"):
        common_unit([views[0], replace(views[1], unit=Unit.METERS)])


def test_the_test_scene_is_a_plane() -> None:
    pose = turned(0.3, 0.2)
    from posed_views import plane_depth

    depth = plane_depth(pose, 3.0)
    v, u = 5, 7
    local = np.linalg.inv(K) @ [u, v, 1.0] * depth[v, u]
    assert (pose[:3, :3] @ local + pose[:3, 3])[2] == pytest.approx(3.0, abs=1e-5)
    assert depth.shape == SIZE


def test_pixels_without_depth_have_inverse_depth_zero(tmp_path: Path) -> None:
    depth = np.full(SIZE, 2.0, np.float32)
    depth[:, :10] = 0
    view = replace(wall_views(tmp_path)[0], depth=lambda: depth)
    scale = inverse_depth_scale([view])
    stored = encode_inverse_depth(depth, scale)
    assert (stored[:, :10] == 0).all()
    np.testing.assert_allclose(stored[:, 10:] / 65536 * scale, 0.5, rtol=1e-4)
    with pytest.raises(InputError, match="dropped all pixels"):
        inverse_depth_scale([replace(view, depth=lambda: 0 * depth)])
