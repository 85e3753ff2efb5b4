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


class Points:
    """The measurements of a batch, N in all: all that is computed here is computed for them alone."""

    def __init__(
        self,
        mask: Tensor,  # [B, 1, h, w], 0 or 1
    ) -> None:
        self.shape = mask.shape
        self.image, _, self.row, self.column = torch.nonzero(mask, as_tuple=True)  # [N] each

    def of(self, values: Tensor) -> Tensor:  # [B, 1, h, w] → [N]
        """A map at the measurements."""
        return values[self.image, 0, self.row, self.column]

    def on_map(self, values: Tensor) -> Tensor:  # [N] → [B, 1, h, w]
        """Values of the measurements on a map, 0 where nothing was measured."""
        empty = values.new_zeros(self.shape)
        return empty.index_put((self.image, torch.zeros_like(self.image), self.row, self.column), values)

    def blocks(self, window: int) -> tuple[Tensor, tuple[int, int, int]]:
        """[N], the number of the block of `window` × `window` cells that each lies in; and images, rows, columns."""
        size = (self.shape[0], -(-self.shape[2] // window), -(-self.shape[3] // window))
        return (self.image * size[1] + self.row // window) * size[2] + self.column // window, size

    def others(self, values: Tensor, window: int) -> Tensor:  # [N, C] → [N, C]
        """Per measurement, the sum of `values` over its block and the eight around it, without its own."""
        block, size = self.blocks(window)
        sums = values.new_zeros(size[0] * size[1] * size[2], values.shape[1]).index_add_(0, block, values)
        around = F.avg_pool2d(sums.view(*size, -1).permute(0, 3, 1, 2), 3, stride=1, padding=1, divisor_override=1)
        return around.permute(0, 2, 3, 1).reshape(len(sums), -1)[block] - values


@dataclass
class Surroundings:
    """What a measurement's neighbours say of it."""

    points: Points
    features: Tensor  # [N, FEATURES]
    told: Tensor  # bool [N], there are enough others to say something


@torch.no_grad()
def surroundings(
    log_depth: Tensor,  # [B, 1, h, w], in units of the scene's relief
    mask: Tensor,  # [B, 1, h, w], 0 or 1
) -> Surroundings:
    """See the module's text. Per window: distance from the plane, the same in scatters, how many others there are
    (logarithm), and the share of those at the same depth. Last, the logarithm of the share of plainly wrong ones among
    all: far from the others and nearly alone at their depth."""
    points = Points(mask)
    z = points.of(log_depth)
    y, x = ((at.to(z) - side / 2) / 16 for at, side in zip((points.row, points.column), mask.shape[2:], strict=True))
    weight = torch.ones_like(z)
    for _ in range(FITS):
        fits = [_distance_from_plane(points, z, weight, x, y, window) for window in WINDOWS]
        scatters = _smallest_that_tells([fit[1] for fit in fits[1:]], [fit[2] for fit in fits[1:]])
        weight = 1 / (1 + (scatters / _HALF).square()).square()
    alike = [_same_depth(points, z, window) for window in WINDOWS]
    counts = [count for _, count in alike]
    rows = []
    for (apart, scatters, _), (same, count) in zip(fits, alike, strict=True):
        rows += [apart.clamp(-_CLIP, _CLIP), scatters.clamp(-_CLIP, _CLIP), count.log1p(), (same + 0.5) / (count + 1)]
    far = _smallest_that_tells([fit[1] for fit in fits], counts).abs()
    alone = _smallest_that_tells([same / count.clamp_min(1) for same, count in alike], counts) < 0.15
    told = counts[-1] >= 2 * ENOUGH
    wrong = told & ((far > 6) | ((far > 3) & alone))
    totals = z.new_zeros(2, len(mask)).index_add_(1, points.image, torch.stack([wrong.to(z), torch.ones_like(z)]))
    share = (totals[0] + _PLAIN) / (totals[1] + 1)
    return Surroundings(points, torch.stack([*rows, share.log()[points.image]], dim=1), told)


def _distance_from_plane(
    points: Points,
    z: Tensor,  # [N]
    weight: Tensor,  # [N]
    x: Tensor,  # [N]
    y: Tensor,  # [N]
    window: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """z − p, the same in units of the others' scatter about p, and their number; p is the weighted least-squares
    plane through the others, which few measurements leave level (a ridge of one measurement)."""
    products = torch.stack([torch.ones_like(z), x, y, z, x * x, x * y, y * y, x * z, y * z, z * z], dim=1)
    total, *sums = points.others(products * weight[:, None], window).unbind(1)
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


def _same_depth(points: Points, z: Tensor, window: int) -> tuple[Tensor, Tensor]:  # [N] each
    """Per measurement, how many others in its window lie within a step of its depth, and how many there are."""
    half = DEPTH_STEPS // 2
    step = (z / DEPTH_STEP).round().long().clamp(-half, half) + half
    block, size = points.blocks(window)
    steps = DEPTH_STEPS + 2  # one empty step at each end
    counts = z.new_zeros(size[0] * size[1] * size[2] * steps)
    counts = counts.index_add_(0, block * steps + step + 1, torch.ones_like(z)).view(*size, steps)
    counts = F.avg_pool2d(counts.permute(0, 3, 1, 2), 3, stride=1, padding=1, divisor_override=1).permute(0, 2, 3, 1)
    there = counts.reshape(-1, steps)[block]  # [N, steps]
    same = there.gather(1, step[:, None] + torch.arange(3, device=step.device)).sum(dim=1)
    return same - 1, there.sum(dim=1) - 1


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

    def forward(self, around: Surroundings) -> Tensor:  # → [N]
        if not len(around.features):  # which convolutions refuse
            return around.features[:, 0]
        logit: Tensor = self.layers(around.features.T[None, :, None])  # the measurements as a row of pixels
        return logit.flatten()
