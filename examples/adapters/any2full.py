"""Any2Full (zhiyuandaily/Any2Full at 9523b1b).

ANY2FULL_REPO is a clone, ANY2FULL_CHECKPOINT a file Any2Full_vit{s,b,l}.pth.tar of its Hugging Face page.
"""

from __future__ import annotations

from argparse import Namespace
from functools import cache
from typing import Any

import torch
from examples.adapters.common import depth_tensor, device, from_environment, image_tensor, import_from, result

from omnidc.evaluation.sample import Depth, Image, Intrinsics


@cache
def model() -> Any:
    import_from(from_environment("ANY2FULL_REPO", "a clone of zhiyuandaily/Any2Full"))
    from model.ours.any2full import Any2Full

    path = from_environment("ANY2FULL_CHECKPOINT", "Any2Full_vitl.pth.tar")
    encoder = next((name for name in ("vits", "vitb", "vitl") if name in path.name), "vitl")
    options = Namespace(init_scailing=True, stage=1, max_depth=1e3, min_depth=1e-6)  # as its script has them
    network = Any2Full(encoder=encoder, da_ckpt_path=None, args=options)
    checkpoint = torch.load(path, map_location="cpu", weights_only=False)
    state = checkpoint.get("state_dict", checkpoint)
    network.load_state_dict({name.replace("module.", ""): tensor for name, tensor in state.items()})
    return network.to(device()).eval()


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    return result(model()({"rgb": image_tensor(image), "dep": depth_tensor(sparse)})["pred"], sparse)
