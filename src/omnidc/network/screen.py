"""Stage 1, screen: one confidence for each measurement, from the measurements around it.

Per measurement and per window, a weighted least-squares plane is fitted through the *other* measurements. Two fits give
robust weights to a third, so that one outlier does not make others look right. The leave-one-out residual follows from
the fit through all of them and the leverage of the measurement,

    r₋ᵢ = rᵢ / (1 − wᵢ hᵢ),   hᵢ = 1/n + dᵢᵀ (n C + R)⁻¹ dᵢ,

so that every sum is a pooled map. A measurement beyond a depth edge is far from the plane but near to others on its
side of it; the second group of features measures that. Last, neighbors are compared one by one: how many lie at the
same depth, and how many on the plane through the measurement with the slope of the fitted one? A small classifier turns
the features into a logit.

Of each block of 4 × 4 pixels the nearest and the farthest measurement are compared with those of the other blocks; one
between the two gets a confidence between theirs. The two candidates of a block are channels, [B, 2, H / 4, W / 4], so
that maps of blocks broadcast over them. Windows are 24 pixels wide and more, so that places within a block do not
matter.

Where measurements are dense, the eight pixels around say more than any window: a pixel beside a depth edge agrees with
at least three of them, a flying pixel or a speckle with fewer. `neighbor_evidence` adds that to the logit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnidc.integrate.energy import add_pairs
from omnidc.network.neighborhood import neighbor_pairs
from omnidc.network.normalize import EMPTY

BLOCK = 4  # pixels; of each block two candidates are judged
CANDIDATES = 2  # of a block
WINDOWS = (2, 8, 16)  # blocks; a window is such a cell and the eight around it: 24, 96 and 192 pixels
ROBUST_WINDOW = 16  # of the fits that only give weights to the next; a second one of 8 blocks found no more outliers
SIDE_WINDOW = 8  # in which the sides of the plane are compared
GRIDS = (2, 4)  # blocks; the nearest and the farthest of each such cell are compared with the measurements around
REACH = 2  # such cells to each side: 40 and 80 pixels in all
FEATURES = 2 + 3 * len(WINDOWS) + 5 + 3 * len(GRIDS)
IRLS_STEPS = 2  # fits that only give weights to the next
ROBUST_SCALE = 2.0  # scatters at which the weight of a measurement in the next fit is a quarter
SCATTER = 0.05  # standard deviations of the scene's log depth: what measurements of one surface differ by
ABSENT = 1e9  # scatters: the log depth of a neighbor that does not exist
CLIP = 6.0
MIN_DENSE = 4.0  # measured pixels of the eight around, beyond which a measurement is judged by them, too
SUPPORT = 2.5  # of eight neighbors that agree: as likely right as wrong
SUPPORT_SLOPE = 4.0  # of the logit, per neighbor that agrees
LEAST_EVIDENCE, MOST_EVIDENCE = -10.0, 6.0  # of the logit
AGREEMENT_LOGIT, AGREEMENT_SLOPE = -2.0, 2.0  # of the classifier: positive evidence counts half at this logit
MIN_NEIGHBORS = 3.0  # neighbors at which a window counts as much as the next larger one
ISOLATED = 0.5  # standard deviations from the others on its side at which a measurement counts half as isolated
OUTLIER_PRIOR = 0.05  # outliers in any image: the logarithm of their share stays finite
PRIOR_LOGIT = 3.0  # before training a measurement is right with a probability of 0.95


class OutlierClassifier(nn.Module):
    """Logit of each measurement being right, and how far dense neighbors agree, in [0, 1]: [B, 1, H, W] each.

    Both are 0 where there is no measurement.
    """

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.layer1 = nn.Linear(FEATURES, hidden)
        self.layer2 = nn.Linear(hidden, hidden)
        self.layer3 = nn.Linear(hidden, 1)
        nn.init.zeros_(self.layer3.weight)
        nn.init.constant_(self.layer3.bias, PRIOR_LOGIT)

    def forward(
        self,
        z: Tensor,  # [B, 1, H, W], log depth in standard deviations of the scene, 0 where not measured
        valid: Tensor,  # [B, 1, H, W], 1 = measured, 0 = not; H and W multiples of 4
    ) -> tuple[Tensor, Tensor]:
        candidates, given = block_candidates(z, valid)
        logit = self.classify(candidates, given)
        near, far = candidates.chunk(2, dim=1)
        # Back to pixels: a measurement between the two candidates is judged between them.
        near, far, low, high = (
            F.interpolate(one, scale_factor=BLOCK, mode="nearest") for one in (near, far, logit[:, :1], logit[:, 1:])
        )
        share = (z - near) / (far - near).clamp_min(1e-6)
        logit, evidence = torch.lerp(low, high, share.clamp(0, 1)), neighbor_evidence(z, valid)
        # Agreement does not raise a very low logit: all neighbors may measure through the same glass.
        share = torch.sigmoid(AGREEMENT_SLOPE * (logit - AGREEMENT_LOGIT))
        agreement = share * evidence.clamp_min(0)
        return (logit + evidence.clamp_max(0) + agreement) * valid, agreement * (valid / MOST_EVIDENCE)

    def classify(self, z: Tensor, valid: Tensor) -> Tensor:  # [B, 2, H / 4, W / 4] each → the same
        """Return the logit of each candidate."""
        x = candidate_features(z, valid)
        shape = x.shape[2:]
        x = x.flatten(2)  # [B, FEATURES, candidates]: a matrix product from the left needs no copy
        for layer in (self.layer1, self.layer2, self.layer3):
            x = torch.baddbmm(layer.bias[:, None], layer.weight.expand(x.shape[0], -1, -1), x)
            x = x if layer is self.layer3 else F.relu(x, inplace=True)
        return x.reshape(-1, *shape)


@torch.no_grad()
def neighbor_evidence(
    z: Tensor,  # [B, 1, H, W], log depth in standard deviations of the scene, 0 where not measured
    valid: Tensor,  # [B, 1, H, W], 1 = measured, 0 = not
) -> Tensor:  # [B, 1, H, W], anything where not measured
    """Return what the eight pixels around add to the logit of each measurement; 0 unless most of them are measured.

    A neighbor agrees by 1 / (1 + (d / `SCATTER`)²), d being the distance in log depth; k of eight that agree add
    `SUPPORT_SLOPE` (k − `SUPPORT`), within bounds.
    """
    around = F.pad(torch.where(valid > 0, z / SCATTER, ABSENT), (1, 1, 1, 1), value=ABSENT)
    agreeing = torch.zeros_like(z)
    for near, far, first, second in neighbor_pairs(*z.shape[-2:]):
        close = _closeness(around[near] - around[far])
        agreeing = agreeing + close[first] + close[second]
    count = F.avg_pool2d(valid, 3, stride=1, padding=1) * 9 - valid
    dense = ((count - MIN_DENSE) / (8 - MIN_DENSE)).clamp(0, 1)
    evidence = SUPPORT_SLOPE * (8 * agreeing / count.clamp_min(1) - SUPPORT)
    return dense * evidence.clamp(LEAST_EVIDENCE, MOST_EVIDENCE)


def block_candidates(
    z: Tensor,  # [B, 1, H, W], 0 where not measured
    valid: Tensor,  # [B, 1, H, W], 1 = measured, 0 = not
) -> tuple[Tensor, Tensor]:  # [B, 2, H / 4, W / 4] each
    """Return the nearest and the farthest measurement of each block (0 where there is none), and 1 where they count."""
    near = -F.max_pool2d(torch.where(valid > 0, -z, -torch.inf), BLOCK)
    far = F.max_pool2d(torch.where(valid > 0, z, -torch.inf), BLOCK)
    measured = near < EMPTY
    near, far = torch.where(measured, near, 0), torch.where(measured, far, 0)
    given = torch.cat([measured, far > near], dim=1).to(z.dtype)  # the same measurement is no candidate twice
    return torch.cat([near, far], dim=1), given


def candidate_features(
    z: Tensor,  # [B, 2, H / 4, W / 4]
    valid: Tensor,  # [B, 2, H / 4, W / 4], 0 or 1
) -> Tensor:  # [B, FEATURES, 2, H / 4, W / 4]
    """Return all features of each candidate."""
    return torch.stack([*local_features(z, valid), *neighborhood_features(z, valid)], dim=1)


@torch.no_grad()
def local_features(
    z: Tensor,  # [B, 2, h, w], nearest and farthest of each block
    valid: Tensor,  # [B, 2, h, w], 0 or 1
) -> list[Tensor]:  # each [B, 2, h, w]
    """Return the share of the candidates in the four blocks around that agree with each, and their log number."""
    height, width = z.shape[-2:]
    planes = [one[:, k : k + 1] for one in (F.pad(z, (1, 1, 1, 1)), F.pad(valid, (1, 1, 1, 1))) for k in range(2)]
    count, agreeing = torch.zeros_like(z[:, :1]), torch.zeros_like(z)
    for row, column in ((0, 1), (1, 0), (1, 2), (2, 1)):
        place = (..., slice(row, row + height), slice(column, column + width))
        for values, given in zip(planes[:2], planes[2:]):
            count = count + given[place]
            apart = z - values[place]
            agreeing = agreeing + given[place] / (1 + apart * apart * SCATTER**-2)
    return [agreeing / (count + 0.5), count.log1p().expand_as(z)]


@torch.no_grad()
def neighborhood_features(
    z: Tensor,  # [B, 2, h, w]
    valid: Tensor,  # [B, 2, h, w], 0 or 1
) -> list[Tensor]:  # each [B, 2, h, w]
    """Return per-measurement features for outlier detection; see the module's text.

    Per window: the leave-one-out residual, its magnitude in units of the others' scatter, and the logarithm of the
    number of others. Then the residual of the finest window that has others, and per grid what `_agreement` returns.
    Then the distance from the others on the same side of the plane and the logarithm of their number. Last, the
    logarithms of two shares of all measurements: of those far from the plane, and of those that are also far from the
    others on their side. The second distinguishes images with outliers from images with depth edges.
    """
    position = _block_positions(z)
    weight = valid
    for _ in range(IRLS_STEPS):
        sums = _block_sums(z, weight)
        scaled = _leave_one_out(z, weight, sums, position, ROBUST_WINDOW).scaled
        weight = valid / (1 + (scaled / ROBUST_SCALE).square()).square()
    sums = _block_sums(z, weight)
    fits = [_leave_one_out(z, weight, sums, position, window) for window in WINDOWS]
    rows = []
    for fit in fits:
        rows += [fit.residual.clamp(-CLIP, CLIP), fit.scaled.abs().clamp_max(CLIP), fit.others.log1p()]
    others = [fit.others for fit in fits]
    scaled = _finest_supported([fit.scaled for fit in fits], others)
    rows.append(scaled.clamp(-CLIP, CLIP))
    for grid in GRIDS:
        rows += _agreement(z, valid, fits[1].slope, grid)
    distance, count = _side_features(z, valid, _finest_supported([fit.residual for fit in fits], others))
    outlier = valid * torch.sigmoid(scaled.abs() - CLIP)
    isolated = outlier * torch.sigmoid((distance / ISOLATED - 1) * 5)
    return [*rows, distance, count, _log_share(outlier, valid), _log_share(isolated, valid)]


def _log_share(some: Tensor, valid: Tensor) -> Tensor:  # [B, 2, h, w] each → the same
    """Return the logarithm of the share of `some` among all measurements of an image."""
    whole = (1, 2, 3)
    share = (some.sum(whole, keepdim=True) + OUTLIER_PRIOR) / (valid.sum(whole, keepdim=True) + 1)
    return share.log().expand_as(some)


@dataclass(frozen=True)
class _Fit:
    """One window's plane, compared with each measurement without its own part; [B, 2, h, w] unless it says so."""

    slope: tuple[Tensor, Tensor]  # [B, 1, h, w] each, of the plane along columns and rows, per cell of the last window
    residual: Tensor  # r₋ᵢ, 0 without others
    scaled: Tensor  # r₋ᵢ over the scatter of the others
    others: Tensor  # ≥ 0, sum of the weights of the others


