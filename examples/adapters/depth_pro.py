"""Depth Pro (apple/ml-depth-pro at 9efe5c1, package depth_pro). DEPTH_PRO_CHECKPOINT is its depth_pro.pt.

`complete` returns its meters as they are, without a look at the points, as the paper does. `aligned` fits them to the
points by scale and shift. The camera's focal length is not handed over: the network estimates it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from examples.adapters.common import device, from_environment, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics
from omnidc.pipeline.alignment import align


@cache
def model() -> tuple[Any, Any]:
    from depth_pro import create_model_and_transforms
    from depth_pro.depth_pro import DEFAULT_MONODEPTH_CONFIG_DICT

    uri = str(from_environment("DEPTH_PRO_CHECKPOINT", "depth_pro.pt"))
    network, transform = create_model_and_transforms(
        replace(DEFAULT_MONODEPTH_CONFIG_DICT, checkpoint_uri=uri), device=device()
    )
    return network.eval(), transform


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    network, transform = model()
    return result(network.infer(transform(image))["depth"], sparse)


def aligned(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return align(complete(image, sparse, intrinsics), sparse, "depth")
