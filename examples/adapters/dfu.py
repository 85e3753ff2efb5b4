"""DFU (YufeiWang777/DFU at 3c5b50b). DFU_REPO is a clone, DFU_CHECKPOINT its best_model.pt, trained on KITTI.

The paper uses this checkpoint indoors, too. The network takes the points, the points without outliers, and IP-Basic's
filling, both made by its own code, which wants NumPy below 1.24 (`np.float`). It looks for ./bessel.npy in the current
folder when it is built: run the evaluation from DFU_REPO.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from examples.adapters.common import (
    KITTI_MEAN,
    KITTI_STD,
    depth_tensor,
    device,
    from_environment,
    image_tensor,
    import_from,
    pad_to,
    result,
)

from omnidc.evaluation.sample import Depth, Image, Intrinsics

CONFIG = "configs/val_LRRU_with_Three_DFU.yml"


@cache
def model() -> Any:
    folder = from_environment("DFU_REPO", "a clone of YufeiWang777/DFU")
    import_from(folder)
    from configs.config import get_cfg_defaults
    from model.LRRU_with_Three_DFU import Model

    options = get_cfg_defaults()
    options.merge_from_file(str(folder / CONFIG))
    network = Model(options)
    checkpoint = torch.load(from_environment("DFU_CHECKPOINT", "best_model.pt of DFU"), map_location="cpu")
    network.load_state_dict({name.removeprefix("module."): tensor for name, tensor in checkpoint.items()}, strict=False)
    return network.to(device()).eval()


@torch.no_grad()
def complete(image: Image, sparse: Depth, intrinsics: Intrinsics | None) -> Any:
    network = model()  # first: the two functions below are its repository's
    from dataloaders.NNfill import fill_in_fast
    from dataloaders.utils import outlier_removal

    filled = fill_in_fast(sparse.copy(), max_depth=100.0, extrapolate=True, blur_type="gaussian")[0]
    clean = outlier_removal(sparse)[0]
    maps = [depth_tensor(np.asarray(depth, np.float32)) for depth in (sparse, clean, filled)]
    rgb, *maps = pad_to(16, image_tensor(image, KITTI_MEAN, KITTI_STD), *maps)
    sample = {"rgb": rgb, **dict(zip(("dep", "dep_clear", "ip"), maps, strict=True))}
    return result(network(sample)["results"][-1], sparse)
