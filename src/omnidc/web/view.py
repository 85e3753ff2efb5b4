"""Pack a result for the page; apply the sliders to the points."""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from enum import Enum
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.evaluation.baselines.interpolation import linear
from omnidc.frame import Frame
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.geometry.surface import depth_normals, surface_mask
from omnidc.patterns.noise import replace
from omnidc.pipeline import Completion

FIELD_OF_VIEW = 60.0  # degrees across the width, where nobody knows the camera
LONG_SIDE = 800  # of the maps that the page shows; downloads have every pixel
SHOWN_POINTS = 20_000
BAND_ROWS = 256
LOW_CONFIDENCE = 0.5  # points of lower confidence are marked
SEED = 8  # the sliders draw the same points every time


def assumed_camera(shape: tuple[int, ...], field_of_view: float) -> npt.NDArray[np.float64]:
    """Return a camera that looks through the middle of the image, with square pixels."""
    height, width = shape[:2]
    focal = width / 2 / math.tan(math.radians(field_of_view) / 2)
    return np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])


class CameraSource(str, Enum):
    """Where the camera of a view comes from."""

    TYPED = "typed"  # intrinsics, or a field of view
    EXIF = "exif"
    ASSUMED = "assumed"  # FIELD_OF_VIEW


def choose_camera(
    given: Frame,
    field_of_view: float | None,  # degrees across the width, as typed; None = nothing was typed
    exif_focal: float | None,  # pixels
) -> tuple[Frame, CameraSource]:
    """Give the frame a camera: its own intrinsics, else the typed angle, else EXIF's focal length, else a guess."""
    if given.intrinsics is not None:
        return given, CameraSource.TYPED
    source = CameraSource.ASSUMED
    camera = assumed_camera((given.height, given.width), field_of_view or FIELD_OF_VIEW)
    if field_of_view is not None:
        source = CameraSource.TYPED
    elif exif_focal is not None:
        source = CameraSource.EXIF
        camera[0, 0] = camera[1, 1] = exif_focal
    return dataclasses.replace(given, intrinsics=camera), source


def normal_map(
    depth: npt.NDArray[np.float32],  # [H, W], 0 = none
    camera: npt.NDArray[np.float64],  # [3, 3]
) -> npt.NDArray[np.float32]:
    """Return unit normals [H, W, 3] in the camera's frame (x right, y down, z forward); 0 where there is no depth.

    Works on bands of rows, since `depth_normals` takes 200 bytes a pixel.
    """
    height = depth.shape[0]
    normals = np.zeros((*depth.shape, 3), np.float32)
    for start in range(0, height, BAND_ROWS):
        stop = min(height, start + BAND_ROWS)
        first, last = max(0, start - 1), min(height, stop + 1)  # differences reach one row beyond the band
        moved = camera.copy()
        moved[1, 2] -= first
        normals[start:stop] = depth_normals(depth[first:last], moved)[start - first : stop - first]
    normals[depth <= 0] = 0
    return normals


def normal_colors(normals: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:  # [H, W, 3]
    """Return the usual picture of normals: red to the right, green up, blue toward the camera; gray = none."""
    return np.asarray(np.rint(127.5 + 127.5 * normals * np.array([1, -1, -1], np.float32)), np.uint8)


def corrupt_points(given: Frame, keep: float, outliers: float) -> tuple[Frame, int]:
    """Make a share of the points wrong, then keep a share of them; return the frame and how many wrong ones stay.

    A wrong depth is drawn evenly from the range of the right ones. Fewer points are always a subset of more, so that
    the slider takes points away and never exchanges them.
    """
    before = given.measurements()
    at, sparse, warnings = np.flatnonzero(before), before, given.warnings
    if outliers > 0:
        sparse = replace(before, at, before, outliers, np.random.default_rng(SEED))
    if keep < 1:
        lost = np.random.default_rng(SEED + 1).permutation(at)[math.ceil(round(keep * at.size, 6)) :]
        sparse = sparse.copy()
        sparse.reshape(-1)[lost] = 0
        if at.size and not sparse.any():
            warnings = ("All points are switched off: the result is relative depth around 1, without a unit.",)
    wrong = int(((sparse > 0) & (sparse != before)).sum())
    return dataclasses.replace(given, sparse=sparse, warnings=warnings), wrong


def thinned(camera: npt.NDArray[np.float64], step: int) -> npt.NDArray[np.float64]:  # [3, 3]
    """Return the camera of every `step`-th pixel, from the first on."""
    return np.diag([1 / step, 1 / step, 1]) @ camera


def interpolated(result: Completion, shape: tuple[int, int]) -> npt.NDArray[np.float32] | None:
    """Interpolate linearly between the points on a grid of another size; None where there are no points."""
    sparse = result.sparse
    at = np.flatnonzero(sparse)
    if not at.size:
        return None
    if at.size > SHOWN_POINTS:  # the triangulation of a dense map would take longer than the network
        sparse = sparse.copy()
        sparse.reshape(-1)[np.random.default_rng(SEED).permutation(at)[SHOWN_POINTS:]] = 0
    return linear(result.image, resize_sparse_nearest(sparse, shape))


def pack(result: Completion, notes: dict[str, Any]) -> bytes:
    """Pack the length of the header, the header as JSON, then the arrays it lists, all little-endian."""
    height, width = result.depth.shape
    camera = result.intrinsics
    step = max(1, math.ceil(max(height, width) / LONG_SIDE))
    mask = surface_mask(result.depth)
    rows, columns = np.nonzero(result.sparse > 0)
    confidence = result.input_confidence[rows, columns]
    is_low = confidence < LOW_CONFIDENCE
    shown = np.arange(len(rows))
    if len(rows) > SHOWN_POINTS:
        shown = np.sort(np.random.default_rng(SEED).choice(len(rows), SHOWN_POINTS, replace=False))
    points = np.stack([columns, rows, result.sparse[rows, columns], confidence], -1)[shown]
    shown_depth = result.depth[::step, ::step]
    rows_shown, columns_shown = shown_depth.shape
    baseline = interpolated(result, (rows_shown, columns_shown))
    arrays: dict[str, npt.NDArray[Any]] = {
        "depth": shown_depth,
        **({} if result.uncertainty is None else {"uncertainty": result.uncertainty[::step, ::step]}),
        **({} if baseline is None else {"linear": baseline}),
        "points": points,
        **({} if camera is None else {"normals": normal_colors(normal_map(shown_depth, thinned(camera, step)))}),
        "image": np.asarray(cv2.resize(result.image, (columns_shown, rows_shown), interpolation=cv2.INTER_AREA)),
        "surface": mask[::step, ::step],
    }
    stored = {
        name: np.ascontiguousarray(values, "u1" if name in ("image", "surface", "normals") else "<f4")
        for name, values in arrays.items()
    }
    header = {
        "width": width,
        "height": height,
        "step": step,
        "columns": columns_shown,
        "rows": rows_shown,
        "unit": result.unit,
        "relative": result.relative,
        "warnings": result.warnings,
        "model": result.details.model,
        "points": len(rows),
        "low_confidence": int(is_low.sum()),
        "confidence_limit": LOW_CONFIDENCE,
        "camera": None if camera is None else [camera[0, 0], camera[1, 1], camera[0, 2], camera[1, 2]],
        **notes,
        "arrays": [{"name": n, "type": v.dtype.str, "count": int(v.size)} for n, v in stored.items()],
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 4)  # float arrays in JavaScript start at multiples of four
    return struct.pack("<I", len(text)) + text + b"".join(values.tobytes() for values in stored.values())
