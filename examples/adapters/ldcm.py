"""LDCM (aigc3d/LDCM at 9128cb9, package ldcm, which also wants utils3d at the commit that its README names).

LDCM names the weights: a Hugging Face name, a folder or a file; "pkqbajng/LDCM" when it is not set. Its monocular prior
is MoGe-2, which runs in half precision: a GPU is needed.
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
    from ldcm import LDCMModel

    return LDCMModel.from_pretrained(os.environ.get("LDCM", "pkqbajng/LDCM")).to(device()).eval()


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    rgb = image_tensor(image, (0.0,) * 3, (1.0,) * 3)
    return result(model().infer(rgb, depth_tensor(sparse))["depth_pred"], sparse)
