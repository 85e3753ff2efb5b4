"""Networks in stages: tiles around one integration, and the after-treatment that the network of 0.1 was tuned with."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt
import torch

from omnidc.errors import ConvergenceError
from omnidc.frame import Frame
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.network.interface import StagedNetwork
from omnidc.pipeline.enlarge import enlarge, enlarge_depth
from omnidc.pipeline.legacy.keep import draw_near, pass_through
from omnidc.pipeline.legacy.sharpen import sharpen
from omnidc.pipeline.legacy.tiles import AUTO_PIXELS, TILE, Output, run
from omnidc.pipeline.maps import Maps, working_size
from omnidc.pipeline.options import CompleteOptions, TileOption
from omnidc.pipeline.runner import BATCH

SHARPENED = 2  # times


def run_staged(network: StagedNetwork, frames: Sequence[Frame], options: CompleteOptions) -> list[Maps]:
    """Run frames of any sizes; those of one size run together."""
    max_side = network.max_side if options.max_long_side is None else options.max_long_side
    small = [_shrink(frame, max_side) for frame in frames]
    groups: dict[tuple[int, int], list[int]] = {}
    for k, (_, sparse) in enumerate(small):
        groups.setdefault((sparse.shape[0], sparse.shape[1]), []).append(k)
    results: dict[int, Maps] = {}
    for (height, width), members in groups.items():
        side = _tile_side(options.tile, height * width)
        size = 1 if side is not None else max(1, min(BATCH, AUTO_PIXELS // (height * width)))
        for first in range(0, len(members), size):
            batch = members[first : first + size]
            pictures = torch.stack([torch.from_numpy(small[k][0]).permute(2, 0, 1).float().div_(255) for k in batch])
            points = torch.stack([torch.from_numpy(small[k][1])[None] for k in batch])
            output = run(network, pictures, points, tile=side)
            for position, k in enumerate(batch):
                results[k] = _finish(network, frames[k], small[k][0], output, position, options, side)
    return [results[k] for k in range(len(frames))]


def _finish(
    network: StagedNetwork,
    frame: Frame,
    picture: npt.NDArray[np.uint8],  # [h, w, 3], the image at the working size
    output: Output,
    position: int,
    options: CompleteOptions,
    side: int | None,
) -> Maps:
    sparse = frame.measurements()
    depth = output.depth[position, 0].float().numpy()
    scale = None if output.scale is None else output.scale[position, 0].float().numpy()
    if not np.isfinite(depth).all():
        raise ConvergenceError("The network gave no finite depth for this input: check the unit of the points.")
    cells = output.confidence[position, 0].float().numpy()
    confidence = np.full(sparse.shape, np.nan, np.float32)
    rows, columns = np.nonzero(sparse > 0)
    (H, W), (h, w) = sparse.shape, picture.shape[:2]
    y, x = (rows + 0.5) * h / H, (columns + 0.5) * w / W  # as `resize_sparse_nearest` does
    confidence[rows, columns] = cells[(y / output.stride).astype(int), (x / output.stride).astype(int)]

    tiny = np.finfo(np.float32).tiny
    depth = np.maximum(depth, tiny)
    trusted = np.zeros_like(sparse)
    if options.keep_input == "soft" and network.trusted is not None:
        trusted = np.where(confidence > network.trusted, sparse, np.float32(0))
    points = resize_sparse_nearest(trusted, (h, w))
    depth = draw_near(depth, points)
    for _ in range(SHARPENED if network.sharpen else 0):
        # A median chooses better among depths that are right already; and it moves pixels that had been corrected.
        depth = draw_near(sharpen(depth, picture, points > 0), points)
    depth = enlarge_depth(depth, frame.image)
    if scale is not None:
        scale = enlarge(np.maximum(scale, tiny), sparse.shape)
    if options.keep_input == "hard":
        depth = pass_through(depth, sparse)
    return Maps(
        depth=depth,
        uncertainty=scale,
        confidence=confidence,
        sky=None,
        working_size=(h, w),
        iterations=int(output.info.iterations[position]),
        residual=float(output.info.residuals[-1, position]) if not bool(output.info.converged[position]) else 0.0,
        tile=side,
    )


def _tile_side(tile: TileOption, pixels: int) -> int | None:
    if tile == "auto":
        return TILE if pixels > AUTO_PIXELS else None
    return tile


def _shrink(frame: Frame, max_side: int | None) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    size = working_size(frame.height, frame.width, max_side)
    if size == (frame.height, frame.width):
        return frame.image, frame.measurements()
    picture = np.asarray(cv2.resize(frame.image, size[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    return picture, resize_sparse_nearest(frame.measurements(), size)
