"""How well each measurement agrees with those around it: what outliers are told by.

Two questions, in windows of several sizes. How far does a measurement lie from the plane through the *other* ones, in
units of their scatter about it? The plane is fitted again with those that lie far off weighed down, since one outlier
must not make others look right. And how many of the others lie at its own depth? A point beyond a depth edge is far
from the plane, but not alone. A third thing counts for all measurements of a photograph: how many of them are plainly
wrong, for where many are, a moderate contradiction is more likely one as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WINDOWS = (4, 8, 16)  # cells; a measurement is compared with its own block of that size and the eight around it
FITS = 3  # fits of the plane, each with the weights that the last one gives
FEATURES = 4 * len(WINDOWS) + 1
DEPTH_STEP, DEPTH_STEPS = 0.05, 81  # of relative log depth: two that differ by less lie at the same depth
ENOUGH = 3  # measurements from which a window says something
_SCATTER = 0.02  # of relative log depth: what sensors differ by on one surface
_HALF = 2.0  # scatters at which a measurement's weight in the next fit is a quarter
_CLIP = 6.0
_PLAIN = 0.05  # measurements that are plainly wrong in any photograph: where none is, the logarithm stays finite


@dataclass
class Surroundings:
    """What a measurement's neighbours say of it; all maps are 0 where nothing was measured."""

    features: Tensor  # [B, FEATURES, h, w]
    told: Tensor  # bool [B, 1, h, w], there are enough others to say something


@torch.no_grad()
def surroundings(
    log_depth: Tensor,  # [B, 1, h, w], in units of the scene's relief
    mask: Tensor,  # [B, 1, h, w], 0 or 1
) -> Surroundings:
    """See the module's text. Per window: distance from the plane, the same in scatters, how many others there are
    (logarithm), and the share of those at the same depth. Last, the logarithm of the share of plainly wrong ones among
    all: far from the others and nearly alone at their depth."""
    height, width = mask.shape[-2:]
    y = torch.arange(height, dtype=log_depth.dtype, device=log_depth.device).sub(height / 2).view(1, 1, -1, 1) / 16
    x = torch.arange(width, dtype=log_depth.dtype, device=log_depth.device).sub(width / 2).view(1, 1, 1, -1) / 16
    log_depth = log_depth * mask
    weight = mask
    for _ in range(FITS):
        fits = [_distance_from_plane(log_depth, weight, x, y, window) for window in WINDOWS]
        scatters = _smallest_that_tells([fit[1] for fit in fits[1:]], [fit[2] for fit in fits[1:]])
        weight = mask / (1 + (scatters / _HALF).square()).square()
    alike = [_same_depth(log_depth, mask, window) for window in WINDOWS]
    counts = [count for _, count in alike]
    maps = []
    for (apart, scatters, _), (same, count) in zip(fits, alike, strict=True):
        maps += [apart.clamp(-_CLIP, _CLIP), scatters.clamp(-_CLIP, _CLIP), count.log1p(), (same + 0.5) / (count + 1)]
    far = _smallest_that_tells([fit[1] for fit in fits], counts).abs()
    alone = _smallest_that_tells([same / count.clamp_min(1) for same, count in alike], counts) < 0.15
    told = (mask > 0) & (counts[-1] >= 2 * ENOUGH)
    wrong = told & ((far > 6) | ((far > 3) & alone))
    share = (wrong.sum(dim=(1, 2, 3), keepdim=True) + _PLAIN) / (mask.sum(dim=(1, 2, 3), keepdim=True) + 1)
    return Surroundings(torch.cat([*maps, share.log().expand_as(mask)], dim=1) * mask, told)


def _others(values: Tensor, window: int) -> Tensor:  # [B, C, h, w] → [B, C, h, w]
    """Per cell, the sum of `values` over its block and the eight around it, without its own."""
    height, width = values.shape[-2:]
    blocks = F.avg_pool2d(values, window, ceil_mode=True, divisor_override=1)
    around = F.avg_pool2d(blocks, 3, stride=1, padding=1, divisor_override=1)
    return F.interpolate(around, scale_factor=window)[..., :height, :width] - values


