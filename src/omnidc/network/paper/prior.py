"""Monocular depth priors: the second depth channel of OMNI-DC v1.1."""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import CheckpointError, MissingExtraError
from omnidc.network.normalize import normalize_imagenet

DEPTH_ANYTHING_V2_LARGE = "depth-anything/Depth-Anything-V2-Large-hf"  # weights: CC BY-NC 4.0, non-commercial only


class MonocularPrior(Protocol):
    """A function that predicts relative inverse depth from a photograph; its scale and shift do not matter."""

    def __call__(
        self,
        image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
    ) -> Tensor: ...  # [B, 1, H, W], larger = nearer


def normalize_prior(
    inverse_depth: Tensor,  # [B, 1, H, W]
) -> Tensor:
    """Return (v − q02) / (q98 − q02) per image with the 2 % and 98 % quantiles; 0 for a constant map."""
    flat = inverse_depth.flatten(1).sort(dim=1).values  # torch.quantile refuses more than 2^24 values
    low, high = (quantile_of_sorted(flat, q).view(-1, 1, 1, 1) for q in (0.02, 0.98))
    spread = high - low
    return torch.where(spread > 0, (inverse_depth - low) / torch.where(spread > 0, spread, 1), 0)


def quantile_of_sorted(
    values: Tensor,  # [B, N], ascending
    q: float,
) -> Tensor:
    """Return the q-quantile of each row, linear between the two nearest ranks."""
    rank = q * (values.shape[1] - 1)
    below = int(rank)
    above = min(below + 1, values.shape[1] - 1)
    return torch.lerp(values[:, below], values[:, above], rank - below)


class DepthAnything:
    """Depth Anything V2 through `transformers` (the extra `prior`).

    The weights of V2-Large, which v1.1 was trained with, may not be used commercially (CC BY-NC 4.0); those of
    V2-Small may (Apache 2.0), with another result. A path to a downloaded folder works as well as a hub name.
    """

    patch = 14
    short_side = 518

    def __init__(self, name: str = DEPTH_ANYTHING_V2_LARGE, device: str | torch.device = "cpu") -> None:
        self.name, self.device = name, device
        self._model: Any = None

    @property
    def model(self) -> Any:
        """The `transformers` model, fetched when first used."""
        if self._model is None:
            try:
                from transformers import DepthAnythingForDepthEstimation
            except ImportError as error:
                raise MissingExtraError("transformers", "prior", "The monocular prior of OMNI-DC v1.1") from error
            try:
                self._model = DepthAnythingForDepthEstimation.from_pretrained(self.name).to(self.device).eval()
            except (OSError, ValueError) as error:
                raise CheckpointError(
                    f"The monocular prior {self.name!r} cannot be loaded; check the connection, or download it and "
                    "give its folder."
                ) from error
        return self._model

    @torch.no_grad()
    def __call__(self, image: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        size = network_size(height, width, self.short_side, self.patch)
        resized = F.interpolate(normalize_imagenet(image), size, mode="bicubic", align_corners=True)
        inverse_depth = self.model(pixel_values=resized).predicted_depth.unsqueeze(1)
        return F.interpolate(F.relu(inverse_depth), (height, width), mode="bilinear", align_corners=True)


def network_size(height: int, width: int, short_side: int, patch: int) -> tuple[int, int]:
    """Return the size at which the shorter side is `short_side` and both are the nearest multiples of `patch`."""
    scale = short_side / min(height, width)
    return round(height * scale / patch) * patch, round(width * scale / patch) * patch
