"""A network small enough for tests of the loop; importable from worker and child processes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.integrate import SolveInfo, integrate
from omnidc.network.interface import DepthNetwork, Fields, Prediction
from omnidc.network.normalize import downsample_sparse, log_of_valid, median_of_valid


class TinyNetwork(DepthNetwork):
    """One convolution at 1/4, two resolutions, bilinear upsampling; a buffer that counts forward passes."""

    multiple = 8
    padding = "replicate"

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(5, width, 7, stride=4, padding=3)
        self.head = nn.Conv2d(width, 4, 3, padding=1)
        self.head2 = nn.Conv2d(width, 2, 3, padding=1)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("calls", torch.zeros(()))

    def fields(self, image: Tensor, sparse: Tensor) -> Fields:
        log_depth, valid = log_of_valid(sparse)
        features = torch.tanh(self.stem(torch.cat((image, log_depth, valid), dim=1)))
        out = self.head(features)
        coarse = self.head2(F.avg_pool2d(features, 2, ceil_mode=True))
        return Fields(
            gradients=(out[:, :2] * 0.1, coarse * 0.1),
            weights=None,
            confidence=torch.sigmoid(out[:, 2:3] + 2),
            refinement={"log_scale": out[:, 3:]},
        )

    def integrate(self, fields: Fields, sparse: Tensor, start: Tensor | None = None) -> tuple[Tensor, SolveInfo]:
        cells, mask = downsample_sparse(sparse)
        observed, _ = log_of_valid(cells)
        return integrate(fields.gradients, observed, mask, fields.confidence, start=start)

    def refine(self, fields: Fields, log_depth: Tensor, sparse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        depth = F.interpolate(log_depth, scale_factor=4, mode="bilinear").exp()
        scale = F.interpolate(fields.refinement["log_scale"] - 3, scale_factor=4, mode="bilinear").exp()
        return depth, depth, depth * scale

    def forward(self, image: Tensor, sparse: Tensor, start: Tensor | None = None) -> Prediction:
        if self.training:
            self.calls += 1
        median = median_of_valid(sparse)
        fields = self.fields(image, sparse / median)
        log_depth, info = self.integrate(fields, sparse / median)
        depth, depth_init, scale = self.refine(fields, log_depth, sparse / median)
        return Prediction(depth * median, depth_init * median, scale * median, fields, log_depth, median, info)
