"""Stage 4 of an exported compact network, run by onnxruntime over bands of rows at the size of the output.

As in `CompactNetwork`: memory does not grow with the image, and the result has the size of the photograph, whatever
size stages 1 to 3 worked at. Torch is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FloatMap = npt.NDArray[np.float32]

BAND_PIXELS, MIN_ROWS = 800_000, 256
CELL = 32  # rows; bands begin where the largest cells of stage 4 do


class Arrays:
    """Base of the records whose fields are inputs or outputs of a graph."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the fields, in their order."""
        return tuple(each.name for each in fields(cls))  # type: ignore[arg-type]

    def by_name(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in self.names()}


@dataclass(frozen=True)
class Band(Arrays):
    """Inputs of the graph, for the rows of a band and those around it that the propagation reads."""

    features: FloatMap  # [1, C, m, n]
    maps: FloatMap  # [1, 3, 2 m, 2 n]
    judged: FloatMap  # [1, 2, R, W]
    image: FloatMap  # [1, 3, R, W], RGB in [0, 1]
    sparse: FloatMap  # [1, 1, R, W]
    median: FloatMap  # [1, 1, 1, 1]
    keep_input: npt.NDArray[np.bool_]  # [1, 1, 1, 1]


@dataclass(frozen=True)
class Resampled(Arrays):
    """Further inputs where the output has another size: pixel = (1 − t) first + t second, along rows and columns."""

    above: npt.NDArray[np.int64]  # [R], rows of `Band.maps`
    below: npt.NDArray[np.int64]
    down: FloatMap  # [R], t
    left: npt.NDArray[np.int64]  # [W], columns of `Band.maps`
    right: npt.NDArray[np.int64]
    across: FloatMap  # [W], t


@dataclass(frozen=True)
class SolvedMaps(Arrays):
    """Outputs of stages 1 to 3 for one image, at the padded working size."""

    features: FloatMap  # [1, C, h / 2, w / 2]
    maps: FloatMap  # [1, 3, h, w]
    judged: FloatMap  # [1, 2, h, w]
    median: FloatMap  # [1, 1, 1, 1]


@dataclass(frozen=True)
class Refined(Arrays):
    """Outputs of stage 4, [H, W] each."""

    depth: FloatMap
    uncertainty: FloatMap
    confidence: FloatMap
    sky: FloatMap


