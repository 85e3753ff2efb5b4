"""The losses of depth completion, each a function of tensors that returns one value per image, [B].

Notation: D truth, d prediction, V the pixels where the truth is known. `truth` holds 0 (or NaN) where it is unknown.
Depths given to the linear terms are relative to the median of the truth (`normalise`), so that images near and far
count alike. A term over an empty set is 0, with gradient 0. Truth that is unknown never reaches an equation; a
prediction that is not finite stays so, and the loop skips the batch.

`released=True` computes a term as the authors' release does, with what looks like its mistakes: predictions beyond
`max_depth` receive no gradient, the noise flag is one-sided, predictions are pooled over unknown pixels too, and the
Laplace term lacks its constant. There the batch is summed; ours is averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.network.interface import Prediction

RELEASED_CELL = 4  # the released integrator's cell, in pixels; ours is told from the network's maps
RELEASED_TINY = 1e-4  # the release takes smaller depths for unknown
LN2 = math.log(2.0)
TYPICAL = 0.05  # log depth: error of an interpolation that leaves the weights of the terms as they are
RELATIVE = ("l1_log", "gradient_matching_log", "gradient_l1")  # terms that `relative_weight` applies to


def known(truth: Tensor) -> Tensor:  # [B, 1, H, W] → bool
    """V: where the truth is known."""
    return torch.isfinite(truth) & (truth > 0)


def median_of(truth: Tensor) -> Tensor:  # [B, 1, H, W] → [B, 1, 1, 1]
    """Median over V of each image (the lower middle value of an even count); 1 where nothing is known."""
    flat = torch.where(known(truth), truth, torch.nan).flatten(1)
    return torch.nan_to_num(flat.nanmedian(dim=1).values, nan=1.0)[:, None, None, None]


def image_mean(values: Tensor, weight: Tensor) -> Tensor:  # [B, …], [B, …] ≥ 0 → [B]
    """Σ w v / Σ w of each image; 0 where Σ w = 0."""
    weight = weight.to(values.dtype)
    return (values * weight).flatten(1).sum(1) / (weight.flatten(1).sum(1) + 1e-8)


def _clamped(depth: Tensor, truth: Tensor, max_depth: float | None, released: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Prediction, truth and V with both depths cut at `max_depth`; unknown truth becomes 1, out of V.

    Ours cuts the prediction only where the truth is beyond, so that one too far away is still called back.
    """
    mask = known(truth)
    if released:
        limit = math.inf if max_depth is None else max_depth
        target = torch.nan_to_num(truth).clamp(0, limit)
        return depth.clamp(0, limit), target, target > RELEASED_TINY
    target = torch.where(mask, truth, torch.ones_like(truth))
    if max_depth is not None:
        depth = torch.where(target >= max_depth, depth.clamp(max=max_depth), depth)
        target = target.clamp(max=max_depth)
    return depth, target, mask


def l1(
    depth: Tensor,  # [B, 1, H, W]
    truth: Tensor,  # [B, 1, H, W]
    weight: Tensor | None = None,  # [B, 1, H, W], weight of each pixel, for example `edge_band`
    *,
    max_depth: float | None = 10.0,
    released: bool = False,
) -> Tensor:
    """mean_V |d − D|, both cut at `max_depth`."""
    depth, target, mask = _clamped(depth, truth, max_depth, released)
    return image_mean((depth - target).abs(), mask if weight is None else mask * weight)


def l1_log(
    depth: Tensor,  # [B, 1, H, W] > 0
    truth: Tensor,  # [B, 1, H, W]
    weight: Tensor | None = None,  # [B, 1, H, W]
) -> Tensor:
    """mean_V |ln d − ln D|: the relative error, whatever the depth."""
    mask = known(truth)
    error = (depth.log() - torch.where(mask, truth, torch.ones_like(truth)).log()).abs()
    return image_mean(error, mask if weight is None else mask * weight)


def laplace(
    depth: Tensor,  # [B, 1, H, W]
    truth: Tensor,  # [B, 1, H, W]
    log_scale: Tensor,  # [B, 1, H, W], γ = ln b, b in the unit of the depths
    *,
    max_depth: float | None = 10.0,
    min_log_scale: float = -2.0,
    released: bool = False,
) -> Tensor:
    """mean_V |d − D| / b + ln 2b, with γ = ln b cut below at `min_log_scale`: the negative log likelihood of Laplace.

    The release leaves out ln 2.
    """
    depth, target, mask = _clamped(depth, truth, max_depth, released)
    gamma = log_scale.clamp(min=min_log_scale)
    likelihood = (depth - target).abs() * torch.exp(-gamma) + gamma
    return image_mean(likelihood if released else likelihood + LN2, mask)