def _distance_from_plane(
    z: Tensor,  # [B, 1, h, w]
    weight: Tensor,  # [B, 1, h, w], 0 where nothing was measured
    x: Tensor,  # [1, 1, 1, w]
    y: Tensor,  # [1, 1, h, 1]
    window: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """z − p, the same in units of the others' scatter about p, and their number; p is the weighted least-squares
    plane through the others, which few measurements leave level (a ridge of one measurement)."""
    products = torch.cat([x.expand_as(z), y.expand_as(z), z, x * x + 0 * z, x * y + 0 * z, y * y + 0 * z], dim=1)
    products = torch.cat([torch.ones_like(z), products, x * z, y * z, z * z], dim=1) * weight
    total, *sums = _others(products, window)[:, :, None].unbind(1)
    count = total.clamp_min(1e-3)
    mx, my, mz, xx, xy, yy, xz, yz, zz = (one / count for one in sums)
    ridge = (window / 32) ** 2 / count
    cxx, cxy, cyy, cxz, cyz = xx - mx * mx, xy - mx * my, yy - my * my, xz - mx * mz, yz - my * mz
    a, c = cxx + ridge, cyy + ridge
    determinant = a * c - cxy * cxy
    gx, gy = (cxz * c - cyz * cxy) / determinant, (a * cyz - cxy * cxz) / determinant
    variance = zz - mz * mz - 2 * (gx * cxz + gy * cyz) + gx * gx * cxx + 2 * gx * gy * cxy + gy * gy * cyy
    apart = (z - mz - gx * (x - mx) - gy * (y - my)) * (total > 0.05)
    return apart, apart / (variance.clamp_min(0).sqrt() + _SCATTER), total.clamp_min(0)


def _same_depth(z: Tensor, mask: Tensor, window: int) -> tuple[Tensor, Tensor]:  # [B, 1, h, w] each
    """Per measurement, how many others in its window lie within a step of its depth, and how many there are."""
    image, _, row, column = torch.nonzero(mask, as_tuple=True)
    half = DEPTH_STEPS // 2
    step = (z[image, 0, row, column] / DEPTH_STEP).round().long().clamp(-half, half) + half
    down, across = row // window, column // window
    height, width = -(-mask.shape[-2] // window), -(-mask.shape[-1] // window)
    counts = z.new_zeros(len(z), DEPTH_STEPS + 2, height, width)  # one empty step at each end
    counts.index_put_((image, step + 1, down, across), z.new_ones(len(image)), accumulate=True)
    counts = F.avg_pool2d(counts, 3, stride=1, padding=1, divisor_override=1)
    near = counts[:, :-2] + counts[:, 1:-1] + counts[:, 2:]
    same, others = torch.zeros_like(z), torch.zeros_like(z)
    same[image, 0, row, column] = near[image, step, down, across] - 1
    others[image, 0, row, column] = counts.sum(dim=1)[image, down, across] - 1
    return same, others


def _smallest_that_tells(values: list[Tensor], counts: list[Tensor]) -> Tensor:
    """Of `values`, smallest window first, the first whose window holds `ENOUGH` measurements; else the last."""
    result = values[-1]
    for value, count in zip(values[-2::-1], counts[-2::-1], strict=True):
        result = torch.where(count >= ENOUGH, value, result)
    return result


class Trust(nn.Module):
    """Logit of each measurement being right, from its surroundings. At first all are, with a probability of 0.95."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(FEATURES, hidden, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, 1, 1),
        )
        last = self.layers[-1]
        assert isinstance(last, nn.Conv2d)
        assert last.bias is not None
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, 3.0)

    def forward(self, around: Surroundings) -> Tensor:  # → [B, 1, h, w]
        logit: Tensor = self.layers(around.features)
        return logit
