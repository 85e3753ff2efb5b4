"""How good a network is on held-out scenes, in numbers and in a picture, while it trains."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omnidc.errors import FileError
from omnidc.frame import Frame
from omnidc.io.files import atomic_path
from omnidc.network.interface import DepthNetwork
from omnidc.network.normalize import pad_to_multiple
from omnidc.patterns import Pattern, parse

LN20 = math.log(20.0)  # |error| ≤ b ln 20 holds for 95 % of a Laplace distribution


@dataclass(frozen=True)
class Scores:
    """Means over the frames of one pattern; each frame is a mean over the pixels whose truth is known.

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
    truth: npt.NDArray[np.float32],  # [H, W], 0 = unknown
) -> tuple[float, float, float, float]:
    """rel, delta1, coverage and log_error of one frame."""
    known = truth > 0
    d, t = depth[known].astype(np.float64), truth[known].astype(np.float64)
    error = np.abs(d - t)
    coverage = math.nan if scale is None else float((error <= LN20 * scale[known]).mean())
    log_error = np.abs(np.log(d / t))
    return float((error / t).mean()), float((log_error < math.log(1.25)).mean()), coverage, float(log_error.mean())


@torch.no_grad()
def predict(
    network: DepthNetwork, image: npt.NDArray[np.uint8], sparse: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
    """Depth and Laplace scale, both [H, W], of one picture of any size."""
    device = next(network.parameters()).device
    pixels = torch.from_numpy(image).to(device).permute(2, 0, 1)[None].float() / 255
    measured = torch.from_numpy(sparse).to(device)[None, None]
    pixels, measured, (height, width) = pad_to_multiple(pixels, measured, network.multiple, network.padding)
    prediction = network(pixels, measured)

    def crop(map_: Tensor) -> npt.NDArray[np.float32]:
        return np.asarray(map_[0, 0, :height, :width].float().cpu().numpy(), dtype=np.float32)

    return crop(prediction.depth), None if prediction.scale is None else crop(prediction.scale)


def validate(
    network: DepthNetwork,
    frames: Sequence[Frame],  # with dense depth
    patterns: Sequence[str],
    *,
    pictures: int = 0,  # frames to draw
) -> tuple[dict[str, Scores], npt.NDArray[np.uint8] | None]:
    """Scores per pattern, and a picture [h, w, 3] of the first frames (the pattern changes from row to row).

    The measurements of a frame depend on its name and the pattern only, so scores can be compared along a run.
    """
    was_training = network.training
    network.eval()
    parsed: list[tuple[str, Pattern]] = [(text, parse(text)) for text in patterns]
    results: dict[str, list[tuple[float, float, float, float]]] = {text: [] for text in patterns}
    rows = []
    for number, frame in enumerate(frames):
        truth = frame.depth
        if truth is None or not (truth > 0).any():
            continue
        for place, (text, pattern) in enumerate(parsed):
            rng = np.random.default_rng(zlib.crc32(f"{frame.name}|{text}".encode()))
            sparse = np.ascontiguousarray(pattern(truth, frame.image, rng).sparse, dtype=np.float32)
            depth, scale = predict(network, frame.image, sparse)
            results[text].append(score_frame(depth, scale, truth))
            if number < pictures and place == number % len(parsed):
                rows.append(draw_row(frame.image, sparse, depth, truth))
    network.train(was_training)
    scores = {text: Scores(len(all_), *map(float, np.mean(all_, axis=0))) for text, all_ in results.items() if all_}
    return scores, stack_rows(rows)


def _coloured(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:  # [H, W] in [0, 1] → RGB
    codes = (np.clip(np.nan_to_num(values), 0, 1) * 255).astype(np.uint8)
    return np.asarray(cv2.applyColorMap(codes, cv2.COLORMAP_TURBO), dtype=np.uint8)[..., ::-1]


def draw_row(
    image: npt.NDArray[np.uint8],
    sparse: npt.NDArray[np.float32],
    depth: npt.NDArray[np.float32],
    truth: npt.NDArray[np.float32],
) -> npt.NDArray[np.uint8]:
    """Photograph with measurements, prediction, truth, relative error (full colour = 20 %), side by side."""
    known = truth > 0
    near, far = np.log(np.percentile(truth[known], (1, 99)))

    def shade(map_: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
        near_is_bright = 1 - (np.log(np.maximum(map_, 1e-9)) - near) / max(far - near, 1e-6)
        return np.where((map_ > 0)[..., None], _coloured(near_is_bright), np.uint8(0)).astype(np.uint8)

    dots = np.asarray(cv2.dilate(sparse, np.ones((2, 2), np.uint8)), dtype=np.float32)
    overlay = np.where((dots > 0)[..., None], shade(dots), image // 2)
    error = np.where(known, np.abs(depth - truth) / np.where(known, truth, 1) / 0.2, 0)
    wrong = np.where(known[..., None], _coloured(error), np.uint8(0))
    return np.concatenate((overlay, shade(depth), shade(truth), wrong), axis=1).astype(np.uint8)


def stack_rows(rows: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8] | None:
    """Rows under each other, all as wide as the narrowest."""
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