def laplace_log(
    depth: Tensor,  # [B, 1, H, W] > 0
    truth: Tensor,  # [B, 1, H, W]
    scale: Tensor,  # [B, 1, H, W] > 0, Laplace scale b of the depth, in its unit
    *,
    min_log_scale: float = -7.0,
) -> Tensor:
    """mean_V |ln d − ln D| / s + ln 2s, s = b / d the relative scale, ln s cut below at `min_log_scale`.

    d in s is not detached: a network whose head predicts s gives b = s d, and then the two dependences on d cancel
    in the gradient, as they must; the depth learns only from the error.
    """
    mask = known(truth)
    error = (depth.log() - torch.where(mask, truth, torch.ones_like(truth)).log()).abs()
    log_s = (scale.log() - depth.log()).clamp(min=min_log_scale)
    return image_mean(error * torch.exp(-log_s) + log_s + LN2, mask)


def cell_of(fine: Tensor, coarse: Tensor) -> int:  # [B, …, H, W], [B, …, h, w]
    """Pixels along a cell of the integrator, from the sizes of a full and a reduced map."""
    return max(1, round(fine.shape[-1] / coarse.shape[-1]))


def _pool(values: Tensor, size: int) -> Tensor:
    """Means over size × size cells; a last, smaller cell averages the pixels that exist."""
    return F.avg_pool2d(values, size, ceil_mode=True) if size > 1 else values


def _differences(values: Tensor) -> tuple[Tensor, Tensor]:
    """Backward differences along x and y, without the column and row that carry nothing."""
    return values[..., :, 1:] - values[..., :, :-1], values[..., 1:, :] - values[..., :-1, :]


