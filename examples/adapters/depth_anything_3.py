"""Depth Anything 3 (ByteDance-Seed/Depth-Anything-3 at 2c21ea8, package depth_anything_3), fitted in depth.

DEPTH_ANYTHING_3 names the weights: a Hugging Face name or a folder; "depth-anything/DA3-LARGE-1.1" when it is not set.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import cv2
from examples.adapters.common import device

from omnidc.evaluation.sample import Depth, Image, Intrinsics
from omnidc.pipeline.alignment import align


@cache
def model() -> Any:
    from depth_anything_3.api import DepthAnything3

    name = os.environ.get("DEPTH_ANYTHING_3", "depth-anything/DA3-LARGE-1.1")
    return DepthAnything3.from_pretrained(name).to(device=device())


def depth(image: Image) -> Any:
    """Relative depth [H, W], computed at 504 px on the longer side; also a `--prior`."""
    small = model().inference([image]).depth[0]
    return cv2.resize(small, (image.shape[1], image.shape[0]), interpolation=cv2.INTER_LINEAR)


def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return align(depth(image), sparse, "depth")
