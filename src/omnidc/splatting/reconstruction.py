"""From a COLMAP model and its photographs to views: cameras, pictures, sparse and dense depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import FileError, InputError
from omnidc.evaluation.baselines.interpolation import linear
from omnidc.frame import Frame
from omnidc.geometry.camera import scale_intrinsics
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.io.depth import CODECS, read_depth, write_depth
from omnidc.io.images import SUFFIXES, read_image
from omnidc.pipeline.base import BaseCompleter
from omnidc.sensors.colmap import PLACED_SHARE, ColmapModel
from omnidc.splatting.camera import Camera
from omnidc.splatting.start import ColoredPoints
from omnidc.splatting.view import DepthMap, SplatView

MIN_POINTS = 4  # of a view, for depth to be completed
MAX_UNIT_RATIO = 1.5  # of the depth of given maps to that of the points; more is another unit


@dataclass(frozen=True)
class Reconstruction:
    """The photographs that SfM placed, with their sparse depth, and its points."""

    frames: list[Frame]
    cloud: ColoredPoints
    notes: list[str]


def load_reconstruction(
    model: ColmapModel,
    max_side: int | None = None,  # pixels; larger photographs are shrunk
) -> Reconstruction:
    """Read all registered photographs."""
    names = model.names()
    points, colors = model.colored_points()
    notes = list(model.notes)
    found = [path for path in model.images.rglob("*") if path.suffix.lower() in SUFFIXES]
    if len(names) < PLACED_SHARE * len(found):
        notes.append(
            f"the model placed {len(names)} of the {len(found)} photographs in {model.images}; only these are used "
            "(more overlap between photographs helps COLMAP to place the others)"
        )
    return Reconstruction(
        [shrink_frame(model.frame(name), max_side) for name in names], ColoredPoints(points, colors), notes
    )


def shrink_frame(frame: Frame, max_side: int | None) -> Frame:
    """Return the frame with its longer side at most `max_side` pixels; points move to the nearest pixel."""
    assert frame.intrinsics is not None
    longest = max(frame.height, frame.width)
    if max_side is None or longest <= max_side:
        return frame
    height, width = (max(1, round(side * max_side / longest)) for side in (frame.height, frame.width))
    mask = None
    if frame.mask is not None:
        levels = cv2.resize(frame.mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
        mask = np.asarray(levels > 0)
    return replace(
        frame,
        image=np.asarray(cv2.resize(frame.image, (width, height), interpolation=cv2.INTER_AREA), np.uint8),
        sparse=None if frame.sparse is None else resize_sparse_nearest(frame.sparse, (height, width)),
        intrinsics=scale_intrinsics(frame.intrinsics, width / frame.width, height / frame.height),
        mask=mask,
        original=None,  # of the full size, and large
    )


def bare_view(frame: Frame) -> SplatView:
    """Return the view of a frame without depth."""
    assert frame.intrinsics is not None
    assert frame.pose is not None
    camera = Camera.from_pose(frame.intrinsics, frame.pose, (frame.height, frame.width))
    return SplatView(frame.name, camera, frame.image)


def supervise(
    frames: Iterable[Frame],
    source: BaseCompleter | Path | str,  # a completer, a folder of depth maps, "linear", "sparse" or "none"
    cache: Path | None = None,  # folder for depth that is completed
    reuse: bool = False,  # take from `cache` what is there
    progress: Callable[[str], object] = lambda name: None,
) -> list[SplatView]:
    """Return the views with depth from one source. A view with too few points to complete has none."""
    views = []
    for frame in frames:
        view = bare_view(frame)
        sparse = frame.sparse
        enough = sparse is not None and int((sparse > 0).sum()) >= MIN_POINTS
        if isinstance(source, Path):
            depth = read_map(source, view)
            assert depth is not None
            check_unit(depth, frame.measurements(), view.name, source)
            view = replace(view, depth=depth)
        elif isinstance(source, BaseCompleter):
            if enough:
                view = _completed(view, frame, source, cache, reuse)
        elif source == "linear":
            if enough:
                assert sparse is not None
                view = replace(view, depth=linear(frame.image, sparse))
        elif source == "sparse":
            view = replace(view, depth=sparse)
        elif source != "none":
            raise InputError(f"There is no source of depth {source!r}.")
        views.append(view)
        progress(view.name)
    return views


def check_unit(depth: DepthMap, sparse: DepthMap, name: str, folder: Path) -> None:
    """Refuse maps whose scale is not that of the model: supervision with them would tear the scene apart."""
    both = (sparse > 0) & (depth > 0)
    if int(both.sum()) < MIN_POINTS:
        return
    ratio = float(np.median(depth[both] / sparse[both]))
    if not 1 / MAX_UNIT_RATIO < ratio < MAX_UNIT_RATIO:
        raise InputError(
            f"The depth of {name} in {folder} is {ratio:.3g} times that of the model's points (median): "
            "scale or align the maps to the model."
        )


def _completed(view: SplatView, frame: Frame, completer: BaseCompleter, cache: Path | None, reuse: bool) -> SplatView:
    if cache is None:
        result = completer.complete(frame)
        return replace(view, depth=result.depth, uncertainty=result.uncertainty)
    depth_file, b_file = cache / f"{view.name}.npy", cache / f"{view.name}_uncertainty.npy"
    if reuse and depth_file.is_file():
        uncertainty = read_depth(b_file).depth if b_file.is_file() else None
        return replace(view, depth=read_depth(depth_file).depth, uncertainty=uncertainty)
    made = _completed(view, frame, completer, None, False)
    assert made.depth is not None
    if made.uncertainty is not None:
        write_depth(b_file, made.uncertainty)
    write_depth(depth_file, made.depth)  # last: its presence says that both are there
    return made


def read_map(folder: Path, view: SplatView, required: bool = True) -> DepthMap | None:
    """Read the depth map NAME.npy, .png, .exr … of a view from a folder and bring it to the size of the view.

    Resizing takes the nearest pixel, so that no depth between two surfaces is made up.
    """
    paths = [folder / f"{view.name}{suffix}" for suffix in CODECS]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        if not required:
            return None
        raise FileError(
            f"There is no depth of {view.name} in {folder}: name the maps like the photographs "
            f"({', '.join(sorted(CODECS))})."
        )
    return _resized(read_depth(path).depth, view, path)


def read_sky(folder: Path, view: SplatView) -> npt.NDArray[np.bool_]:
    """Read the sky mask NAME.png of a view, nonzero = sky."""
    path = folder / f"{view.name}.png"
    if not path.is_file():
        raise FileError(f"There is no sky mask {path}: write one for every photograph, white = sky.")
    mask = read_image(path, apply_exif=False).max(axis=2)
    return np.asarray(_resized(mask.astype(np.float32), view, path) > 0)


def _resized(values: DepthMap, view: SplatView, path: Path) -> DepthMap:
    height, width = view.camera.height, view.camera.width
    h, w = values.shape
    if abs(w * height - h * width) > 0.02 * w * height + max(height, width):
        raise InputError(
            f"{path} is {w}x{h} and the photograph {width}x{height} after undistortion and resizing: "
            "the shapes differ, so they cannot show the same view."
        )
    if (h, w) == (height, width):
        return values
    return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_NEAREST_EXACT), dtype=np.float32)
