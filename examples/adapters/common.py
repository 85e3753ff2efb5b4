"""What the adapters share: where repositories and weights lie, and arrays to tensors and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.evaluation.sample import Depth, Image, Intrinsics

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# of KITTI's own colors, as BP-Net and DFU normalize them
KITTI_MEAN = tuple(value / 255 for value in (90.9950, 96.2278, 94.3213))
KITTI_STD = tuple(value / 255 for value in (79.2382, 80.5267, 82.1483))


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def from_environment(variable: str, what: str) -> Path:
    """The path in an environment variable; a sentence when it is not set or does not exist."""
    value = os.environ.get(variable, "")
    if not value:
        raise ConfigError(f"Set {variable} to {what}.")
    if not Path(value).exists():
        raise ConfigError(f"{variable}={value} does not exist: it should be {what}.")
    return Path(value)


def import_from(folder: Path) -> None:
    """Let Python import the modules of a repository that is not a package. One such repository a process."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def image_tensor(image: Image, mean: tuple[float, ...] = MEAN, std: tuple[float, ...] = STD) -> Tensor:
    """[1, 3, H, W] on the device; mean 0 and std 1 leave values in [0, 1]."""
    scaled = (image.astype(np.float32) / 255 - np.float32(mean)) / np.float32(std)
    return torch.from_numpy(scaled).permute(2, 0, 1)[None].to(device())


def depth_tensor(depth: Depth) -> Tensor:
    """[1, 1, H, W] on the device."""
    return torch.from_numpy(np.ascontiguousarray(depth, np.float32))[None, None].to(device())


def pad_to(multiple: int, *maps: Tensor) -> list[Tensor]:
    """Zeros at the bottom and on the right up to the next multiple."""
    height, width = maps[0].shape[-2:]
    return [F.pad(one, (0, -width % multiple, 0, -height % multiple)) for one in maps]


def result(depth: Tensor, sparse: Depth) -> npt.NDArray[np.float32]:
    """[…, H', W'] cut to the size of the input, as an array."""
    height, width = sparse.shape
    return np.asarray(depth.detach().float().cpu().reshape(depth.shape[-2:])[:height, :width].numpy(), np.float32)


def need_intrinsics(intrinsics: Intrinsics | None, method: str) -> Intrinsics:
    if intrinsics is None:
        raise ConfigError(f"{method} needs the camera matrix, which this frame does not have.")
    return intrinsics
