"""Marigold (prs-eth/Marigold at b1dffaa), fitted to the points in depth as the paper does.

MARIGOLD_REPO is a clone of the repository; MARIGOLD names the weights, "prs-eth/marigold-depth-v1-0" when it is not set
(the version of the paper's time; v1-1 is newer). The random generator has a fixed seed.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
from examples.adapters.common import device, from_environment, import_from
from PIL import Image as PillowImage

from omnidc.evaluation.sample import Depth, Image, Intrinsics
from omnidc.pipeline.alignment import align

SEED = 0


@cache
def model() -> Any:
    import_from(from_environment("MARIGOLD_REPO", "a clone of prs-eth/Marigold"))
    from marigold import MarigoldDepthPipeline

    name = os.environ.get("MARIGOLD", "prs-eth/marigold-depth-v1-0")
    return MarigoldDepthPipeline.from_pretrained(name).to(device())


def depth(image: Image) -> Any:
    """Affine-invariant depth [H, W] in [0, 1]; also a `--prior`."""
    generator = torch.Generator(device=device()).manual_seed(SEED)
    answer = model()(PillowImage.fromarray(image), color_map=None, show_progress_bar=False, generator=generator)
    return answer.depth_np


def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return align(depth(image), sparse, "depth")
