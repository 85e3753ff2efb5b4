"""Prompt Depth Anything through the package transformers (huggingface/transformers at 0848054).

It was made for the dense 192 × 256 map of a phone's laser, not for sparse points: these are interpolated linearly in
log depth and reduced to that size first, which is our choice. PROMPT_DA names the weights,
"depth-anything/prompt-depth-anything-vitl-hf" when it is not set.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import cv2
import numpy as np
import torch
from examples.adapters.common import device, result

from omnidc.evaluation.baselines.interpolation import linear
from omnidc.evaluation.sample import Depth, Image, Intrinsics

PROMPT_SIZE = (256, 192)  # width, height


@cache
def model() -> tuple[Any, Any]:
    """The image processor and the network."""
    from transformers import AutoImageProcessor, AutoModelForDepthEstimation

    name = os.environ.get("PROMPT_DA", "depth-anything/prompt-depth-anything-vitl-hf")
    network = AutoModelForDepthEstimation.from_pretrained(name)
    return AutoImageProcessor.from_pretrained(name), network.to(device()).eval()


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    processor, network = model()
    prompt = np.asarray(cv2.resize(linear(image, sparse), PROMPT_SIZE, interpolation=cv2.INTER_AREA), np.float32)
    # without the scale, it takes the prompt for millimeters
    inputs = processor(images=image, prompt_depth=prompt, prompt_scale_to_meter=1.0, return_tensors="pt")
    output = network(**inputs.to(device()))
    depth = processor.post_process_depth_estimation(output, target_sizes=[sparse.shape])[0]["predicted_depth"]
    return result(depth, sparse)
