"""Small networks with known behavior, for tests of what surrounds a network."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.integrate import SolveInfo, integrate
from omnidc.network.interface import Fields, Refinement, StagedNetwork
from omnidc.network.normalize import downsample_sparse, masked_log


@dataclass(frozen=True)
class Detail(Refinement):
    detail: Tensor  # [B, 16, H / 4, W / 4]


class TinyNetwork(StagedNetwork):
    """Random convolutions of small context, all three resolutions, an uncertainty head, refinement parameters."""

    padding = "replicate"

    def __init__(self, multiple: int = 16, seed: int = 0) -> None:
        super().__init__()
        self.size_divisor = multiple
        generator = torch.Generator().manual_seed(seed)
        self.stem = nn.Conv2d(5, 8, 4, stride=4)
        self.heads = nn.ModuleList([nn.Conv2d(8, 2, 3, padding=1) for _ in range(3)])
        self.trust = nn.Conv2d(8, 1, 3, padding=1)
        self.detail = nn.Conv2d(8, 16, 3, padding=1)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
        self.calls: list[tuple[int, int]] = []

    def fields(self, image: Tensor, sparse: Tensor) -> Fields:
        height, width = image.shape[-2:]
        assert height % self.size_divisor == 0
        assert width % self.size_divisor == 0
        self.calls.append((height, width))
        observed, mask = masked_log(sparse)
        x = self.stem(torch.cat([image, observed, mask], 1)).tanh()
        gradients = tuple(0.1 * head(F.avg_pool2d(x, 2**r)) for r, head in enumerate(self.heads))
        weights = tuple(torch.sigmoid(head(F.avg_pool2d(x, 2**r))) + 0.1 for r, head in enumerate(self.heads))
        return Fields(gradients, weights, torch.sigmoid(self.trust(x)), Detail(self.detail(x)))

    def integrate(self, fields: Fields, sparse: Tensor, warm_start: Tensor | None = None) -> tuple[Tensor, SolveInfo]:
        observed, mask = masked_log(downsample_sparse(sparse)[0])
        return integrate(fields.gradients, observed, mask, fields.confidence, fields.weights, warm_start=warm_start)

    def refine(self, fields: Fields, log_depth: Tensor, sparse: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        fine = F.interpolate(log_depth, scale_factor=4, mode="bilinear")
        assert isinstance(fields.refinement, Detail)
        detail = F.pixel_shuffle(fields.refinement.detail, 4)
        depth = (fine + 0.05 * detail.tanh()).exp()
        return depth, fine.exp(), depth * F.softplus(detail)


@pytest.fixture(scope="session", name="Tiny")
def tiny_network() -> type[TinyNetwork]:
    return TinyNetwork
