"""Prompt Depth Anything (DepthAnything/PromptDA at b05523c, package promptda).

It was made for the dense 192 × 256 map of a phone's laser, not for sparse points: these are interpolated linearly in
log depth and reduced to that size first, which is our choice. PROMPT_DA names the weights,
"depth-anything/prompt-depth-anything-vitl" when it is not set. Sides become multiples of 14.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import cv2
import numpy as np
import torch.nn.functional as F
from examples.adapters.common import depth_tensor, device, image_tensor, result

from omnidc.evaluation.baselines.interpolation import linear
from omnidc.evaluation.sample import Depth, Image, Intrinsics

PROMPT_SIZE = (256, 192)  # width, height
PATCH = 14


@cache
def model() -> Any:
    from promptda.promptda import PromptDA

    name = os.environ.get("PROMPT_DA", "depth-anything/prompt-depth-anything-vitl")
    return PromptDA.from_pretrained(name).to(device()).eval()


def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    prompt = cv2.resize(linear(image, sparse), PROMPT_SIZE, interpolation=cv2.INTER_AREA)
    height, width = sparse.shape
    size = [max(PATCH, round(side / PATCH) * PATCH) for side in (height, width)]
    rgb = F.interpolate(image_tensor(image, (0.0,) * 3, (1.0,) * 3), size, mode="bilinear", antialias=True)
    depth = model().predict(rgb, depth_tensor(np.asarray(prompt, np.float32)))
    depth = depth.reshape(1, 1, *depth.shape[-2:])
    return result(F.interpolate(depth, (height, width), mode="bilinear"), sparse)
