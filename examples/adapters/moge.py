"""MoGe-2 (microsoft/MoGe at 0744441, package moge), fitted to the points in depth.

MOGE names the weights: a Hugging Face name or a file; "Ruicheng/moge-2-vitl-normal" when it is not set. Pixels that it
masks (sky) are infinite in its answer; they become the farthest depth it has.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
from examples.adapters.common import device, image_tensor

from omnidc.evaluation.sample import Depth, Image, Intrinsics
from omnidc.pipeline.alignment import align


@cache
def model() -> Any:
    from moge.model.v2 import MoGeModel

    name = os.environ.get("MOGE", "Ruicheng/moge-2-vitl-normal")
    return MoGeModel.from_pretrained(name).to(device()).eval()


def depth(image: Image) -> Any:
    """Depth [H, W] in its own meters; also a `--prior`."""
    network = model()
    tensor = image_tensor(image, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))[0]
    found = network.infer(tensor, use_fp16=device().type == "cuda")["depth"].float().cpu().numpy()
    finite = np.isfinite(found)
    return np.where(finite, found, found[finite].max() if finite.any() else 1.0)


def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return align(depth(image), sparse, "depth")