def _block_sums(z: Tensor, weight: Tensor) -> Tensor:  # [B, 2, h, w] → [B, 3, h, w]
    """Return Σ w, Σ w z, Σ w z² of each block."""
    first = weight * z
    return torch.stack([weight.sum(1), first.sum(1), (first * z).sum(1)], dim=1)


def _leave_one_out(z: Tensor, weight: Tensor, sums: Tensor, position: tuple[Tensor, Tensor], window: int) -> _Fit:
    """Fit a plane per cell of `window` blocks and its eight neighbors; see the module's equations."""
    x, y = position
    n, s, q = sums.chunk(3, dim=1)
    moments = torch.cat([n, n * x, n * y, s, n * x * x, n * x * y, n * y * y, s * x, s * y, q], dim=1)
    total, *means = _window_sums(moments, window).chunk(10, dim=1)
    count = total.clamp_min(1e-3)
    mx, my, mz, xx, xy, yy, xz, yz, zz = (one / count for one in means)
    ridge = (window / WINDOWS[-1]) ** 2 / count  # of one measurement at a cell's distance: few leave the plane level
    a, b, c = xx - mx * mx + ridge, xy - mx * my, yy - my * my + ridge
    cxz, cyz = xz - mx * mz, yz - my * mz
    inverse = 1 / (a * c - b * b).clamp_min(1e-12)
    gx, gy = (cxz * c - cyz * b) * inverse, (cyz * a - cxz * b) * inverse
    squares = (zz - mz * mz - gx * cxz - gy * cyz).clamp_min(0) * total  # Σ w r², and the ridge's part
    maps = torch.cat([mx, my, mz, gx, gy, a * inverse, b * inverse, c * inverse, count, total, squares], dim=1)
    mx, my, mz, gx, gy, a, b, c, count, total, squares = _to_blocks(maps, window, z).chunk(11, dim=1)
    dx, dy = x - mx, y - my
    plane = mz + gx * dx + gy * dy
    leverage = (1 + c * dx * dx - 2 * b * dx * dy + a * dy * dy) / count
    # From here on for each candidate: [B, 1, h, w] of blocks against [B, 2, h, w].
    others = (total - weight).clamp_min(0)
    r = z - plane
    left = (1 - weight * leverage).clamp_min(1e-2)
    support = others + 0.5
    loo = r / left
    variance = (squares - weight * r * loo).clamp_min(0) / support
    residual = loo * (others / support)
    return _Fit((gx, gy), residual, residual / (variance.sqrt() + SCATTER), others)


