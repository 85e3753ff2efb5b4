"""OGNI-DC (princeton-vl/OGNI-DC at 41b5731). OGNI_DC_REPO is a clone with what its README asks for.

The paper uses the NYUv2 checkpoint indoors and the KITTI checkpoint outdoors: `indoor` reads OGNI_DC_NYU, `outdoor`
reads OGNI_DC_KITTI, both .pt files of the release.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import torch
from examples.adapters.common import depth_tensor, device, from_environment, image_tensor, import_from, pad_to, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics


@cache
def model(variable: str) -> Any:
    import_from(from_environment("OGNI_DC_REPO", "a clone of princeton-vl/OGNI-DC") / "src")
    options = "--GRU_iters 5 --optim_layer_input_clamp 1.0 --depth_activation_format exp"
    ours, sys.argv = sys.argv, [sys.argv[0], *options.split()]  # its options are parsed when `config` is imported
    try:
        from config import args
        from model.ognidc import OGNIDC
    finally:
        sys.argv = ours
    network = OGNIDC(args)
    checkpoint = from_environment(variable, "a .pt file of OGNI-DC")
    network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=False)["net"], strict=False)
    return network.to(device()).eval()


@torch.no_grad()
def _complete(image: Image, sparse: Depth, variable: str) -> Any:
    rgb, depth = pad_to(4, image_tensor(image), depth_tensor(sparse))
    sample = {"rgb": rgb, "dep": depth, "K": torch.eye(3, device=device())[None]}
    return result(model(variable)(sample)["pred"], sparse)


def indoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, "OGNI_DC_NYU")


def outdoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, "OGNI_DC_KITTI")
