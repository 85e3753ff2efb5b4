"""Contact sheets: photographs above their depth, drawn at random from a folder of frames."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.datasets.shards import open_frames
from omnidc.frame import Frame
from omnidc.io.files import atomic_path


def depth_picture(depth: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Color log depth from its 1st (dark blue) to its 99th percentile (dark red), RGB; unknown and sky are black."""
    known = depth > 0
    if not known.any():
        return np.zeros((*depth.shape, 3), dtype=np.uint8)
    logs = np.log(np.where(known, depth, 1))
    low, high = np.percentile(logs[known], (1, 99))
    scaled = np.clip((logs - low) / max(high - low, 1e-6), 0, 1)
    colored = cv2.applyColorMap((scaled * 255).astype(np.uint8), cv2.COLORMAP_TURBO)
    return np.where(known[..., None], colored[..., ::-1], 0).astype(np.uint8)


def cell(frame: Frame, width: int, height: int) -> npt.NDArray[np.uint8]:
    """Draw one frame for a sheet: photograph over depth, fitted into `width` × 2 · `height` with black borders."""
    assert frame.depth is not None
    scale = min(width / frame.width, height / frame.height)
    size = (max(1, round(frame.width * scale)), max(1, round(frame.height * scale)))
    sheet = np.zeros((2 * height, width, 3), dtype=np.uint8)
    for row, picture in enumerate((frame.image, depth_picture(frame.depth))):
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        sheet[row * height : row * height + size[1], : size[0]] = small
    label = frame.name.rpartition("/")[2]
    cv2.putText(sheet, label, (3, height - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.32, (255, 255, 255), 1, cv2.LINE_AA)
    return sheet


def frame_sheet(
    folder: Path,
    columns: int = 8,
    rows: int = 4,
    width: int = 200,
    seed: int = 0,
    world: str | None = None,
) -> npt.NDArray[np.uint8]:
    """Draw a sheet [H, W, 3] RGB of columns · rows frames without repetition, in the order of their keys."""
    frames = open_frames(folder)
    numbers = [k for k, key in enumerate(frames.keys) if world is None or key.startswith(world)]
    rng = np.random.default_rng(seed)
    picked = sorted(rng.permutation(numbers)[: columns * rows].tolist())
    height = round(width * 0.75)
    cells = [cell(frames[k], width, height) for k in picked]
    blank = np.zeros((2 * height, width, 3), dtype=np.uint8)
    cells += [blank] * (-len(cells) % columns)
    lines = [np.hstack(cells[k : k + columns]) for k in range(0, len(cells), columns)]
    return np.vstack(lines) if lines else blank


def write_sheet(
    folder: Path, output: Path, columns: int = 8, rows: int = 4, seed: int = 0, world: str | None = None
) -> None:
    """Write a contact sheet as an image file."""
    sheet = frame_sheet(folder, columns, rows, seed=seed, world=world)
    with atomic_path(output) as path:
        cv2.imwrite(str(path), sheet[..., ::-1])
