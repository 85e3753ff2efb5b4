"""Marigold-DC (prs-eth/Marigold-DC at 77fa032). MARIGOLD_DC_REPO is a clone; needs `diffusers`.

Fifty denoising steps at 768 pixels on a GPU, as its script does; its script takes ten at 512 pixels without one, and so
does this, but with Marigold's own VAE, for which the script then takes the smaller TAESD. MARIGOLD names the weights,
"prs-eth/marigold-depth-v1-0" when it is not set.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
import torch
from examples.adapters.common import device, from_environment, import_from
from PIL import Image as PillowImage

from omnidc.evaluation.sample import Depth, Image, Intrinsics


@cache
def model() -> Any:
    import_from(from_environment("MARIGOLD_DC_REPO", "a clone of prs-eth/Marigold-DC"))
    from diffusers import DDIMScheduler
    from marigold_dc import MarigoldDepthCompletionPipeline

    name = os.environ.get("MARIGOLD", "prs-eth/marigold-depth-v1-0")
    pipeline = MarigoldDepthCompletionPipeline.from_pretrained(name, prediction_type="depth")
    pipeline = pipeline.to(device(), dtype=torch.bfloat16)
    pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, timestep_spacing="trailing")
    return pipeline


def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    steps, resolution = (50, 768) if device().type == "cuda" else (10, 512)
    answer = model()(
        image=PillowImage.fromarray(image),
        sparse_depth=sparse,
        num_inference_steps=steps,
        processing_resolution=resolution,
    )
    return np.asarray(answer, np.float32)