def _agreement(
    z: Tensor,  # [B, 2, h, w]
    valid: Tensor,  # [B, 2, h, w], 0 or 1
    slope: tuple[Tensor, Tensor],  # [B, 1, h, w] each, along columns and rows, per cell of the last window
    grid: int,  # blocks along a cell
) -> list[Tensor]:  # each [B, 2, h, w]
    """Return the share of neighbors at the depth of each measurement, the same along the slope, their log number.

    Neighbors are the nearest and the farthest measurement of each cell around its own, up to `REACH` cells away. Every
    one counts by 1 / (1 + (d / `SCATTER`)²), d being the distance in log depth.
    """
    height, width = z.shape[-2:]
    near, far, one, two = _cell_extremes(z, valid, grid)
    count = one + two
    count = F.avg_pool2d(F.pad(count, (REACH,) * 4), 2 * REACH + 1, stride=1) * (2 * REACH + 1) ** 2 - count
    count = F.interpolate(count, scale_factor=grid, mode="nearest")[..., :height, :width]
    # Where there is none, one that is too far away to count: so that all are summed alike.
    near, far = torch.where(one > 0, near / SCATTER, ABSENT), torch.where(two > 0, far / SCATTER, ABSENT)
    # Each candidate is compared with both at once: [B, 4, …], two candidates with the nearest, then with the farthest.
    cells = F.pad(torch.cat([near, near, far, far], dim=1), (REACH,) * 4, value=ABSENT)
    blocks = F.interpolate(cells, scale_factor=grid, mode="nearest")
    step = grid / WINDOWS[-1] / SCATTER
    across, down = (one * step for one in slope)
    own = torch.cat([z, z], dim=1) / SCATTER
    flat, sloped = torch.zeros_like(own), torch.zeros_like(own)
    around = range(-REACH, REACH + 1)
    for i, j in ((i, j) for i in around for j in around if i or j):
        top, left = (i + REACH) * grid, (j + REACH) * grid
        apart = own - blocks[..., top : top + height, left : left + width]
        flat = flat + _closeness(apart)
        sloped = sloped + _closeness(apart + (j * across + i * down))
    flat, sloped = ((one[:, :2] + one[:, 2:]) / (count + 0.5) for one in (flat, sloped))
    return [flat, sloped, count.log1p().expand_as(z)]


