"""OMNI-DC as released (princeton-vl/OMNI-DC at cc1a037), to hold against our own implementation of it.

OMNI_DC_REPO is a clone of the repository with what its README asks for: a CUDA device, apex, mmcv, and the backbone
files in src/pretrained. The v1.1 weights come from Hugging Face, as in its demo; OMNI_DC_CHECKPOINT names a .pt file
instead, and OMNI_DC_VERSION=1.0 builds the network without Depth Anything V2.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

import torch
from examples.adapters.common import depth_tensor, device, from_environment, image_tensor, import_from, pad_to, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics


@cache
def model() -> Any:
    import_from(from_environment("OMNI_DC_REPO", "a clone of princeton-vl/OMNI-DC") / "src")
    latest = os.environ.get("OMNI_DC_VERSION", "1.1") != "1.0"
    options = (
        "--max_depth 300 --num_resolution 3 --multi_resolution_learnable_gradients_weights uniform --GRU_iters 1 "
        "--optim_layer_input_clamp 1.0 --depth_activation_format exp --whiten_sparse_depths 1 "
        "--gru_internal_whiten_method median --backbone_mode rgbd --pred_confidence_input 1 "
        f"--data_normalize_median 1 --load_dav2 {int(latest)}"
    )
    ours, sys.argv = sys.argv, [sys.argv[0], *options.split()]  # its options are parsed when `config` is imported
    try:
        from config import args
        from model.ognidc import OGNIDC
    finally:
        sys.argv = ours
    if "OMNI_DC_CHECKPOINT" in os.environ:
        network = OGNIDC(args)
        path = from_environment("OMNI_DC_CHECKPOINT", "a .pt file of the release")
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=False)["net"], strict=False)
    else:
        network = OGNIDC.from_pretrained("zuoym15/OMNI-DC", args=args)
    return network.to(device()).eval()


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    rgb, depth = pad_to(16, image_tensor(image), depth_tensor(sparse))
    sample = {"rgb": rgb, "dep": depth, "K": torch.eye(3, device=device())[None], "pattern": 0}
    return result(model()(sample)["pred"], sparse)
