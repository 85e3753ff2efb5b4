"""Scenes of benchmarks/nvs.py: rendered ones, folders with a COLMAP model, and ETH3D; views are split."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidc.datasets.decode import read_raw, valid
from omnidc.datasets.shards import Shards
from omnidc.sensors.colmap import ColmapModel, Filters, open_model
from omnidc.sensors.rgbd import open_recording
from omnidc.splatting.camera import Camera
from omnidc.splatting.experiment import split_views
from omnidc.splatting.reconstruction import bare_view, load_reconstruction
from omnidc.splatting.view import DepthMap, SplatView
from simulated_sfm import SparseModel, simulate

HOLDOUT = {"ample": 5, "sparse": 3, "real": 8}  # every n-th view is held out
SIZES = {"real": 160, "eth3d": 640}  # longer side of photographs, pixels; rendered views stay as they are
ETH3D_SHARE = 1 / 8  # of the views, drawn at random
MAX_DEPTH = {"street": 40.0}  # meters; truth beyond is left out of the depth errors
INDOOR_MAX_DEPTH = 10.0

Truth = Callable[[str], DepthMap | None]  # depth [H, W] in meters of a photograph, by its name in the model


@dataclasses.dataclass(frozen=True)
class Scene:
    """Views of one scene, split, with what SfM knows of the training views."""

    name: str
    train: list[SplatView]
    test: list[SplatView]
    model: SparseModel
    max_depth: float  # meters
    meters: float = 1.0  # length of the model's unit, where a truth in meters says it


def load_views(folder: Path) -> tuple[list[SplatView], str]:
    """All views of a rendered scene with their true depth and sky, and its world."""
    frames = Shards(folder)
    views = []
    for k in range(len(frames)):
        frame = frames[k]
        assert frame.depth is not None
        assert frame.intrinsics is not None
        pose = np.array(frames.meta(k)["pose"])
        camera = Camera.from_pose(frame.intrinsics, pose, frame.depth.shape)
        views.append(SplatView(frames.keys[k], camera, frame.image, gt_depth=frame.depth, sky=frame.sky))
    return views, frames.meta(0)["world"]


def load_rendered(folder: Path, regime: str) -> Scene:
    """A folder of `omnidc scenes render --multiview`, with simulated SfM."""
    views, world = load_views(folder)
    # Held-out views begin at the third, so that the anchor view is for training.
    test = [view for k, view in enumerate(views) if k % HOLDOUT[regime] == 2]
    train = [view for k, view in enumerate(views) if k % HOLDOUT[regime] != 2]
    return Scene(folder.name, train, test, simulate(train), MAX_DEPTH.get(world, INDOOR_MAX_DEPTH))


def load_project(folder: Path, size: int = SIZES["real"]) -> Scene:
    """A folder with images/ and a COLMAP model; sensor depth of 7-Scenes, where it is there, is the truth."""
    model = _open(folder, folder / "images")
    train, test = split_views(model.names(), HOLDOUT["real"], None)
    truth: Truth = lambda name: None  # noqa: E731
    if any((folder / "depth").glob("*.depth.png")):
        recording = open_recording(folder, layout="7scenes")
        truth = lambda name: recording[name.split(".")[0]].measurements()  # noqa: E731
    return _from_model(folder.name, model, train, test, size, truth)


def load_eth3d(folder: Path, size: int = SIZES["eth3d"], split_seed: int = 0) -> Scene:
    """A scene of ETH3D, archives dslr_jpg and dslr_depth; a random eighth of the views is held out, as in the paper.

    The laser's depth belongs to the distorted photographs, so those are read and undistorted here.
    """
    model = _open(folder / "dslr_calibration_jpg", folder / "images")
    names = model.names()
    count = max(1, round(ETH3D_SHARE * len(names)))
    chosen = np.random.default_rng(split_seed).choice(len(names), count, replace=False)
    test = sorted(int(k) for k in chosen)
    train = [k for k in range(len(names)) if k not in test]

    def truth(name: str) -> DepthMap | None:
        path = folder / "ground_truth_depth" / name
        if not path.is_file():
            return None
        camera = model.reconstruction.find_image_with_name(name).camera
        return valid(read_raw(path, camera.height, camera.width), low=1e-5)

    return _from_model(folder.name, model, train, test, size, truth)


def _open(model: Path, images: Path) -> ColmapModel:
    return open_model(model, images, Filters(min_track=2, observed_only=True))


def _from_model(name: str, model: ColmapModel, train: list[int], test: list[int], size: int, truth: Truth) -> Scene:
    """Photographs with a COLMAP model; the points that a photograph observes are its sparse depth.

    SfM has no unit: the median of true depth over that of the points, all photographs together, is its length.
    """
    scene = load_reconstruction(model, size)
    views, ratios = [bare_view(frame) for frame in scene.frames], []
    for k, (file, frame) in enumerate(zip(model.names(), scene.frames)):
        depth = truth(file)
        if depth is not None:
            camera = model.reconstruction.find_image_with_name(file).camera
            views[k] = dataclasses.replace(views[k], gt_depth=undistorted_depth(depth, camera, views[k].camera))
            sparse, known = frame.measurements(), views[k].gt_depth
            both = (sparse > 0) & (known > 0)
            ratios.append(known[both] / sparse[both])
    values = np.concatenate(ratios) if ratios else np.zeros(0)
    meters = float(np.median(values)) if len(values) else 1.0
    for k, view in enumerate(views):
        if view.gt_depth is not None:
            views[k] = dataclasses.replace(view, gt_depth=view.gt_depth / np.float32(meters))
    points = SparseModel(scene.cloud, [scene.frames[k].measurements() for k in train])
    return Scene(name, [views[k] for k in train], [views[k] for k in test], points, np.inf, meters)


def undistorted_depth(depth: DepthMap, lens: Any, camera: Camera) -> DepthMap:
    """Return the depth [H, W] of a photograph, taken with pycolmap's camera `lens`, at the pixels of a pinhole view.

    Undistortion keeps the center and the axis of the camera, so z-depth stays; each pixel takes the nearest one.
    """
    columns, rows = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    pixels = np.stack([columns.ravel(), rows.ravel(), np.ones(columns.size)], axis=1)
    places = np.asarray(lens.img_from_cam(pixels @ np.linalg.inv(camera.intrinsics).T))
    inside = (np.isfinite(places) & (places >= 0) & (places < depth.shape[::-1])).all(axis=1)
    x, y = np.floor(np.where(inside[:, None], places, 0.0)).astype(np.int64).T  # COLMAP's pixel k spans k to k + 1
    found: npt.NDArray[np.float32] = np.where(inside, depth[y, x], np.float32(0))
    return found.reshape(camera.height, camera.width)


def load_scene(folder: Path, regime: str, size: int | None = None, split_seed: int = 0) -> Scene:
    """Load a scene as its regime wants; `size` is for photographs."""
    if regime == "eth3d":
        return load_eth3d(folder, size or SIZES["eth3d"], split_seed)
    if regime == "real":
        return load_project(folder, size or SIZES["real"])
    return load_rendered(folder, regime)