def refine_in_bands(
    run: Callable[[dict[str, Array]], list[FloatMap]],  # inputs of the graph → `Refined`, [1, 1, R, W] each
    solved: SolvedMaps,
    size: tuple[int, int],  # height, width of the working size without padding
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    sparse: FloatMap,  # [H, W]
    keep_input: bool,
    halo: int,  # rows around a band that stage 4 reads; a multiple of `CELL`
) -> Refined:
    """Run stage 4 at the size of the image."""
    height, width = sparse.shape
    result = Refined(*(np.empty((height, width), np.float32) for _ in range(4)))
    rows = max(MIN_ROWS, BAND_PIXELS // width)
    rows += -rows % CELL
    for top in range(0, height, rows):
        bottom = min(height, top + rows)
        first, last = max(0, top - halo), min(height, bottom + halo)
        inputs = _inputs(solved, size, image, sparse, keep_input, first, last)
        inner = slice(top - first, bottom - first)
        for whole, values in zip(result.by_name().values(), run(inputs)):
            whole[top:bottom] = values[0, 0, inner]
    return result


def _inputs(
    solved: SolvedMaps,
    size: tuple[int, int],
    image: npt.NDArray[np.uint8],
    sparse: FloatMap,
    keep_input: bool,
    first: int,
    last: int,
) -> dict[str, Array]:
    """Return the inputs of the graph for rows first … last − 1."""
    low, high, resampled = first, last, None
    if size != sparse.shape:
        above, below, down = _between(first, last, size[0], sparse.shape[0])
        low, high = int(above[0]), int(below[-1]) + 1
        start = low // 2 * 2  # the first row of `Band.maps`
        across = _between(0, sparse.shape[1], size[1], sparse.shape[1])
        resampled = Resampled(above - start, below - start, down, *across)
    cells = slice(low // 2, (high + 1) // 2)
    band = Band(
        features=solved.features[:, :, cells],
        maps=solved.maps[:, :, 2 * cells.start : 2 * cells.stop],
        judged=_nearest(solved.judged, size, sparse.shape, first, last),
        image=image[first:last].transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255),
        sparse=sparse[None, None, first:last],
        median=solved.median,
        keep_input=np.full((1, 1, 1, 1), keep_input),
    )
    return band.by_name() if resampled is None else {**band.by_name(), **resampled.by_name()}


def _between(
    first: int, last: int, length: int, whole: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatMap]:
    """Return for pixels first … last − 1 of `whole` the two pixels of `length` around it, the part of the second."""
    place = ((np.arange(first, last) + 0.5) * (length / whole) - 0.5).clip(0, length - 1)
    near = np.floor(place).astype(np.int64)
    return near, np.minimum(near + 1, length - 1), (place - near).astype(np.float32)


def _nearest(
    maps: FloatMap,  # [1, 2, h, w]
    size: tuple[int, int],  # height and width of them that count
    shape: tuple[int, ...],  # H, W
    first: int,
    last: int,
) -> FloatMap:  # [1, 2, last − first, W]
    """Return the value of the pixel into which each pixel's center falls."""
    if size == shape:
        return maps[:, :, first:last, : size[1]]
    row, column = _cells(size[0], shape[0])[first:last], _cells(size[1], shape[1])
    return maps[:, :, row[:, None], column]


def _cells(length: int, whole: int) -> npt.NDArray[np.int64]:
    """Return, for each of `whole` pixels, the pixel of `length` into which its center falls; float32, as in torch."""
    place = (np.arange(whole, dtype=np.float32) + np.float32(0.5)) * np.float32(length / whole)
    return np.minimum(place.astype(np.int64), length - 1)


def shrink_image(
    image: npt.NDArray[np.uint8],  # [H, W, 3]
    size: tuple[int, int],  # h, w, at most H, W
) -> FloatMap:  # [3, h, w] in [0, 1]
    """Return means of colors, as `F.interpolate` with mode "area" gives them."""
    values = image.astype(np.float32)
    for axis, length in enumerate(size):
        values = _window_means(values, axis, length)
    return np.ascontiguousarray(values.transpose(2, 0, 1) / np.float32(255))


def _window_means(values: FloatMap, axis: int, length: int) -> FloatMap:
    """Return the means over windows ⌊i n / length⌋ … ⌈(i + 1) n / length⌉ − 1 of the n values along an axis."""
    whole = values.shape[axis]
    if whole == length:
        return values
    starts = np.arange(length) * whole // length
    ends = -(-(np.arange(length) + 1) * whole // length)
    total = np.zeros_like(values.take(starts, axis))
    for step in range(int((ends - starts).max())):
        inside = np.expand_dims(starts + step < ends, tuple(k for k in range(values.ndim) if k != axis))
        total += np.where(inside, values.take(np.minimum(starts + step, whole - 1), axis), np.float32(0))
    counts = np.expand_dims((ends - starts).astype(np.float32), tuple(k for k in range(values.ndim) if k != axis))
    return np.asarray(total / counts, np.float32)


def shrink_sparse(
    sparse: FloatMap,  # [H, W], 0 = no measurement
    size: tuple[int, int],  # h, w
) -> FloatMap:
    """Move each measurement to its pixel of a smaller grid; of several in one pixel the nearest stays."""
    (H, W), (h, w) = sparse.shape, size
    if (h, w) == (H, W):
        return sparse
    rows, columns = np.nonzero(sparse > 0)
    result = np.full(size, np.inf, np.float32)
    np.minimum.at(result, (_cells(h, H)[rows], _cells(w, W)[columns]), sparse[rows, columns])
    return np.where(np.isinf(result), np.float32(0), result)
