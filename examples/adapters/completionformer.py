"""CompletionFormer (youmi-zym/CompletionFormer at 2744edd).

COMPLETIONFORMER_REPO is a clone with its deformable convolution built.
`indoor` reads COMPLETIONFORMER_NYU, `outdoor` reads COMPLETIONFORMER_KITTI: checkpoints of the release. It looks for
./pretrained/pvt.pth in the current folder when it is built; run the evaluation from COMPLETIONFORMER_REPO/src.
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
    import_from(from_environment("COMPLETIONFORMER_REPO", "a clone of youmi-zym/CompletionFormer") / "src")
    ours, sys.argv = sys.argv, sys.argv[:1]  # its options are parsed when `config` is imported
    try:
        from config import args
        from model.completionformer import CompletionFormer
    finally:
        sys.argv = ours
    network = CompletionFormer(args)
    checkpoint = from_environment(variable, "a checkpoint of CompletionFormer")
    network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=False)["net"], strict=False)
    return network.to(device()).eval()


@torch.no_grad()
def _complete(image: Image, sparse: Depth, variable: str) -> Any:
    rgb, depth = pad_to(32, image_tensor(image), depth_tensor(sparse))
    return result(model(variable)({"rgb": rgb, "dep": depth})["pred"], sparse)


def indoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, "COMPLETIONFORMER_NYU")


def outdoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, "COMPLETIONFORMER_KITTI")
