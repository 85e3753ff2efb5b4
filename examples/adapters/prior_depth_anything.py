"""Prior Depth Anything 1.1 (SpatialVision/Prior-Depth-Anything at 8c029cb, package prior_depth_anything).

It needs at least five points (its K), and says so itself. Weights come from Hugging Face.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from examples.adapters.common import device, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics


@cache
def model() -> Any:
    from prior_depth_anything import PriorDepthAnything

    return PriorDepthAnything(device=str(device()), version="1.1")


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return result(model().infer_one_sample(image=image, prior=sparse, pattern=None), sparse)
