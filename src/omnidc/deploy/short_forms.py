"""Equal forms of a few torch operations that become fewer, faster or more exact ONNX nodes than the exporter's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Compute `torch.chunk` of a length that `chunks` divides: one Split. The exporter would write slices."""
    length = int(x.shape[dim])
    if length % chunks:
        raise ValueError(f"{chunks} chunks of a length of {length} have no short form.")
    return torch.split(x, length // chunks, dim)


def softmax(x: Tensor, dim: int) -> Tensor:
    """Compute `torch.softmax`, written out: onnxruntime's is four times slower over any but the last axis."""
    powers = (x - x.amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)


def sigmoid(x: Tensor) -> Tensor:
    """Compute `torch.sigmoid`, written out: onnxruntime's has an absolute error of 1e-8 or more and ends at -18.

    Weights of measurements are compared with 1e-6, so that they need relative precision far below 1.
    """
    return (1 + (-x).exp()).reciprocal()


def lerp(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    """Compute `torch.lerp` in three nodes instead of eight."""
    return start + weight * (end - start)


def baddbmm(add: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Compute `torch.baddbmm` without factors of 1; a matrix that was expanded over the batch is taken once."""
    return (left[0] if left.stride(0) == 0 else left) @ right + add


def _places(like: Tensor, channels: int, side: int) -> Tensor:  # [channels · side², 1, side, side]
    """Return the kernels that select each pixel of a block."""
    pixels = [
        [[float(place == row * side + x) for x in range(side)] for row in range(side)] for place in range(side**2)
    ]
    return like.new_tensor([[pixel] for _ in range(channels) for pixel in pixels])


def pixel_shuffle(x: Tensor, side: int) -> Tensor:
    """Compute `F.pixel_shuffle` as a transposed convolution: onnxruntime's DepthToSpace takes three times as long."""
    channels = int(x.shape[1]) // side**2
    return F.conv_transpose2d(x, _places(x, channels, side), stride=side, groups=channels)


def pixel_unshuffle(x: Tensor, side: int) -> Tensor:
    """Compute `F.pixel_unshuffle` as one convolution instead of four nodes."""
    channels = int(x.shape[1])
    return F.conv2d(x, _places(x, channels, side), stride=side, groups=channels)


def getitem(x: Tensor, index: Any) -> Tensor:
    """Return `x[index]` without the slices that take a whole axis: each would be a copy.

    That is decided at the traced size, so that a crop which does nothing there would be lost: trace at a size that no
    padding leaves as it is.
    """
    if not isinstance(index, tuple) or not all(one is Ellipsis or isinstance(one, slice) for one in index):
        return x[index]
    given = [one for one in index if one is not Ellipsis]
    start = x.ndim - len(given) if index[0] is Ellipsis else 0
    for axis, one in enumerate(given, start):
        step = 1 if one.step is None else int(one.step)
        first, last = int(one.start or 0), x.shape[axis] if one.stop is None else one.stop
        if step == 1 and first == 0 and int(last) == int(x.shape[axis]):
            continue
        key = [slice(None)] * x.ndim
        key[axis] = one
        x = Tensor.__getitem__(x, tuple(key))
    return x


SHORT: dict[Any, Callable[..., Any]] = {
    torch.chunk: chunk,
    Tensor.chunk: chunk,
    torch.softmax: softmax,
    Tensor.softmax: softmax,
    torch.sigmoid: sigmoid,
    Tensor.sigmoid: sigmoid,
    torch.lerp: lerp,
    Tensor.lerp: lerp,
    torch.baddbmm: baddbmm,
    F.pixel_shuffle: pixel_shuffle,
    F.pixel_unshuffle: pixel_unshuffle,
    Tensor.__getitem__: getitem,
}


class ShortForms(TorchFunctionMode):
    """While active, the operations of `SHORT` are replaced."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return SHORT.get(func, func)(*args, **(kwargs or {}))
