"""Depth Prompting (JinhwiPark/DepthPrompting at a7b08ff). DEPTH_PROMPTING_REPO is a clone; it wants mmcv-full 1.3.13.

`indoor` reads DEPTH_PROMPTING_NYU, `outdoor` reads DEPTH_PROMPTING_KITTI: Depthprompting_depthformer_nyu.tar and
_kitti.tar of the release. The data set's name also sets the order of its propagation and its largest depth.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import cache
from typing import Any

import torch
from examples.adapters.common import depth_tensor, device, from_environment, image_tensor, import_from, pad_to, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics

# As in its test commands, but without ImageNet's weights, which the checkpoint replaces.
OPTIONS = "--model_name depth_prompt_main --prop_kernel 9 --prop_time 18 --conf_prop --init_scailing --no_res_pre"


@cache
def model(variable: str, data_name: str, max_depth: float) -> Any:
    import_from(from_environment("DEPTH_PROMPTING_REPO", "a clone of JinhwiPark/DepthPrompting"))
    ours, sys.argv = sys.argv, [sys.argv[0], *OPTIONS.split()]  # its options are parsed when `config` is imported
    try:
        from config import args
        from model.ours.depth_prompt_main import depthprompting
    finally:
        sys.argv = ours
    network = depthprompting(Namespace(**{**vars(args), "data_name": data_name, "max_depth": max_depth}))
    file = from_environment(variable, "a checkpoint of Depth Prompting")
    checkpoint = torch.load(file, map_location="cpu", weights_only=False)
    state = checkpoint.get("state_dict", checkpoint)
    network.load_state_dict({name.replace("module.", ""): tensor for name, tensor in state.items()})
    return network.to(device()).eval()


@torch.no_grad()
def _complete(image: Image, sparse: Depth, network: Any) -> Any:
    rgb, depth = pad_to(32, image_tensor(image), depth_tensor(sparse))
    return result(network({"rgb": rgb, "dep": depth})["pred"], sparse)


def indoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, model("DEPTH_PROMPTING_NYU", "NYU", 10.0))


def outdoor(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return _complete(image, sparse, model("DEPTH_PROMPTING_KITTI", "KITTIDC", 80.0))
