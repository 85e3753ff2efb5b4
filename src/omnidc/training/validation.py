"""Validate a network on held-out scenes while it trains: numbers and a picture."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import ConvergenceError, FileError
from omnidc.frame import Frame
from omnidc.io.files import atomic_path
from omnidc.network.interface import DepthNetwork
from omnidc.patterns import Pattern, parse
from omnidc.pipeline.completer import DepthCompleter

LN20 = math.log(20.0)  # |error| ≤ b ln 20 holds for 95 % of a Laplace distribution


@dataclass(frozen=True)
class Scores:
    """Means over the frames of one pattern; each frame is a mean over the pixels whose depth is known.

    rel: |d − D| / D. delta1: share with max(d / D, D / d) < 1.25. coverage: share within the 95 % interval (NaN for a
    network without uncertainty). log_error: |ln d − ln D|.
    """

    frames: int
    rel: float
    delta1: float
    coverage: float
    log_error: float


def score_frame(
    depth: npt.NDArray[np.float32],  # [H, W] > 0
    scale: npt.NDArray[np.float32] | None,  # [H, W] > 0
    gt_depth: npt.NDArray[np.float32],  # [H, W], 0 = unknown
) -> tuple[float, float, float, float]:
    """Return rel, delta1, coverage and log_error of one frame."""
    valid = gt_depth > 0
    d, t = depth[valid].astype(np.float64), gt_depth[valid].astype(np.float64)
    error = np.abs(d - t)
    coverage = math.nan if scale is None else float((error <= LN20 * scale[valid]).mean())
    log_error = np.abs(np.log(d / t))
    return float((error / t).mean()), float((log_error < math.log(1.25)).mean()), coverage, float(log_error.mean())


def as_users_run_it(network: DepthNetwork) -> DepthCompleter:
    """Return a completer of a copy of the network, in the form in which `omnidc.load` would return its checkpoint."""
    return DepthCompleter(copy.deepcopy(network).eval().for_inference())


def validate(
    network: DepthNetwork,
    frames: Sequence[Frame],  # with dense depth
    patterns: Sequence[str],
    *,
    pictures: int = 0,  # frames to draw
) -> tuple[dict[str, Scores], npt.NDArray[np.uint8] | None]:
    """Return scores per pattern, and a picture [h, w, 3] of the first frames (the pattern changes from row to row).

    Depth is that of `complete`, at the frame's own size, sky kept. The measurements of a frame depend on its name and
    the pattern only, so scores can be compared along a run. A frame without a finite result scores NaN.
    """
    completer = as_users_run_it(network)
    parsed: list[tuple[str, Pattern]] = [(text, parse(text)) for text in patterns]
    results: dict[str, list[tuple[float, float, float, float]]] = {text: [] for text in patterns}
    rows = []
    for number, frame in enumerate(frames):
        gt_depth = frame.depth
        if gt_depth is None or not (gt_depth > 0).any():
            continue
        for place, (text, pattern) in enumerate(parsed):
            rng = np.random.default_rng(zlib.crc32(f"{frame.name}|{text}".encode()))
            sparse = np.ascontiguousarray(pattern(gt_depth, frame.image, rng).sparse, dtype=np.float32)
            try:
                result = completer.complete(
                    frame.image, sparse, max_long_side=max(frame.height, frame.width), sky="keep"
                )
            except ConvergenceError:
                results[text].append((math.nan,) * 4)
                continue
            results[text].append(score_frame(result.depth, result.uncertainty, gt_depth))
            if number < pictures and place == number % len(parsed):
                rows.append(draw_row(frame.image, sparse, result.depth, gt_depth))
    scores = {text: Scores(len(all_), *map(float, np.mean(all_, axis=0))) for text, all_ in results.items() if all_}
    return scores, stack_rows(rows)


def _colorize(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:  # [H, W] in [0, 1] → RGB
    codes = (np.clip(np.nan_to_num(values), 0, 1) * 255).astype(np.uint8)
    return np.asarray(cv2.applyColorMap(codes, cv2.COLORMAP_TURBO), dtype=np.uint8)[..., ::-1]


def draw_row(
    image: npt.NDArray[np.uint8],
    sparse: npt.NDArray[np.float32],
    depth: npt.NDArray[np.float32],
    gt_depth: npt.NDArray[np.float32],
) -> npt.NDArray[np.uint8]:
    """Draw photograph with measurements, prediction, ground truth, relative error (full color = 20 %), side by side."""
    valid = gt_depth > 0
    near, far = np.log(np.percentile(gt_depth[valid], (1, 99)))

    def shade(map_: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
        near_is_bright = 1 - (np.log(np.maximum(map_, 1e-9)) - near) / max(far - near, 1e-6)
        return np.where((map_ > 0)[..., None], _colorize(near_is_bright), np.uint8(0)).astype(np.uint8)

    dots = np.asarray(cv2.dilate(sparse, np.ones((2, 2), np.uint8)), dtype=np.float32)
    overlay = np.where((dots > 0)[..., None], shade(dots), image // 2)
    error = np.where(valid, np.abs(depth - gt_depth) / np.where(valid, gt_depth, 1) / 0.2, 0)
    wrong = np.where(valid[..., None], _colorize(error), np.uint8(0))
    return np.concatenate((overlay, shade(depth), shade(gt_depth), wrong), axis=1).astype(np.uint8)


def stack_rows(rows: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8] | None:
    """Stack rows under each other, all as wide as the narrowest."""
    if not rows:
        return None
    width = min(row.shape[1] for row in rows)
    scaled = [
        cv2.resize(row, (width, round(row.shape[0] * width / row.shape[1])), interpolation=cv2.INTER_AREA)
        for row in rows
    ]
    return np.concatenate(scaled, axis=0).astype(np.uint8)


def write_picture(path: Path, picture: npt.NDArray[np.uint8]) -> None:
    with atomic_path(path) as temporary:
        if not cv2.imwrite(str(temporary), picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92]):
            raise FileError(f"Cannot write {path}.")
