"""ZoeDepth (isl-org/ZoeDepth at d87f17b, through torch.hub), fitted to the points in depth as DN-Splatter does.

ZOE_DEPTH is one of ZoeD_N (NYUv2), ZoeD_K (KITTI), ZoeD_NK (both); ZoeD_NK when it is not set.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
from examples.adapters.common import device
from PIL import Image as PillowImage

from omnidc.evaluation.sample import Depth, Image, Intrinsics
from omnidc.pipeline.alignment import align


@cache
def model() -> Any:
    network = torch.hub.load("isl-org/ZoeDepth", os.environ.get("ZOE_DEPTH", "ZoeD_NK"), pretrained=True)
    return network.to(device()).eval()


def depth(image: Image) -> Any:
    """Depth [H, W] in its own meters; also a `--prior`."""
    return model().infer_pil(PillowImage.fromarray(image))


def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return align(depth(image), sparse, "depth")
