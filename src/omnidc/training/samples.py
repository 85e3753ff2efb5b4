"""From frames on disk to batches: augmentation, simulated sensors, worker processes.

A sample depends on (seed, step, slot) and the epoch's order alone, never on the process or worker that makes it. So a
run can be split over processes, or be killed and resumed, and uses the same data.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from omnidc.errors import FileError, InputError
from omnidc.frame import Frame
from omnidc.geometry.surface import depth_edges
from omnidc.patterns import Pattern, parse
from omnidc.training.augment import (
    AugmentConfig,
    color_jitter,
    compress_log_depth,
    degrade_image,
    random_resized_crop,
)
from omnidc.training.batch import Batch
from omnidc.training.config import DataConfig
from omnidc.training.data import TrainingSource

MAX_ATTEMPTS = 20
GRACE = 30  # seconds that a worker process goes on after SIGTERM


@dataclass(frozen=True)
class Request:
    """One sample to be made."""

    step: int
    slot: int  # position in the step's batch, over all processes
    height: int
    width: int
    source: int
    index: int
    working_size: tuple[int, int] | None = None  # None = that of the sample


class Samples(Dataset[Batch]):
    """Makes the sample of a `Request`. Small enough to be sent to worker processes."""

    def __init__(self, sources: Sequence[TrainingSource], data: DataConfig, augment: AugmentConfig, seed: int) -> None:
        self.sources = list(sources)
        self.augment = augment
        self.seed = seed
        self.min_points = data.min_points
        self.max_edge_fraction = data.max_edge_fraction
        self.range_limit = data.range_limit
        self.unit_median = data.unit_median
        self.pattern: Pattern = parse(data.pattern, noise=data.noise or None)

    def __getitem__(self, request: Request) -> Batch:
        source = self.sources[request.source]
        index, reason = request.index, ""
        for attempt in range(MAX_ATTEMPTS):
            rng = np.random.default_rng([self.seed, request.step, request.slot, attempt])
            if attempt:
                index = int(source.indices[rng.integers(len(source.indices))])
            try:
                sample = self._make(source.frames[index], (request.height, request.width), rng)
            except (FileError, InputError) as error:
                reason = str(error)
                continue
            if sample is not None:
                return replace(sample, resampled=attempt, working_size=request.working_size)
            reason = "too few measurements or too many edges"
        raise InputError(
            f"{MAX_ATTEMPTS} frames of {source.name!r} in a row gave no usable sample, the last because: {reason}"
        )

    def _make(self, frame: Frame, size: tuple[int, int], rng: np.random.Generator) -> Batch | None:
        """Make one sample; None if it has too few measurements or too many depth edges."""
        view = random_resized_crop(frame, size, self.augment, rng)
        if view.depth is None:
            raise InputError(f"Frame {frame.name!r} has no dense depth to train on.")
        gt_depth = np.where(np.isfinite(view.depth) & (view.depth > 0), view.depth, np.float32(0))
        if self.range_limit:
            gt_depth[gt_depth < gt_depth.max() / self.range_limit] = 0
        gt_depth = compress_log_depth(gt_depth, self.augment, rng)
        if self.unit_median and (gt_depth > 0).any():
            gt_depth = gt_depth / np.median(gt_depth[gt_depth > 0])
        if self.max_edge_fraction < 1 and depth_edges(gt_depth).mean() > self.max_edge_fraction:
            return None
        measured = self.pattern(gt_depth, view.image, rng)
        if np.count_nonzero(measured.sparse) < self.min_points:
            return None
        image = degrade_image(color_jitter(view.image, self.augment, rng), self.augment, rng)
        return Batch(
            image=torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None],
            sparse=torch.from_numpy(np.ascontiguousarray(measured.sparse, dtype=np.float32))[None, None],
            gt_depth=torch.from_numpy(gt_depth)[None, None],
            outlier_mask=torch.from_numpy(np.ascontiguousarray(measured.outlier_mask))[None, None],
            sky=torch.from_numpy(np.zeros(size, np.bool_) if view.sky is None else view.sky)[None, None],
            names=(frame.name,),
        )


class EpochSampler(Sampler[list[Request]]):
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
        sizes: Sequence[Sequence[int]],  # height, width
        working_sizes: Sequence[Sequence[int]] = (),  # height, width, working height, working width
        working_share: float = 0.0,  # of the steps
        stop: int = sys.maxsize,  # step that belongs to the next phase
    ) -> None:
        self.order, self.seed, self.first, self.start = order, seed, first, start
        self.batch, self.accumulate, self.rank, self.world = batch, accumulate, rank, world
        self.sizes, self.working_sizes, self.working_share = sizes, working_sizes, working_share
        self.share = batch // (accumulate * world)
        self.steps = min(len(order) // batch, stop - first)

    @property
    def end(self) -> int:
        """The step after the epoch's last."""
        return self.first + self.steps

    def size_of(self, step: int) -> tuple[int, int, tuple[int, int] | None]:
        """Return height, width and working size of a step."""
        if self.working_share:
            rng = np.random.default_rng([self.seed, 0x776F726B, step])
            if rng.random() < self.working_share:
                height, width, *working = self.working_sizes[int(rng.integers(len(self.working_sizes)))]
                return height, width, (working[0], working[1])
        height, width = self.sizes[int(np.random.default_rng([self.seed, 0x73697A65, step]).integers(len(self.sizes)))]
        return height, width, None

    def _request(self, step: int, slot: int, height: int, width: int, working: tuple[int, int] | None) -> Request:
        source, index = map(int, self.order[(step - self.first) * self.batch + slot])
        return Request(step, slot, height, width, source, index, working)

    def __len__(self) -> int:
        return max(0, self.end - self.start) * self.accumulate

    def __iter__(self) -> Iterator[list[Request]]:
        for step in range(self.start, self.end):
            height, width, working = self.size_of(step)
            for part in range(self.accumulate):
                begin = (part * self.world + self.rank) * self.share
                yield [self._request(step, slot, height, width, working) for slot in range(begin, begin + self.share)]


def _init_worker(_: int) -> None:
    # The main process decides what Ctrl-C means. SIGTERM may reach a whole job (Slurm): the main process needs its
    # workers until its last step is saved and ends them itself. If it can't, they end by the alarm.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGTERM, lambda number, frame: signal.alarm(GRACE))
    else:  # Windows
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cv2.setNumThreads(0)
    torch.set_num_threads(1)


def make_loader(samples: Samples, sampler: EpochSampler, data: DataConfig, pin: bool = False) -> DataLoader[Batch]:
    """Return a loader of an epoch's batches, made in worker processes."""
    return DataLoader(
        samples,
        batch_sampler=sampler,
        collate_fn=Batch.collate,
        num_workers=data.workers,
        prefetch_factor=data.prefetch if data.workers else None,
        worker_init_fn=_init_worker,
        pin_memory=pin,
    )
