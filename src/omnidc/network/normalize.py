"""Input preparation shared by the networks: colors, median scale, logarithm, padding, quarter-resolution depth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError

IMAGENET_MEAN = (0.485, 0.456, 0.406)  # RGB in [0, 1]
IMAGENET_STD = (0.229, 0.224, 0.225)
NORM_CELL = 8  # pixels
EMPTY = 1e30  # depths are below: onnxruntime's maximum of nothing but −∞ is the lowest float, so `isfinite` fails there
NORM_TAIL = 0.15  # share of the measurements beyond each of the two quantiles: outliers do not reach them
NORM_WIDTH = 2.0729  # distance of these quantiles of a normal distribution, in standard deviations
PRIOR_LOG_STD = 0.4  # of log depth: spread of a scene without measurements
PRIOR_COUNT = 3.0  # measurements that the prior counts for
MIN_LOG_STD, MAX_LOG_STD = 0.03, 1.2
GUESS_TAIL, GUESS_WIDTH = 10, 2.5631  # a tenth of the first guess lies beyond each of its two quantiles


def normalize_imagenet(
    image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
) -> Tensor:
    """Normalize to zero mean and unit variance per channel, by ImageNet's statistics."""
    mean = image.new_tensor(IMAGENET_MEAN).view(3, 1, 1)
    std = image.new_tensor(IMAGENET_STD).view(3, 1, 1)
    return (image - mean) / std


def masked_median(
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
) -> Tensor:
    """Return [B, 1, 1, 1]: per image the median of its measurements, 1 where it has none.

    For an even count it is the lower middle value, so that it is always one of the measurements.
    """
    medians = sparse.new_ones(len(sparse))
    for index, depth in enumerate(sparse):
        valid = depth[depth > 0]
        if valid.numel():
            medians[index] = valid.median()
    return medians.view(-1, 1, 1, 1)


@dataclass(frozen=True)
class Normalization:
    """Scale of a scene, from its measurements; each [B, 1, 1, 1]."""

    median: Tensor  # > 0, in the unit of the measurements; one of them, or 1 where there are none
    log_std: Tensor  # > 0, about the standard deviation of log depth


def normalization(
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement; H and W multiples of NORM_CELL
) -> Normalization:
    """Return median and spread of the measurements; of each cell of 8 × 8 pixels only the nearest counts.

    So clusters of points weigh little, and a sort of few values replaces a median over pixels, which does not export.
    The spread is the distance of two quantiles; few measurements are mixed with a prior.
    """
    batch = sparse.shape[0]
    cells, valid = downsample_sparse(sparse, NORM_CELL)
    valid = valid.reshape(batch, -1)
    count = valid.sum(dim=1, keepdim=True)
    ordered = torch.where(valid > 0, cells.reshape(batch, -1), torch.inf).sort(dim=1).values
    ordered = torch.where(torch.isinf(ordered), 1.0, ordered)

    def at(rank: Tensor) -> Tensor:  # [B, 1] → [B, 1]
        return ordered.gather(1, rank.clamp_min(0).long())

    def log_quantile(share: float) -> Tensor:
        rank = (count - 1).clamp_min(0) * share
        below = rank.floor()
        low, high = at(below).log(), at(torch.minimum(below + 1, (count - 1).clamp_min(0))).log()
        return low + (rank - below) * (high - low)

    width = (log_quantile(1 - NORM_TAIL) - log_quantile(NORM_TAIL)) / NORM_WIDTH
    log_std = _mix_with_prior(width, count)
    return Normalization(at((count - 1) // 2).view(-1, 1, 1, 1), log_std.view(-1, 1, 1, 1))


@torch.no_grad()
def refine_spread(
    norm: Normalization,
    guess: Tensor,  # [B, 1, h, w], dense log depth
    valid: Tensor,  # [B, 1, H, W], 1 = measured, 0 = not
) -> Normalization:
    """Set `log_std` to the geometric mean of the spread of the measurements and that of a dense first guess.

    Measurements may lie on a few objects only; the guess counts every part of the image alike.
    """
    ordered = guess.flatten(1).sort(dim=1).values
    beyond = ordered.shape[1] // GUESS_TAIL
    width = (ordered[:, -1 - beyond] - ordered[:, beyond]) / GUESS_WIDTH
    dense = _mix_with_prior(width, valid.flatten(1).sum(1)).view(-1, 1, 1, 1)
    return replace(norm, log_std=(norm.log_std * dense).sqrt())


def _mix_with_prior(
    width: Tensor,  # [B, …], standard deviation of log depth
    count: Tensor,  # [B, …], measurements
) -> Tensor:
    mixed = (count * width.square() + PRIOR_COUNT * PRIOR_LOG_STD**2) / (count + PRIOR_COUNT)
    return mixed.sqrt().clamp(MIN_LOG_STD, MAX_LOG_STD)


def masked_log(
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement
) -> tuple[Tensor, Tensor]:
    """Return the natural logarithm where there is a measurement (0 elsewhere), and a mask of 0 and 1."""
    valid = sparse > 0
    # log of 1 rather than of 0: the masked branch must stay finite for the backward pass too
    return torch.where(valid, sparse, 1.0).log(), valid.to(sparse.dtype)


def downsample_sparse(
    sparse: Tensor,  # [B, 1, H, W], 0 = no measurement; H and W multiples of `factor`
    factor: int = 4,
) -> tuple[Tensor, Tensor]:
    """Return per `factor` × `factor` cell the nearest measurement (0 where there is none), and a mask of 0 and 1."""
    valid = sparse > 0
    nearest = -F.max_pool2d(torch.where(valid, -sparse, -torch.inf), factor)
    mask = nearest < EMPTY
    return torch.where(mask, nearest, 0.0), mask.to(sparse.dtype)


def pad_to_multiple(
    image: Tensor,  # [B, 3, H, W], RGB in [0, 1]
    sparse: Tensor,  # [B, 1, H, W]
    multiple: int,
    mode: str,
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Pad at the bottom and on the right up to the next multiple; return also the size before.

    mode: "replicate" repeats the image's last row and column; "mean" continues with ImageNet's mean color, which
    is 0 after `normalize_imagenet`. Sparse depth gets no measurements there.
    """
    if mode not in ("replicate", "mean"):
        raise ConfigError(f'Padding mode {mode!r} does not exist; use "replicate" or "mean".')
    height, width = image.shape[-2:]
    bottom, right = -height % multiple, -width % multiple
    if bottom == 0 and right == 0:
        return image, sparse, (height, width)
    sparse = F.pad(sparse, (0, right, 0, bottom))
    if mode == "replicate":
        image = F.pad(image, (0, right, 0, bottom), mode="replicate")
    else:
        padded = image.new_tensor(IMAGENET_MEAN).view(1, 3, 1, 1)
        padded = padded.repeat(len(image), 1, height + bottom, width + right)
        padded[..., :height, :width] = image
        image = padded
    return image, sparse, (height, width)
