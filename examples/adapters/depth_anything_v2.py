"""Depth Anything V2 (DepthAnything/Depth-Anything-V2 at a561b84), fitted to the points in disparity as the paper does.

DEPTH_ANYTHING_V2_REPO is a clone, DEPTH_ANYTHING_V2_CHECKPOINT a file depth_anything_v2_vit{s,b,l}.pth; its name tells
the size. The weights of ViT-S are Apache 2.0, the larger ones CC BY-NC 4.0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from examples.adapters.common import device, from_environment, import_from

from omnidc.errors import ConfigError
from omnidc.evaluation.sample import Depth, Image, Intrinsics
from omnidc.pipeline.alignment import align

CONFIGS: dict[str, dict[str, Any]] = {
    "vits": {"features": 64, "out_channels": [48, 96, 192, 384]},
    "vitb": {"features": 128, "out_channels": [96, 192, 384, 768]},
    "vitl": {"features": 256, "out_channels": [256, 512, 1024, 1024]},
}


@cache
def model() -> Any:
    import_from(from_environment("DEPTH_ANYTHING_V2_REPO", "a clone of DepthAnything/Depth-Anything-V2"))
    from depth_anything_v2.dpt import DepthAnythingV2

    path = from_environment("DEPTH_ANYTHING_V2_CHECKPOINT", "depth_anything_v2_vitl.pth")
    encoder = next((name for name in CONFIGS if name in path.stem), None)
    if encoder is None:
        raise ConfigError(f"The name {path.name} does not tell the encoder: it should contain vits, vitb or vitl.")
    network = DepthAnythingV2(encoder=encoder, **CONFIGS[encoder])
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network.to(device()).eval()


def disparity(image: Image) -> Any:
    """Relative disparity [H, W]; also a `--prior`."""
    return model().infer_image(np.ascontiguousarray(image[..., ::-1]))  # it expects BGR


def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return align(disparity(image), sparse, "disparity")
