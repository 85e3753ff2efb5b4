"""What the loaders of other tools take for granted: centered principal points, order of names, sky, memory."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from natsort import natsorted
from PIL import Image

from omnidc.errors import InputError
from omnidc.geometry.camera import centered_crop
from omnidc.interop.commands import training_command
from omnidc.interop.fusion import dense_cloud, fuse, stride_for
from omnidc.interop.gaussian_splatting import encode_inverse_depth, ordered_names, write_dn_splatter, write_inria
from omnidc.interop.views import posed_views
from omnidc.pipeline.sinks import StoredFrame
from posed_views import SIZE, K, wall_views


@pytest.mark.parametrize(("cx", "cy"), [(31.5, 23.5), (41.5, 23.5), (20.2, 30.9)])
def test_centered_crop_principal_point_is_in_the_middle(cx: float, cy: float) -> None:
    camera = np.array([[60.0, 0.0, cx], [0.0, 60.0, cy], [0.0, 0.0, 1.0]])
    top, left, height, width = centered_crop(camera, SIZE)
    assert abs(cx - left - (width - 1) / 2) <= 0.25
    assert abs(cy - top - (height - 1) / 2) <= 0.25
    assert 0 <= left <= left + width <= SIZE[1]
    assert 0 <= top <= top + height <= SIZE[0]


def test_centered_crop_axis_outside_is_a_sentence() -> None:
    with pytest.raises(InputError, match="more than half"):
        centered_crop(np.array([[60.0, 0.0, 62.0], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]]), SIZE)


def test_inria_off_center_points_land_where_its_loader_puts_them(tmp_path: Path) -> None:
    """The loader knows focal length and size only; a wall of constant depth gradient must unproject to its plane."""
    off = K.copy()
    off[0, 2] += 10.0
    view = replace(wall_views(tmp_path)[3], intrinsics=off)
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]].astype(np.float64)
    rays = np.stack([columns, rows, np.ones_like(rows)], -1) @ np.linalg.inv(off).T
    depth = ((3.0 - view.pose[2, 3]) / (rays @ view.pose[2, :3])).astype(np.float32)
    write_inria(tmp_path / "o", [replace(view, depth=lambda: depth)])
    stored = cv2.imread(str(tmp_path / "o" / "depths" / "view3.png"), -1)
    picture = np.asarray(Image.open(tmp_path / "o" / "images" / "view3.png"))
    assert picture.shape[:2] == stored.shape == (48, 44)
    scale = json.loads((tmp_path / "o" / "sparse" / "0" / "depth_params.json").read_text())["view3"]["scale"]
    z = 65536 / (stored * scale)
    v, u = np.mgrid[: stored.shape[0], : stored.shape[1]].astype(np.float64)
    local = np.stack([(u + 0.5 - stored.shape[1] / 2) / 60 * z, (v + 0.5 - stored.shape[0] / 2) / 60 * z, z], -1)
    world = local @ view.pose[:3, :3].T + view.pose[:3, 3]
    assert np.allclose(world[..., 2], 3.0, rtol=2e-3)


def test_encode_inverse_depth_sky_is_zero() -> None:
    codes = encode_inverse_depth(np.array([[0.0, 2.0]], np.float32), 1.0)
    assert codes.tolist() == [[0, 32768]]


def test_dn_splatter_names_that_sort_differently_are_renamed(tmp_path: Path) -> None:
    files = ["shot_0", "shot_0_2", "shot_10", "shot_9"]
    views = [
        replace(view, name=name, source=f"{name}.png", depth=lambda k=k: np.full(SIZE, 1.0 + k, np.float32))
        for k, (view, name) in enumerate(zip(wall_views(tmp_path), files))
    ]
    write_dn_splatter(tmp_path / "o", views)
    images = natsorted(path.name for path in (tmp_path / "o" / "images").iterdir())
    depths = natsorted(path.name for path in (tmp_path / "o" / "mono_depth").iterdir())
    assert images == sorted(images)
    renamed = ordered_names(views)
    for image, depth in zip(images, depths):
        [view] = [view for view in views if renamed[view.source] == image]
        assert np.array_equal(np.load(tmp_path / "o" / "mono_depth" / depth), view.depth())


def test_ordered_names_that_sort_alike_are_kept(tmp_path: Path) -> None:
    views = wall_views(tmp_path)
    assert ordered_names(views) == {view.source: view.source for view in views}


def test_stride_for_bounds_the_pixels_that_are_fused(tmp_path: Path) -> None:
    views = wall_views(tmp_path)
    assert stride_for(views) == 1
    stride = stride_for(views, 1000)
    assert stride > 1
    assert len(fuse(views, stride=stride).points) <= 1000


def test_dense_cloud_points_lie_on_the_wall_and_are_seen(tmp_path: Path) -> None:
    cloud, seen = dense_cloud(wall_views(tmp_path), count=300)
    assert 50 < len(cloud.points) <= 300
    assert np.allclose(cloud.points[:, 2], 3.0, atol=1e-2)
    assert seen.shape == (len(cloud.points), 4)
    assert np.median(seen.sum(axis=1)) >= 3


def test_training_commands_use_the_depth() -> None:
    folder = Path("a folder")
    assert "depth-nerfacto --data 'a folder'" in training_command("nerfstudio", folder)[0]
    assert "-d depths" in training_command("inria", folder)[0]
    assert "--data_factor 1" in training_command("colmap-dense-points", folder)[0]


def dn_splatter_options(folder: str) -> tuple[dict[str, str], dict[str, str]]:
    """Options of the method and of its data parser in the printed command."""
    words = shlex.split(training_command("dn-splatter", Path(folder))[0].removeprefix("train with "))
    assert words[:2] == ["ns-train", "dn-splatter"]
    parser = words.index("coolermap")
    method, data = words[2:parser], words[parser + 1 :]
    return dict(zip(method[::2], method[1::2])), dict(zip(data[::2], data[1::2]))


def test_dn_splatter_command_switches_depth_on_and_normals_off() -> None:
    method, data = dn_splatter_options("a folder")
    start = "--pipeline.model."
    assert method[f"{start}use-depth-loss"] == "True"
    assert float(method[f"{start}depth-lambda"]) > 0  # asserted by its model
    assert method[f"{start}use-normal-loss"] == "False"  # there are no normals, and it is on by default
    assert len(method) == 3
    assert data == {"--data": "a folder", "--depth-mode": "mono"}


@pytest.mark.skipif("OMNIDC_DN_SPLATTER" not in os.environ, reason="OMNIDC_DN_SPLATTER does not name its repository")
def test_dn_splatter_command_has_options_of_its_configuration() -> None:
    root = Path(os.environ["OMNIDC_DN_SPLATTER"]) / "dn_splatter"
    model, parser = (root / "dn_model.py").read_text(), (root / "data" / "coolermap_dataparser.py").read_text()
    method, data = dn_splatter_options("a folder")
    for option in method:
        assert re.search(rf"^    {option.rpartition('.')[2].replace('-', '_')}: ", model, re.MULTILINE), option
    assert re.search(r"^    depth_mode: Literal\[.*mono", parser, re.MULTILINE)
    assert set(data) == {"--data", "--depth-mode"}  # every parser of nerfstudio has --data


@pytest.mark.parametrize("export", ["nerfstudio", "dn-splatter"])
def test_bridges_page_has_the_printed_command(export: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "bridges.md").read_text(encoding="utf-8")
    command = training_command(export, Path("out") / export)[0].removeprefix("train with  ")
    assert f"`{command}`" in page


@pytest.mark.parametrize("measured", [False, True])
def test_posed_views_sky_has_no_depth(measured: bool) -> None:
    """Whatever --sky put there; a pixel that was measured with confidence is not sky."""
    depth = np.full(SIZE, 7.0, np.float32)
    sky = np.zeros(SIZE, np.float32)
    sky[:10] = 1.0
    confidence = np.full(SIZE, np.nan, np.float32)
    if measured:
        confidence[3, 4] = 0.9
    stored = StoredFrame(
        "a", "a.png", Path("a.png"), lambda: depth, SIZE, intrinsics=K, pose=np.eye(4), sky=lambda: sky,
        input_confidence=lambda: confidence,
    )  # fmt: skip
    found = posed_views([stored])[0].depth()
    assert (found[10:] == 7.0).all()
    assert (found[:10] == 0).sum() == 10 * SIZE[1] - measured
    assert (found[3, 4] > 0) == measured
    assert (posed_views([replace(stored, sky=None)])[0].depth() == 7.0).all()
