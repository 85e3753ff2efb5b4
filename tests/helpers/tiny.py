"""A network, pictures and a configuration small enough for tests of the loop; child processes import this too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.integrate import SolveInfo, integrate
from omnidc.network.interface import Fields, Prediction, Refinement, StagedNetwork
from omnidc.network.normalize import downsample_sparse, masked_log, masked_median
from omnidc.training.config import TrainConfig, load_config


@dataclass(frozen=True)
class LogScale(Refinement):
    log_scale: Tensor  # [B, 1, H / 4, W / 4]


class TinyNetwork(StagedNetwork):
    """One convolution at 1/4, two resolutions, bilinear upsampling; a buffer that counts forward passes."""

    size_divisor = 8
    padding = "replicate"

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(5, width, 7, stride=4, padding=3)
        self.head = nn.Conv2d(width, 4, 3, padding=1)
        self.head2 = nn.Conv2d(width, 2, 3, padding=1)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("calls", torch.zeros(()))

    def fields(self, image: Tensor, sparse: Tensor) -> Fields:
        log_depth, valid = masked_log(sparse)
        features = torch.tanh(self.stem(torch.cat((image, log_depth, valid), dim=1)))
        out = self.head(features)
        coarse = self.head2(F.avg_pool2d(features, 2, ceil_mode=True))
        return Fields(
            gradients=(out[:, :2] * 0.1, coarse * 0.1),
            weights=None,
            confidence=torch.sigmoid(out[:, 2:3] + 2),
            refinement=LogScale(out[:, 3:]),
        )

    def integrate(self, fields: Fields, sparse: Tensor, warm_start: Tensor | None = None) -> tuple[Tensor, SolveInfo]:
        cells, mask = downsample_sparse(sparse)
        observed, _ = masked_log(cells)
        return integrate(fields.gradients, observed, mask, fields.confidence, warm_start=warm_start)

    def refine(self, fields: Fields, log_depth: Tensor, sparse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        depth = F.interpolate(log_depth, scale_factor=4, mode="bilinear").exp()
        assert isinstance(fields.refinement, LogScale)
        scale = F.interpolate(fields.refinement.log_scale - 3, scale_factor=4, mode="bilinear").exp()
        return depth, depth, depth * scale

    def forward(self, image: Tensor, sparse: Tensor, warm_start: Tensor | None = None) -> Prediction:
        if self.training:
            self.calls += 1
        median = masked_median(sparse)
        fields = self.fields(image, sparse / median)
        log_depth, info = self.integrate(fields, sparse / median)
        depth, depth_init, scale = self.refine(fields, log_depth, sparse / median)
        return Prediction(depth * median, depth_init * median, scale * median, fields, log_depth, median, info)


def scene(seed: int, height: int = 48, width: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """A picture of a few tilted planes, each with its own color."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: 1 : height * 1j, : 1 : width * 1j]
    image = np.zeros((height, width, 3))
    depth = np.full((height, width), 8.0)
    for _ in range(4):
        center, size, slope, near = rng.uniform(0, 1, 2), rng.uniform(0.1, 0.5), rng.normal(0, 1, 2), rng.uniform(1, 6)
        inside = (abs(x - center[0]) < size) & (abs(y - center[1]) < size)
        depth[inside] = np.clip(near + slope[0] * x + slope[1] * y, 0.5, 20)[inside]
        image[inside] = rng.uniform(0, 255, 3)
    image += rng.normal(0, 4, image.shape)
    return cv2.GaussianBlur(np.clip(image, 0, 255).astype(np.uint8), (3, 3), 0), depth.astype(np.float32)


def tiny_config(shard: Path, *overrides: str, **tables: Any) -> TrainConfig:
    """A run of 6 steps on the tiny network, all in one process."""
    base: dict[str, Any] = {
        "seed": 3,
        "network": {"name": "tiny:TinyNetwork"},
        "data": {
            "sources": {"planes": str(shard)},
            "sizes": [[32, 48], [48, 64]],
            "pattern": "0.7*200~400 & noise(0~0.1) + 0.3*lidar-8",
            "noise": "",
            "val_fraction": 0.25,
            "min_points": 5,
            "workers": 0,
        },
        "loss": {"weights": {"l1_log": 1.0, "laplace_log": 0.1}},
        "optimizer": {"batch": 4, "lr": 1e-2, "ema": 0.9},
        "schedule": {"kind": "cosine", "warmup": 0.1, "steps": 6},
        "validation": {"frames": 2, "patterns": ["100"], "every_epochs": 0, "pictures": 1},
        "runtime": {"threads": 1, "processes": 1, "checkpoint_minutes": 0.0, "device": "cpu"},
    }
    return load_config(None, None, overrides, base=base, **tables)
