"""LingBot-Depth (Robbyant/lingbot-depth at 47764da, package mdm), the weights that were tuned for completion.

LINGBOT_DEPTH names the weights, "robbyant/lingbot-depth-postrain-dc-vitl14" when it is not set. No mask is applied,
so that every pixel has a depth.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
from examples.adapters.common import depth_tensor, device, image_tensor, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics


@cache
def model() -> Any:
    from mdm.model.v2 import MDMModel

    name = os.environ.get("LINGBOT_DEPTH", "robbyant/lingbot-depth-postrain-dc-vitl14")
    return MDMModel.from_pretrained(name).to(device()).eval()


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    rgb = image_tensor(image, (0.0,) * 3, (1.0,) * 3)
    return result(model().infer(rgb, depth_in=depth_tensor(sparse)[0], apply_mask=False)["depth"], sparse)
