"""BP-Net (kakaxi314/BP-Net at bb1886b). BP_NET_REPO is a clone with its CUDA op built.

`indoor` reads BP_NET_NYU, `outdoor` reads BP_NET_KITTI: result_ema.pth of the release. Its two data sets are
normalized differently: NYUv2 by ImageNet's colors with depth in tenths of a meter, KITTI by its own colors in meters.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from examples.adapters.common import (
    KITTI_MEAN,
    KITTI_STD,
    depth_tensor,
    device,
    from_environment,
    image_tensor,
    import_from,
    need_intrinsics,
    pad_to,
    result,
)

from omnidc.evaluation.sample import Depth, Image, Intrinsics

NYU_FACTOR = 10.0  # steps per meter


@cache
def model(variable: str) -> Any:
    import_from(from_environment("BP_NET_REPO", "a clone of kakaxi314/BP-Net"))
    from models import Pre_MF_Post

    network = Pre_MF_Post()
    checkpoint = from_environment(variable, "result_ema.pth of BP-Net")
    network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=False)["net"])
    return network.to(device()).eval()


@torch.no_grad()
def _complete(rgb: torch.Tensor, sparse: Depth, K: Intrinsics, variable: str, factor: float) -> Any:
    padded, depth = pad_to(32, rgb, factor * depth_tensor(sparse))
    camera = torch.from_numpy(K.astype(np.float32))[None].to(device())
    return result(model(variable)(padded, depth, camera)[-1], sparse) / np.float32(factor)


def indoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image_tensor(image), sparse, need_intrinsics(intrinsics, "BP-Net"), "BP_NET_NYU", NYU_FACTOR)


def outdoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    rgb = image_tensor(image, KITTI_MEAN, KITTI_STD)
    return _complete(rgb, sparse, need_intrinsics(intrinsics, "BP-Net"), "BP_NET_KITTI", 1.0)