def _pairs(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weight of each difference: the smaller of its two cells'."""
    return (
        torch.minimum(weight[..., :, 1:], weight[..., :, :-1]),
        torch.minimum(weight[..., 1:, :], weight[..., :-1, :]),
    )


def _join(x: Tensor, y: Tensor) -> Tensor:  # [B, 1, h, w − 1], [B, 1, h − 1, w] → [B, n]
    return torch.cat((x.flatten(1), y.flatten(1)), dim=1)


def truth_gradients(
    truth: Tensor,  # [B, 1, H, W]
    levels: int,
    cell: int = RELEASED_CELL,  # pixels along a cell of the finest level
    *,
    max_depth: float | None = 10.0,
    released: bool = False,
) -> list[tuple[Tensor, Tensor]]:
    """Per level: log-depth differences of the truth and their weights, both [B, n], x pairs before y pairs.

    Level r lives on cells of cell·2^r pixels whose value is the mean log depth of their known pixels. A difference
    weighs as much as the known share of the emptier of its two cells, so holes in the truth fade out instead of
    pulling. The release takes the logarithm of the mean depth of 4 × 4 pixels first, and flags a cell with any known
    pixel as whole.
    """
    result = []
    if released:
        _, target, mask = _clamped(truth, truth, max_depth, True)
        share = _pool(mask.to(truth.dtype), cell)
        means = _pool(target * mask, cell) / share.clamp(min=1e-8)
        flag = (share > 0).to(truth.dtype)
        log = torch.where(share > 0, means, torch.ones_like(means)).log()
        for level in range(levels):
            part = _pool(flag, 2**level)
            pooled = _pool(log * flag, 2**level) / part.clamp(min=1e-8)
            result.append((_join(*_differences(pooled)), _join(*_pairs((part > 0).to(truth.dtype)))))
        return result
    mask = known(truth)
    log = torch.where(mask, truth, torch.ones_like(truth)).log()
    cells, shares = _pool(log, cell), _pool(mask.to(log.dtype), cell)  # log is 0 out of V: the mean of V · ln D
    for level in range(levels):
        share = _pool(shares, 2**level)
        mean = _pool(cells, 2**level) / share.clamp(min=1e-8)
        result.append((_join(*_differences(mean)), _join(*_pairs(share))))
    return result


def gradient_l1(
    gradients: Sequence[Tensor],  # R × [B, 2, ceil(h / 2^r), ceil(w / 2^r)], as Fields.gradients
    truth: Tensor,  # [B, 1, H, W]
    *,
    max_depth: float | None = 10.0,
    released: bool = False,
) -> Tensor:
    """Σ_r mean |g_r − ∇ ln D_r| / R: L1 on the backward differences of log depth at every level of the integrator.

    The release takes one mean over the equations of all levels together (a level counts a quarter of the finer one)
    and cuts the truth at `max_depth`; ours has no such limit, being relative.
    """
    errors, weights = [], []
    cell = cell_of(truth, gradients[0])
    for level, (target, weight) in enumerate(
        truth_gradients(truth, len(gradients), cell, max_depth=max_depth, released=released)
    ):
        gradient = gradients[level]
        errors.append((_join(gradient[:, :1, :, 1:], gradient[:, 1:, 1:, :]) - target).abs())
        weights.append(weight)
    if released:
        return image_mean(torch.cat(errors, dim=1), torch.cat(weights, dim=1))
    return torch.stack([image_mean(error, weight) for error, weight in zip(errors, weights)]).mean(dim=0)


def _residual_matching(residual: Tensor, weight: Tensor) -> Tensor:  # [B, 1, h, w], [B, 1, h, w] → [B]
    """mean |∇R| over the pairs of both directions."""
    return image_mean(_join(*_differences(residual)).abs(), _join(*_pairs(weight)))


def gradient_matching(
    depth: Tensor,  # [B, 1, H, W]
    truth: Tensor,  # [B, 1, H, W]
    *,
    scales: int = 4,
    max_depth: float | None = 10.0,
    log: bool = False,
    released: bool = False,
) -> Tensor:
    """Σ_k mean |∇ R_k|, R_k = d − D (or ln d − ln D) pooled by 2^k over V, k = 0 … scales − 1.

    The release pools the prediction over all pixels, also unknown ones, pads the border by repetition, and counts a
    cell with any known pixel as whole; ours weighs a pair by the known share of its emptier cell.
    """
    total = depth.new_zeros(depth.shape[0])
    if released:
        depth, target, mask = _clamped(depth, truth, max_depth, True)
        for k in range(scales):
            size = 2**k
            height, width = depth.shape[-2:]
            pad = (0, -width % size, 0, -height % size)
            share = _pool(F.pad(mask.to(depth.dtype), pad, mode="replicate"), size)
            cells = _pool(F.pad(target * mask, pad, mode="replicate"), size) / share.clamp(min=1e-8)
            residual = _pool(F.pad(depth, pad, mode="replicate"), size) - cells
            total = total + _residual_matching(residual, (share > 0).to(depth.dtype))
        return total
    if log:
        mask = known(truth)
        difference = depth.log() - torch.where(mask, truth, torch.ones_like(truth)).log()
    else:
        depth, target, mask = _clamped(depth, truth, max_depth, False)
        difference = depth - target
    residual = torch.where(mask, difference, torch.zeros_like(difference))
    for k in range(scales):
        share = _pool(mask.to(residual.dtype), 2**k)
        total = total + _residual_matching(_pool(residual, 2**k) / share.clamp(min=1e-8), share)
    return total


def surface_normals(log_depth: Tensor, focal: float) -> Tensor:  # [B, 1, H, W] → [B, 3, H − 1, W − 1]
    """Unit normals of the surface seen by a camera of `focal` pixels whose axis meets the middle of the image.

    With g the forward differences of ln D and (u, v) a pixel's place from the middle, ∂P/∂u × ∂P/∂v is a multiple of
    (−f g_u, −f g_v, 1 + u g_u + v g_v). Depth itself has dropped out: normals do not depend on its unit.
    """
    height, width = log_depth.shape[-2:]
    x, y = _differences(log_depth)
    x, y = x[..., :-1, :], y[..., :, :-1]
    u = torch.arange(width - 1, dtype=log_depth.dtype, device=log_depth.device) - (width - 1) / 2
    v = torch.arange(height - 1, dtype=log_depth.dtype, device=log_depth.device)[:, None] - (height - 1) / 2
    return F.normalize(torch.cat([-focal * x, -focal * y, 1 + u * x + v * y], dim=1), dim=1)


def normals(
    depth: Tensor,  # [B, 1, H, W] > 0
    truth: Tensor,  # [B, 1, H, W]
) -> Tensor:
    """mean 1 − cos of the angle between the normals of prediction and truth, where a pixel and the next two are known.

    The camera is taken to have a focal length of the image's longer side: crops do not tell theirs.
    """
    mask = known(truth)
    focal = float(max(truth.shape[-2:]))
    target = surface_normals(torch.where(mask, truth, torch.ones_like(truth)).log(), focal)
    cosine = (surface_normals(depth.log(), focal) * target).sum(dim=1, keepdim=True)
    whole = mask[..., :-1, :-1] & mask[..., :-1, 1:] & mask[..., 1:, :-1]
    return image_mean(1 - cosine, whole)


def noise_target(
    sparse: Tensor,  # [B, 1, H, W], the measurements, 0 = none
    truth: Tensor,  # [B, 1, H, W], same unit
    injected: Tensor | None = None,  # bool [B, 1, H, W], measurements that a simulated sensor falsified
    cell: int = RELEASED_CELL,  # pixels along a cell of the integrator
    *,
    tolerance: float = 0.1,
    released: bool = False,
) -> tuple[Tensor, Tensor]:
    """Target confidence [B, 1, h, w] (0 = a cell holds a false measurement) and the mask of cells that count.

    Ours: a measurement is false when it was injected as noise or |ln o − ln D| > `tolerance`, nearer as well as
    farther; one without truth counts only when the sensor says what it injected. The release: o − D > 0.1 in units of
    the median, so that measurements too near are never false.
    """
    if released:
        given = sparse > RELEASED_TINY
        false = given & (sparse - torch.nan_to_num(truth) > 0.1)
        labelled = given
    else:
        given = sparse > 0
        comparable = given & known(truth)
        ones = torch.ones_like(truth)
        error = (torch.where(comparable, sparse, ones).log() - torch.where(comparable, truth, ones).log()).abs()
        false = comparable & (error > tolerance)
        labelled = comparable
        if injected is not None:
            false, labelled = false | (given & injected), given
    cell_false = F.max_pool2d(false.to(truth.dtype), cell, ceil_mode=True)
    cell_valid = F.max_pool2d(labelled.to(truth.dtype), cell, ceil_mode=True)
    return 1 - cell_false, cell_valid


def input_confidence(
    confidence: Tensor,  # [B, 1, h, w] in (0, 1)
    sparse: Tensor,  # [B, 1, H, W]
    truth: Tensor,  # [B, 1, H, W], same unit
    injected: Tensor | None = None,  # bool [B, 1, H, W]
    *,
    tolerance: float = 0.1,
    released: bool = False,
) -> Tensor:
    """mean −(t ln c + (1 − t) ln(1 − c)) over cells with a measurement, t = 0 where it is false (`noise_target`)."""
    cell = cell_of(truth, confidence)
    target, valid = noise_target(sparse, truth, injected, cell, tolerance=tolerance, released=released)
    entropy = F.binary_cross_entropy(confidence, target.to(confidence.dtype), reduction="none")
    return image_mean(entropy, valid)


def edge_band(
    truth: Tensor,  # [B, 1, H, W]
    *,
    gain: float,
    jump: float = 0.1,
    radius: int = 2,
) -> Tensor:
    """Pixel weights [B, 1, H, W]: 1 + gain within `radius` pixels of a depth edge (|Δ ln D| > `jump`), else 1."""
    mask = known(truth)
    log = torch.where(mask, truth, torch.ones_like(truth)).log()
    x, y = _differences(log)
    both_x, both_y = _pairs(mask.to(log.dtype))
    edge_x = ((x.abs() > jump) & (both_x > 0)).to(log.dtype)
    edge_y = ((y.abs() > jump) & (both_y > 0)).to(log.dtype)
    edge = torch.maximum(F.pad(edge_x, (1, 0)), F.pad(edge_x, (0, 1)))
    edge = torch.maximum(edge, torch.maximum(F.pad(edge_y, (0, 0, 1, 0)), F.pad(edge_y, (0, 0, 0, 1))))
    return 1 + gain * F.max_pool2d(edge, 2 * radius + 1, stride=1, padding=radius)


def relative_weight(
    guess: Tensor,  # [B, 1, h, w], log depth as interpolated before anything was learnt
    truth: Tensor,  # [B, 1, H, W], same unit, 0 = unknown
    floor: float,
) -> Tensor:
    """Weights [B] of images: `TYPICAL` / (e + `floor`), e = mean_V |guess − ln D|.

    Few points on a deep scene leave errors a hundred times those of many points on a shallow one, and their
    gradients drown what the latter could teach. With this weight all count by how much better than interpolation
    they became; `floor` is the error at which an image is good enough. Carries no gradient.
    """
    with torch.no_grad():
        guess = F.interpolate(guess, size=truth.shape[-2:], mode="bilinear")
        return TYPICAL / (l1_log(guess.exp(), truth) + floor)


@dataclass
class LossConfig:
    """Weight of every term, and their constants. A weight of 0 leaves the term out. Defaults are the paper's."""

    l1: float = 1.0  # final depth
    l1_init: float = 1.0  # depth before the refinement
    l1_log: float = 0.0
    laplace: float = 0.5
    laplace_log: float = 0.0
    gradient_matching: float = 2.0
    gradient_matching_log: float = 0.0
    gradient_l1: float = 1.0
    normals: float = 0.0
    input_confidence: float = 1.0
    max_depth: float = 10.0  # linear terms: depth / median beyond which depths are alike
    min_log_scale: float = -2.0  # laplace
    min_log_scale_log: float = -7.0  # laplace_log
    matching_scales: int = 4
    noise_tolerance: float = 0.1
    relative: float = 0.0  # if > 0: terms in log depth count by `relative_weight` with this floor
    edge_gain: float = 0.0  # additional weight of l1 and l1_log near depth edges
    edge_jump: float = 0.1
    edge_radius: int = 2


TERMS = tuple(
    field.name
    for field in fields(LossConfig)
    if field.name.startswith(("l1", "laplace", "gradient", "normals", "input_confidence"))
)


def total(
    prediction: Prediction,
    truth: Tensor,  # [B, 1, H, W], unit of the sparse input, 0 = unknown
    sparse: Tensor,  # [B, 1, H, W], as given to the network
    injected: Tensor | None,  # bool [B, 1, H, W], falsified measurements
    config: LossConfig,
) -> dict[str, Tensor]:
    """Every term with a weight, averaged over the batch, and "total", their weighted sum.

    Depths are divided by the median of the truth of each image first. Computed in at least float32.
    """
    wide = torch.promote_types(prediction.depth.dtype, torch.float32)
    median = median_of(truth.to(wide))
    target = torch.nan_to_num(truth.to(wide), nan=0.0, posinf=0.0) / median
    depth, depth_init = prediction.depth.to(wide) / median, prediction.depth_init.to(wide) / median
    scale = None if prediction.scale is None else prediction.scale.to(wide) / median
    band = None
    if config.edge_gain > 0:
        band = edge_band(target, gain=config.edge_gain, jump=config.edge_jump, radius=config.edge_radius)
    terms: dict[str, Tensor] = {}
    if config.l1:
        terms["l1"] = l1(depth, target, band, max_depth=config.max_depth)
    if config.l1_init:
        terms["l1_init"] = l1(depth_init, target, band, max_depth=config.max_depth)
    if config.l1_log:
        terms["l1_log"] = l1_log(depth, target, band)
    if config.laplace and scale is not None:
        terms["laplace"] = laplace(
            depth, target, scale.log(), max_depth=config.max_depth, min_log_scale=config.min_log_scale
        )
    if config.laplace_log and scale is not None:
        terms["laplace_log"] = laplace_log(depth, target, scale, min_log_scale=config.min_log_scale_log)
    if config.gradient_matching:
        terms["gradient_matching"] = gradient_matching(
            depth, target, scales=config.matching_scales, max_depth=config.max_depth
        )
    if config.gradient_matching_log:
        terms["gradient_matching_log"] = gradient_matching(depth, target, scales=config.matching_scales, log=True)
    if config.gradient_l1:
        terms["gradient_l1"] = gradient_l1([g.to(wide) for g in prediction.fields.gradients], target)
    if config.normals:
        terms["normals"] = normals(depth, target)
    if config.input_confidence:
        # A network that screens its measurements does so without a gradient: the screen learns from this alone.
        terms["input_confidence"] = torch.stack(
            [
                input_confidence(
                    confidence.to(wide), sparse.to(wide) / median, target, injected, tolerance=config.noise_tolerance
                )
                for confidence in (prediction.fields.confidence, prediction.fields.refinement.get("screen"))
                if confidence is not None
            ]
        ).sum(dim=0)
    if config.relative > 0:
        guess = prediction.fields.refinement.get("start")
        if guess is None:
            raise ConfigError("loss.relative needs a network with a first guess, such as compact.")
        weight = relative_weight(guess.to(wide), truth.to(wide) / prediction.median.to(wide), config.relative)
        terms = {name: value * weight if name in RELATIVE else value for name, value in terms.items()}
    result = {name: value.mean() for name, value in terms.items()}
    if not result:
        raise ValueError("every loss weight is 0, or belongs to an output that the network does not have")
    result["total"] = torch.stack([getattr(config, name) * value for name, value in result.items()]).sum()
    return result
