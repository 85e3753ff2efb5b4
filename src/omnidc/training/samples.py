"""From frames on disk to batches: which frame goes where, augmentation, simulated sensors, worker processes.

A sample depends on (seed, step, slot) and the epoch's order alone, never on the process or worker that makes it: so a
run can be split over processes, or be killed and resumed, and see the same data.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from omnidc.datasets import DATASETS, open_dataset
from omnidc.datasets.augment import AugmentConfig, camera_effects, colour_jitter, flatten_relief, geometry
from omnidc.datasets.mixture import Source
from omnidc.datasets.shards import open_frames
from omnidc.errors import FileError, InputError
from omnidc.frame import Frame
from omnidc.geometry.surface import depth_edges
from omnidc.patterns import Pattern, parse
from omnidc.training.config import DataConfig

ATTEMPTS = 20
Batch = dict[
    str, Any
]  # image uint8 [B, 3, H, W], sparse and truth [B, 1, H, W], noise bool [B, 1, H, W], name, replaced


def open_source(name: str, path: str) -> Sequence[Frame]:
    """The frames at `path`: by the reader of that dataset when `name` is one, else our own shards or folders."""
    return open_dataset(name, Path(path)) if name in DATASETS else open_frames(path, auxiliary=False)


def names_of(frames: Sequence[Frame]) -> list[str]:
    """A lasting name for every frame, where a dataset has them; else its number."""
    names = getattr(frames, "names", None)
    return list(names) if names is not None else [str(i) for i in range(len(frames))]


@dataclass(frozen=True)
class Request:
    """One sample to be made."""

    step: int
    slot: int  # position in the step's batch, over all processes
    height: int
    width: int
    source: int
    index: int


class Samples(Dataset[Batch]):
    """Makes the sample of a `Request`. Small enough to be sent to worker processes."""

    def __init__(self, sources: Sequence[Source], data: DataConfig, augment: AugmentConfig, seed: int) -> None:
        self.sources = list(sources)
        self.augment = augment
        self.seed = seed
        self.min_points = data.min_points
        self.max_edges = data.max_edges
        self.range_limit = data.range_limit
        self.pattern: Pattern = parse(data.pattern, noise=data.noise or None)

    def __getitem__(self, request: Request) -> Batch:
        source = self.sources[request.source]
        index, reason = request.index, ""
        for attempt in range(ATTEMPTS):
            rng = np.random.default_rng([self.seed, request.step, request.slot, attempt])
            if attempt:
                index = int(source.indices[rng.integers(len(source.indices))])
            try:
                sample = self._make(source.frames[index], (request.height, request.width), rng)
            except (FileError, InputError) as error:
                reason = str(error)
                continue
            if sample is not None:
                return {**sample, "replaced": attempt}
            reason = "too few measurements or too many edges"
        raise InputError(
            f"{ATTEMPTS} frames of {source.name!r} in a row gave no usable sample, the last because: {reason}"
        )

    def _make(self, frame: Frame, size: tuple[int, int], rng: np.random.Generator) -> Batch | None:
        """One sample, or None if the sensor saw too little or the view is a thicket."""
        view = geometry(frame, size, self.augment, rng)
        if view.depth is None:
            raise InputError(f"Frame {frame.name!r} has no dense depth to train on.")
        truth = np.where(np.isfinite(view.depth) & (view.depth > 0), view.depth, np.float32(0))
        if self.range_limit:
            truth[truth < truth.max() / self.range_limit] = 0
        truth = flatten_relief(truth, self.augment, rng)
        if self.max_edges < 1 and depth_edges(truth).mean() > self.max_edges:
            return None
        measured = self.pattern(truth, view.image, rng)
        if np.count_nonzero(measured.sparse) < self.min_points:
            return None
        image = camera_effects(colour_jitter(view.image, self.augment, rng), self.augment, rng)
        return {
            "image": torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))),
            "sparse": torch.from_numpy(np.ascontiguousarray(measured.sparse, dtype=np.float32))[None],
            "truth": torch.from_numpy(truth)[None],
            "noise": torch.from_numpy(np.ascontiguousarray(measured.noise))[None],
            "name": frame.name,
        }


class EpochPlan(Sampler[list[Request]]):
    """The requests of one process for an epoch, one list per part of a step, from step `start` on.

    Step s takes samples (s − first) · batch … + batch − 1 of the epoch's order. Slot (part · world + rank) · n + i is
    sample i of `part` in process `rank`.
    """

    def __init__(
        self,
        order: npt.NDArray[np.int64],  # [length, 2], source and frame index
        *,
        seed: int,
        first: int,  # global number of the epoch's first step
        start: int,  # step to begin with
        batch: int,
        accumulate: int,
        rank: int,
        world: int,
        sizes: Sequence[Sequence[int]],
    ) -> None:
        self.order, self.seed, self.first, self.start = order, seed, first, start
        self.batch, self.accumulate, self.rank, self.world = batch, accumulate, rank, world
        self.sizes = sizes
        self.share = batch // (accumulate * world)
        self.steps = len(order) // batch

    def size_of(self, step: int) -> tuple[int, int]:
        height, width = self.sizes[int(np.random.default_rng([self.seed, 0x73697A65, step]).integers(len(self.sizes)))]
        return height, width

    def __len__(self) -> int:
        return max(0, self.first + self.steps - self.start) * self.accumulate

    def __iter__(self) -> Iterator[list[Request]]:
        for step in range(self.start, self.first + self.steps):
            height, width = self.size_of(step)
            for part in range(self.accumulate):
                begin = (part * self.world + self.rank) * self.share
                yield [
                    Request(step, slot, height, width, *map(int, self.order[(step - self.first) * self.batch + slot]))
                    for slot in range(begin, begin + self.share)
                ]


def _quiet_worker(_: int) -> None:
    # Ctrl-C goes to the whole process group; the main process decides what it means. It ends workers with SIGTERM,
    # which they must not treat as it does itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cv2.setNumThreads(0)
    torch.set_num_threads(1)


def make_loader(samples: Samples, plan: EpochPlan, data: DataConfig, pin: bool = False) -> DataLoader[Batch]:
    """Batches of a plan, made in worker processes."""
    return DataLoader(
        samples,
        batch_sampler=plan,
        num_workers=data.workers,
        prefetch_factor=data.prefetch if data.workers else None,
        worker_init_fn=_quiet_worker,
        pin_memory=pin,
    )


def to_device(batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """The tensors of a batch on `device`."""
    return {
        key: value.to(device, non_blocking=True)
        for key, value in batch.items()
        if isinstance(value, Tensor) and value.ndim == 4
    }