def _closeness(apart: Tensor) -> Tensor:
    """Return 1 / (1 + d²)."""
    return (apart * apart + 1).reciprocal()


def _cell_extremes(z: Tensor, valid: Tensor, grid: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return nearest and farthest measurement of each cell of `grid` blocks, and 1 where it counts; all [B, 1, …]."""
    height, width = z.shape[-2:]
    end = (0, -width % grid, 0, -height % grid)
    highest = [
        F.max_pool2d(F.pad(torch.where(valid > 0, x, -torch.inf).amax(1, keepdim=True), end, value=-torch.inf), grid)
        for x in (-z, z)
    ]
    near, far = -highest[0], highest[1]
    measured = near < EMPTY
    near, far = torch.where(measured, near, 0), torch.where(measured, far, 0)
    return near, far, measured.to(z.dtype), (far > near).to(z.dtype)


def _side_features(z: Tensor, valid: Tensor, residual: Tensor) -> list[Tensor]:
    """Return the distance of each measurement from the others on its side of the plane, and their log number."""
    beyond = torch.sigmoid(residual / SCATTER)
    here = valid * beyond
    blocks = torch.stack([valid.sum(1), (valid * z).sum(1), here.sum(1), (here * z).sum(1)], dim=1)
    own = beyond.square() + (1 - beyond).square()
    n, s, n_far, s_far = _to_blocks(_window_sums(blocks, SIDE_WINDOW), SIDE_WINDOW, z).chunk(4, dim=1)
    count = (torch.lerp(n - n_far, n_far, beyond) - own).clamp_min(0)
    total = torch.lerp(s - s_far, s_far, beyond) - own * z
    distance = (z * count - total) / (count + 0.5)
    return [distance.abs().clamp_max(CLIP), count.log1p()]


def _finest_supported(values: list[Tensor], counts: list[Tensor]) -> Tensor:
    """Blend of `values`, finest window first: each gives way to the next as its number of others falls."""
    result = values[-1]
    for value, count in zip(values[-2::-1], counts[-2::-1], strict=True):
        squared = count.square()
        result = torch.lerp(result, value, squared / (squared + MIN_NEIGHBORS**2))
    return result


def _block_positions(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return x and y of the blocks, [1, 1, 1, w] and [1, 1, h, 1], from the middle in cells of the largest window."""
    height, width = z.shape[-2:]
    x = (torch.arange(width, dtype=z.dtype, device=z.device) - (width - 1) / 2) / WINDOWS[-1]
    y = (torch.arange(height, dtype=z.dtype, device=z.device) - (height - 1) / 2) / WINDOWS[-1]
    return x.view(1, 1, 1, -1), y.view(1, 1, -1, 1)


def _window_sums(blocks: Tensor, window: int) -> Tensor:  # [B, C, h, w] → [B, C, ⌈h / window⌉, ⌈w / window⌉]
    """Return the sums over cells of `window` blocks and the eight around each."""
    height, width = blocks.shape[-2:]
    blocks, step = F.pad(blocks, (0, -width % window, 0, -height % window)), window
    while step > 1:
        blocks, step = add_pairs(add_pairs(blocks, -2), -1), step // 2
    return F.avg_pool2d(blocks, 3, stride=1, padding=1) * 9  # padding counts: beyond the border there is nothing


def _to_blocks(cells: Tensor, window: int, like: Tensor) -> Tensor:
    """Return the values of cells of `window` blocks for each of their blocks."""
    height, width = like.shape[-2:]
    return F.interpolate(cells, scale_factor=window, mode="nearest")[..., :height, :width]
