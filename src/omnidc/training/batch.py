"""One batch of training samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Samples of one size. A single sample is a batch of one."""

    image: Tensor  # uint8 [B, 3, H, W], RGB
    sparse: Tensor  # [B, 1, H, W], meters, 0 = no measurement
    gt_depth: Tensor  # [B, 1, H, W], meters, 0 = unknown
    outlier_mask: Tensor  # bool [B, 1, H, W], measurements that the simulated sensor got wrong
    sky: Tensor  # bool [B, 1, H, W]; where it is False and gt_depth is 0, neither is known
    names: tuple[str, ...] = ()  # of the frames
    resampled: int = 0  # frames that gave no usable sample and were replaced by others
    working_size: tuple[int, int] | None = None  # height, width at which the network works; None = that of the image

    @classmethod
    def collate(cls, samples: Sequence[Batch]) -> Batch:
        """Join samples of the same size."""
        tensors = {name: torch.cat([getattr(sample, name) for sample in samples]) for name in TENSORS}
        return cls(
            **tensors,
            names=tuple(name for sample in samples for name in sample.names),
            resampled=sum(sample.resampled for sample in samples),
            working_size=samples[0].working_size,
        )

    def to(self, device: torch.device) -> Batch:
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in TENSORS})

    def pin_memory(self) -> Batch:  # the data loader calls it
        return replace(self, **{name: getattr(self, name).pin_memory() for name in TENSORS})


TENSORS = tuple(field.name for field in fields(Batch) if field.type == "Tensor")
