"""G2-MonoDepth (Wang-xjtu/G2-MonoDepth at 6d449b7). G2_MONODEPTH_REPO is a clone, G2_MONODEPTH_CHECKPOINT its .pth.

The network takes depth in [0, 1]. The paper divides by 20 m indoors and 100 m outdoors, as its authors suggest.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from examples.adapters.common import depth_tensor, device, from_environment, image_tensor, import_from, pad_to, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics

INDOOR, OUTDOOR = 20.0, 100.0  # meters


@cache
def model() -> Any:
    import_from(from_environment("G2_MONODEPTH_REPO", "a clone of Wang-xjtu/G2-MonoDepth"))
    from src.networks import UNet

    network = UNet(rezero=True)
    checkpoint = from_environment("G2_MONODEPTH_CHECKPOINT", "epoch_100.pth of G2-MonoDepth")
    network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=False)["network"])
    return network.to(device()).eval()


@torch.no_grad()
def _complete(image: Image, sparse: Depth, farthest: float) -> Any:
    rgb = image_tensor(image, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    rgb, depth = pad_to(64, rgb, depth_tensor(sparse) / farthest)
    return result(model()(rgb, depth, (depth > 0).float()), sparse) * np.float32(farthest)


def indoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, INDOOR)


def outdoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, OUTDOOR)
