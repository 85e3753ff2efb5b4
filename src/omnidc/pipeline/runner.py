"""The one way from frames to maps: NumPy to tensors, one call of the network, tensors to NumPy.

A network takes images and measurements at the size of the output and a working size, and returns maps of the output
size (`DepthNetwork.forward`). Networks in stages (the paper's) know one size only: `omnidc.pipeline.staged` runs them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from omnidc.errors import ConvergenceError
from omnidc.frame import Frame
from omnidc.network.interface import DepthNetwork, StagedNetwork
from omnidc.pipeline.maps import FloatMap, Maps, working_size
from omnidc.pipeline.options import CompleteOptions
from omnidc.pipeline.staged import run_staged, tile_side

BATCH = 4  # images of one size that run together
BATCH_PIXELS = 2_100_000  # at most so many pixels at the working size: about Full HD
BATCH_OUTPUT = 12_000_000  # and so many of the output


def run(network: DepthNetwork, frames: Sequence[Frame], options: CompleteOptions) -> list[Maps]:
    """Run frames of any sizes; those of one size run together."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, frame in enumerate(frames):
        groups.setdefault((frame.height, frame.width), []).append(index)
    max_side = network.max_side if options.max_long_side is None else options.max_long_side
    results: dict[int, Maps] = {}
    for (height, width), members in groups.items():
        size = working_size(height, width, max_side)
        tile = tile_side(options.tile, size) if isinstance(network, StagedNetwork) else None
        together = max(1, min(BATCH, BATCH_PIXELS // (size[0] * size[1]), BATCH_OUTPUT // (height * width)))
        if tile is not None:
            together = 1  # tiles bound the memory
        for first in range(0, len(members), together):
            batch = members[first : first + together]
            maps = _run_batch(network, [frames[k] for k in batch], size, tile, options.keep_input == "hard")
            results.update(zip(batch, maps))
    return [results[index] for index in range(len(frames))]


def _run_batch(
    network: DepthNetwork, frames: Sequence[Frame], size: tuple[int, int], tile: int | None, keep_input: bool
) -> list[Maps]:
    images = torch.stack([torch.from_numpy(frame.image).permute(2, 0, 1).float().div_(255) for frame in frames])
    sparse = torch.stack([torch.from_numpy(frame.measurements())[None] for frame in frames])
    with torch.inference_mode():
        if isinstance(network, StagedNetwork):
            out = run_staged(network, images, sparse, size, keep_input, tile)
        else:
            device = next(network.parameters(), torch.empty(0)).device
            out = network(images.to(device), sparse.to(device), working_size=size, keep_input=keep_input)
    tiny = float(np.finfo(np.float32).tiny)
    results = []
    for k in range(len(frames)):
        depth = _array(out.depth[k, 0].clamp_min(tiny))
        if not np.isfinite(depth).all():
            raise ConvergenceError("The network gave no finite depth for this input: check the unit of the points.")
        measured = sparse[k, 0].numpy() > 0
        results.append(
            Maps(
                depth=depth,
                uncertainty=None if out.laplace_scale is None else _array(out.laplace_scale[k, 0].clamp_min(tiny)),
                confidence=np.where(measured, _array(out.fields.confidence[k, 0]), np.float32(np.nan)),
                sky=None if out.sky is None else _array(out.sky[k, 0].sigmoid()),
                working_size=size,
                iterations=int(out.info.iterations[k]),
                residual=float(out.info.residuals[-1, k]),
                tile=tile,
            )
        )
    return results


def _array(values: Tensor) -> FloatMap:
    return np.asarray(values.float().cpu().numpy(), dtype=np.float32)
