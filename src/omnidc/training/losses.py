"""Losses of depth completion, each a function of tensors that returns one value per image, [B].

Notation: D ground truth, d prediction, V the pixels whose ground truth is known. `gt_depth` is 0 (or NaN) where it is
unknown. Depths given to the linear losses are relative to the median of the ground truth, so that near and far images
count alike. A loss over an empty set is 0, with gradient 0. A prediction that is not finite stays so, and the trainer
skips the batch.

`released=True` computes a loss as the authors' release does, including its apparent mistakes: predictions beyond
`max_depth` receive no gradient, the noise label is one-sided, predictions are pooled over unknown pixels too, and the
Laplace loss lacks its constant. The release sums over the batch; ours is a mean.

`LOSSES` is the table that `total` evaluates: a new loss is one function and one entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from omnidc.errors import ConfigError
from omnidc.network.compact import CompactRefinement
from omnidc.network.interface import Prediction
from omnidc.network.normalize import masked_median
from omnidc.training.batch import Batch
from omnidc.training.settings import Settings

RELEASED_CELL = 4  # pixels, the released integrator's cell; ours follows from the sizes of the network's maps
RELEASED_TINY = 1e-4  # smaller depths are unknown in the release
LN2 = math.log(2.0)
LEAST_GRADIENT = 2e-3  # of log depth: smaller errors of gradients are alike to `gradient_nll`
TYPICAL_ERROR = 0.05  # log depth: with this interpolation error `relative_weight` is about 1


def valid_mask(gt_depth: Tensor) -> Tensor:  # [B, 1, H, W] → bool
    """Return V, the pixels whose ground truth is known."""
    return torch.isfinite(gt_depth) & (gt_depth > 0)


def image_mean(values: Tensor, weight: Tensor) -> Tensor:  # [B, …], [B, …] ≥ 0 → [B]
    """Return Σ w v / Σ w of each image; 0 where Σ w = 0."""
    weight = weight.to(values.dtype)
    return (values * weight).flatten(1).sum(1) / (weight.flatten(1).sum(1) + 1e-8)


def _clamped(depth: Tensor, gt_depth: Tensor, max_depth: float | None, released: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Clamp prediction and ground truth at `max_depth`; return both and V. Unknown ground truth becomes 1, outside V.

    Ours clamps the prediction only where the ground truth is beyond, so that a prediction too far away keeps its
    gradient.
    """
    mask = valid_mask(gt_depth)
    if released:
        limit = math.inf if max_depth is None else max_depth
        target = torch.nan_to_num(gt_depth).clamp(0, limit)
        return depth.clamp(0, limit), target, target > RELEASED_TINY
    target = torch.where(mask, gt_depth, torch.ones_like(gt_depth))
    if max_depth is not None:
        depth = torch.where(target >= max_depth, depth.clamp(max=max_depth), depth)
        target = target.clamp(max=max_depth)
    return depth, target, mask


def l1(
    depth: Tensor,  # [B, 1, H, W]
    gt_depth: Tensor,  # [B, 1, H, W]
    *,
    max_depth: float | None = 10.0,
    released: bool = False,
) -> Tensor:
    """Compute mean_V |d − D|, both clamped at `max_depth`."""
    depth, target, mask = _clamped(depth, gt_depth, max_depth, released)
    return image_mean((depth - target).abs(), mask)


def l1_log(
    depth: Tensor,  # [B, 1, H, W] > 0
    gt_depth: Tensor,  # [B, 1, H, W]
) -> Tensor:
    """Compute mean_V |ln d − ln D|, the relative error at any depth."""
    mask = valid_mask(gt_depth)
    error = (depth.log() - torch.where(mask, gt_depth, torch.ones_like(gt_depth)).log()).abs()
    return image_mean(error, mask)


def laplace(
    depth: Tensor,  # [B, 1, H, W]
    gt_depth: Tensor,  # [B, 1, H, W]
    log_scale: Tensor,  # [B, 1, H, W], γ = ln b, b in the unit of the depths
    *,
    max_depth: float | None = 10.0,
    min_log_scale: float = -2.0,
    released: bool = False,
) -> Tensor:
    """Compute mean_V |d − D| / b + ln 2b, the Laplace negative log likelihood, with γ = ln b ≥ `min_log_scale`.

    The release omits ln 2.
    """
    depth, target, mask = _clamped(depth, gt_depth, max_depth, released)
    gamma = log_scale.clamp(min=min_log_scale)
    likelihood = (depth - target).abs() * torch.exp(-gamma) + gamma
    return image_mean(likelihood if released else likelihood + LN2, mask)


def laplace_log(
    depth: Tensor,  # [B, 1, H, W] > 0
    gt_depth: Tensor,  # [B, 1, H, W]
    scale: Tensor,  # [B, 1, H, W] > 0, Laplace scale b of the depth, in its unit
    *,
    min_log_scale: float = -7.0,
) -> Tensor:
    """Compute mean_V |ln d − ln D| / s + ln 2s with the relative scale s = b / d, ln s ≥ `min_log_scale`.

    d in s is not detached: a network whose head predicts s gives b = s d, so the two dependences on d cancel and
    the gradient of the depth is that of the error alone.
    """
    mask = valid_mask(gt_depth)
    error = (depth.log() - torch.where(mask, gt_depth, torch.ones_like(gt_depth)).log()).abs()
    log_s = (scale.log() - depth.log()).clamp(min=min_log_scale)
    return image_mean(error * torch.exp(-log_s) + log_s + LN2, mask)


def cell_of(fine: Tensor, coarse: Tensor) -> int:  # [B, …, H, W], [B, …, h, w]
    """Return the side of an integrator cell in pixels, from the sizes of a full and a reduced map."""
    return max(1, round(fine.shape[-1] / coarse.shape[-1]))


def _pool(values: Tensor, size: int) -> Tensor:
    """Average over size × size cells; a last, smaller cell averages the pixels that exist."""
    return F.avg_pool2d(values, size, ceil_mode=True) if size > 1 else values


def _differences(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return backward differences along x and y, without the first column and row."""
    return values[..., :, 1:] - values[..., :, :-1], values[..., 1:, :] - values[..., :-1, :]


def _pairs(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weight of each difference: the smaller of its two cells'."""
    return (
        torch.minimum(weight[..., :, 1:], weight[..., :, :-1]),
        torch.minimum(weight[..., 1:, :], weight[..., :-1, :]),
    )


def _join(x: Tensor, y: Tensor) -> Tensor:  # [B, 1, h, w − 1], [B, 1, h − 1, w] → [B, n]
    return torch.cat((x.flatten(1), y.flatten(1)), dim=1)


def gt_gradients(
    gt_depth: Tensor,  # [B, 1, H, W]
    levels: int,
    cell: int = RELEASED_CELL,  # pixels along a cell of the finest level
    *,
    max_depth: float | None = 10.0,
    space: str = "log",
    released: bool = False,
) -> list[tuple[Tensor, Tensor]]:
    """Return, per level, differences of the ground truth and their weights, both [B, n], x before y pairs.

    space: what is integrated: "log" depth, or "linear" depth, clamped at `max_depth`.
    Level r lives on cells of cell·2^r pixels whose value is the mean log depth of their known pixels. A difference
    weighs as much as the known share of the emptier of its two cells, so holes in the ground truth fade out.
    The release takes the logarithm of the mean depth of 4 × 4 pixels first, and counts a cell with any known pixel as
    whole.
    """
    result = []
    if released:
        _, target, mask = _clamped(gt_depth, gt_depth, max_depth, True)
        share = _pool(mask.to(gt_depth.dtype), cell)
        means = _pool(target * mask, cell) / share.clamp(min=1e-8)
        flag = (share > 0).to(gt_depth.dtype)
        log = torch.where(share > 0, means, torch.ones_like(means)).log()
        for level in range(levels):
            part = _pool(flag, 2**level)
            pooled = _pool(log * flag, 2**level) / part.clamp(min=1e-8)
            result.append((_join(*_differences(pooled)), _join(*_pairs((part > 0).to(gt_depth.dtype)))))
        return result
    _, target, mask = _clamped(gt_depth, gt_depth, max_depth if space == "linear" else None, False)
    values = torch.where(mask, target, torch.zeros_like(target)) if space == "linear" else target.log()
    cells, shares = _pool(values, cell), _pool(mask.to(values.dtype), cell)  # values are 0 out of V
    for level in range(levels):
        share = _pool(shares, 2**level)
        mean = _pool(cells, 2**level) / share.clamp(min=1e-8)
        result.append((_join(*_differences(mean)), _join(*_pairs(share))))
    return result


def gradient_l1(
    gradients: Sequence[Tensor],  # R × [B, 2, ceil(h / 2^r), ceil(w / 2^r)], as Fields.gradients
    gt_depth: Tensor,  # [B, 1, H, W]
    *,
    max_depth: float | None = 10.0,
    space: str = "log",
    released: bool = False,
) -> Tensor:
    """Compute Σ_r mean |g_r − ∇ ln D_r| / R (∇ D_r in space "linear"), the L1 error at every integrator level.

    The release takes one mean over the equations of all levels together (a level counts a quarter of the finer one)
    and clamps the ground truth at `max_depth`; ours is relative and needs no limit.
    """
    errors, weights = [], []
    cell = cell_of(gt_depth, gradients[0])
    for level, (target, weight) in enumerate(
        gt_gradients(gt_depth, len(gradients), cell, max_depth=max_depth, space=space, released=released)
    ):
        gradient = gradients[level]
        errors.append((_join(gradient[:, :1, :, 1:], gradient[:, 1:, 1:, :]) - target).abs())
        weights.append(weight)
    if released:
        return image_mean(torch.cat(errors, dim=1), torch.cat(weights, dim=1))
    return torch.stack([image_mean(error, weight) for error, weight in zip(errors, weights)]).mean(dim=0)


def gradient_nll(
    gradients: Sequence[Tensor],  # R × [B, 2, ceil(h / 2^r), ceil(w / 2^r)], as Fields.gradients
    weights: Sequence[Tensor],  # same shapes, > 0, as Fields.weights
    gt_depth: Tensor,  # [B, 1, H, W]
) -> Tensor:
    """Compute mean_r (ln mean(W_r e_r²) − mean ln W_r), e_r = g_r − ∇ ln D_r.

    This is twice the negative log likelihood of the errors e per edge, but for constants, if they are normally
    distributed with the variance v / W_r and v is the most likely one for the image and the level: edge weights are
    inverse variances, as the least-squares problem of the integrator takes them.
    """
    cell = cell_of(gt_depth, gradients[0])
    levels = []
    for (target, known), *maps in zip(gt_gradients(gt_depth, len(gradients), cell), gradients, weights, strict=True):
        gradient, weight = (_join(one[:, :1, :, 1:], one[:, 1:, 1:, :]) for one in maps)
        error = image_mean(weight * ((gradient - target).square() + LEAST_GRADIENT**2), known)
        error = torch.where(known.flatten(1).any(1), error, 1.0)  # the loss over an empty set is 0
        levels.append(error.log() - image_mean(weight.log(), known))
    return torch.stack(levels).mean(dim=0)


def _residual_matching(residual: Tensor, weight: Tensor) -> Tensor:  # [B, 1, h, w], [B, 1, h, w] → [B]
    """Compute mean |∇R| over the pairs of both directions."""
    return image_mean(_join(*_differences(residual)).abs(), _join(*_pairs(weight)))


def gradient_matching(
    depth: Tensor,  # [B, 1, H, W]
    gt_depth: Tensor,  # [B, 1, H, W]
    *,
    scales: int = 4,
    max_depth: float | None = 10.0,
    log: bool = False,
    released: bool = False,
) -> Tensor:
    """Compute Σ_k mean |∇ R_k|, R_k = d − D (or ln d − ln D) pooled by 2^k over V, k = 0 … scales − 1.

    The release pools the prediction over all pixels, also unknown ones, pads the border by repetition, and counts a
    cell with any known pixel as whole; ours weighs a pair by the known share of its emptier cell.
    """
    total = depth.new_zeros(depth.shape[0])
    if released:
        depth, target, mask = _clamped(depth, gt_depth, max_depth, True)
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
        mask = valid_mask(gt_depth)
        difference = depth.log() - torch.where(mask, gt_depth, torch.ones_like(gt_depth)).log()
    else:
        depth, target, mask = _clamped(depth, gt_depth, max_depth, False)
        difference = depth - target
    residual = torch.where(mask, difference, torch.zeros_like(difference))
    for k in range(scales):
        share = _pool(mask.to(residual.dtype), 2**k)
        total = total + _residual_matching(_pool(residual, 2**k) / share.clamp(min=1e-8), share)
    return total


def noise_target(
    sparse: Tensor,  # [B, 1, H, W], the measurements, 0 = none
    gt_depth: Tensor,  # [B, 1, H, W], same unit
    outlier_mask: Tensor | None = None,  # bool [B, 1, H, W], outliers of the simulated sensor
    cell: int = RELEASED_CELL,  # pixels along a cell of the integrator
    *,
    tolerance: float = 0.1,
    released: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the target confidence [B, 1, h, w] (0 = a cell holds an outlier) and the mask of cells that count.

    Ours: a measurement is an outlier when the sensor marks it, or when |ln o − ln D| > `tolerance` on either side; one
    without ground truth counts only when the sensor provides a mask. The release: o − D > 0.1 in units of the median,
    so measurements too near are never outliers.
    """
    if released:
        given = sparse > RELEASED_TINY
        false = given & (sparse - torch.nan_to_num(gt_depth) > 0.1)
        labeled = given
    else:
        given = sparse > 0
        comparable = given & valid_mask(gt_depth)
        ones = torch.ones_like(gt_depth)
        error = (torch.where(comparable, sparse, ones).log() - torch.where(comparable, gt_depth, ones).log()).abs()
        false = comparable & (error > tolerance)
        labeled = comparable
        if outlier_mask is not None:
            false, labeled = false | (given & outlier_mask), given
    cell_false = F.max_pool2d(false.to(gt_depth.dtype), cell, ceil_mode=True)
    cell_valid = F.max_pool2d(labeled.to(gt_depth.dtype), cell, ceil_mode=True)
    return 1 - cell_false, cell_valid


def input_confidence(
    confidence: Tensor,  # [B, 1, h, w] in (0, 1)
    sparse: Tensor,  # [B, 1, H, W]
    gt_depth: Tensor,  # [B, 1, H, W], same unit
    outlier_mask: Tensor | None = None,  # bool [B, 1, H, W]
    *,
    tolerance: float = 0.1,
    released: bool = False,
) -> Tensor:
    """Compute mean −(t ln c + (1 − t) ln(1 − c)) over cells with a measurement, t = 0 for outliers (`noise_target`)."""
    cell = cell_of(gt_depth, confidence)
    target, valid = noise_target(sparse, gt_depth, outlier_mask, cell, tolerance=tolerance, released=released)
    entropy = F.binary_cross_entropy(confidence, target.to(confidence.dtype), reduction="none")
    return image_mean(entropy, valid)


def relative_weight(
    guess: Tensor,  # [B, 1, h, w], log depth as interpolated before anything was learned
    gt_depth: Tensor,  # [B, 1, H, W], same unit, 0 = unknown
    floor: float,
) -> Tensor:
    """Return weights [B] of images: `TYPICAL_ERROR` / (e + `floor`), e = mean_V |guess − ln D|, without gradient.

    Few points on a deep scene leave errors a hundred times those of many points on a shallow scene, and dominate the
    gradient. With this weight an image counts by its improvement over interpolation; `floor` is the error at which
    an image is good enough.
    """
    with torch.no_grad():
        guess = F.interpolate(guess, size=gt_depth.shape[-2:], mode="bilinear")
        return TYPICAL_ERROR / (l1_log(guess.exp(), gt_depth) + floor)


@dataclass(frozen=True)
class LossInputs:
    """What a loss may use, in at least float32. Depths are divided by the median of each image's ground truth."""

    depth: Tensor  # [B, 1, H, W] > 0
    depth_init: Tensor  # [B, 1, H, W] > 0, before the last refinement
    laplace_scale: Tensor | None  # [B, 1, H, W] > 0, None = the network has no such output
    sky: Tensor | None  # [B, 1, H, W], logit, None = the network has no such output
    gt_depth: Tensor  # [B, 1, H, W], 0 = unknown
    sparse: Tensor  # [B, 1, H, W], 0 = no measurement
    prediction: Prediction  # as the network returned it
    batch: Batch  # as the network received it

    @classmethod
    def prepare(cls, prediction: Prediction, batch: Batch) -> LossInputs:
        wide = torch.promote_types(prediction.depth.dtype, torch.float32)
        gt_depth = torch.nan_to_num(batch.gt_depth.to(wide), nan=0.0, posinf=0.0)
        median = masked_median(gt_depth)
        return cls(
            depth=prediction.depth.to(wide) / median,
            depth_init=prediction.depth_init.to(wide) / median,
            laplace_scale=None if prediction.laplace_scale is None else prediction.laplace_scale.to(wide) / median,
            sky=None if prediction.sky is None else prediction.sky.to(wide),
            gt_depth=gt_depth / median,
            sparse=batch.sparse.to(wide) / median,
            prediction=prediction,
            batch=batch,
        )


@dataclass(frozen=True)
class Loss:
    """One entry of the table of losses."""

    name: str  # key of `loss.weights`, column of losses.csv
    function: Callable[[LossInputs, LossConfig], Tensor]  # → [B]
    weight: float = 0.0  # unless the configuration says otherwise; those of the table are the paper's
    needs: str = ""  # field of LossInputs without which the loss is left out
    is_relative: bool = False  # `relative_weight` applies

    def applies(self, inputs: LossInputs) -> bool:
        return not self.needs or getattr(inputs, self.needs) is not None


def _laplace(x: LossInputs, config: LossConfig) -> Tensor:
    """Return `laplace`, its floor relative to the median of the truth, as in the release.

    The floor of the paper's network is relative to the median of the measurements. Where this is the smaller one,
    scales between the two floors get no gradient.
    """
    assert x.laplace_scale is not None
    log_scale = x.laplace_scale.log()
    return laplace(x.depth, x.gt_depth, log_scale, max_depth=config.max_depth, min_log_scale=config.min_log_scale)


def _laplace_init(x: LossInputs, config: LossConfig) -> Tensor:
    """Return the release's second half of the Laplace loss: the depth before the refinement, with the same scale."""
    return _laplace(replace(x, depth=x.depth_init), config)


def _laplace_log(x: LossInputs, config: LossConfig) -> Tensor:
    assert x.laplace_scale is not None
    return laplace_log(x.depth, x.gt_depth, x.laplace_scale, min_log_scale=config.min_log_scale_log)


def _gradient_matching(x: LossInputs, config: LossConfig) -> Tensor:
    return gradient_matching(x.depth, x.gt_depth, scales=config.matching_scales, max_depth=config.max_depth)


def _gradient_matching_log(x: LossInputs, config: LossConfig) -> Tensor:
    return gradient_matching(x.depth, x.gt_depth, scales=config.matching_scales, log=True)


def resize_gt(gt_depth: Tensor, size: tuple[int, int]) -> Tensor:  # [B, 1, H, W] → [B, 1, *size]
    """Return ground truth at a smaller size: means of log depth; 0 where less than half of a pixel is known."""
    mask = valid_mask(gt_depth)
    log = torch.where(mask, gt_depth, torch.ones_like(gt_depth)).log()
    share = F.interpolate(mask.to(log.dtype), size=size, mode="area")
    mean = F.interpolate(log, size=size, mode="area") / share.clamp(min=1e-8)  # log is 0 where nothing is known
    return torch.where(share >= 0.5, mean.exp(), torch.zeros_like(mean))


def _gradient_l1(x: LossInputs, config: LossConfig) -> Tensor:
    size = x.batch.working_size  # the integrator's grid is that of the working size
    gt_depth = x.gt_depth if size is None else resize_gt(x.gt_depth, size)
    gradients = [gradient.to(gt_depth.dtype) for gradient in x.prediction.fields.gradients]
    if not gradients:
        raise ConfigError("This network has no integrator: set loss.weights.gradient_l1 to 0.")
    space = x.prediction.fields.space
    if space == "linear":  # gradients are in the network's unit, the truth in that of its own median
        unit = x.prediction.median.to(gt_depth.dtype) / masked_median(x.batch.gt_depth.to(gt_depth.dtype))
        gradients = [gradient * unit for gradient in gradients]
    return gradient_l1(gradients, gt_depth, max_depth=config.max_depth, space=space)


def _gradient_nll(x: LossInputs, config: LossConfig) -> Tensor:
    size, fields = x.batch.working_size, x.prediction.fields
    if fields.weights is None or fields.space != "log":
        raise ConfigError("This network has no edge weights of log depth: set loss.weights.gradient_nll to 0.")
    gt_depth = x.gt_depth if size is None else resize_gt(x.gt_depth, size)
    gradients, weights = ([one.to(gt_depth.dtype) for one in maps] for maps in (fields.gradients, fields.weights))
    return gradient_nll(gradients, weights, gt_depth)


def _input_confidence(x: LossInputs, config: LossConfig) -> Tensor:
    return input_confidence(
        x.prediction.fields.confidence.to(x.sparse.dtype),
        x.sparse,
        x.gt_depth,
        x.batch.outlier_mask,
        tolerance=config.noise_tolerance,
    )


def sky_entropy(
    logit: Tensor,  # [B, 1, H, W]
    sky: Tensor,  # bool [B, 1, H, W]
    gt_depth: Tensor,  # [B, 1, H, W], 0 = unknown
) -> Tensor:
    """Compute mean −(t ln p + (1 − t) ln(1 − p)), t = 1 for sky, over pixels of the sky and of known depth."""
    entropy = F.binary_cross_entropy_with_logits(logit, sky.to(logit.dtype), reduction="none")
    return image_mean(entropy, sky | valid_mask(gt_depth))


def _sky(x: LossInputs, config: LossConfig) -> Tensor:
    assert x.sky is not None
    return sky_entropy(x.sky, x.batch.sky, x.gt_depth)


LOSSES = (
    Loss("l1", lambda x, c: l1(x.depth, x.gt_depth, max_depth=c.max_depth), 1.0),
    Loss("l1_init", lambda x, c: l1(x.depth_init, x.gt_depth, max_depth=c.max_depth), 1.0),
    Loss("l1_log", lambda x, c: l1_log(x.depth, x.gt_depth), is_relative=True),
    Loss("laplace", _laplace, 0.5, needs="laplace_scale"),
    Loss("laplace_init", _laplace_init, needs="laplace_scale"),
    Loss("laplace_log", _laplace_log, needs="laplace_scale"),
    Loss("gradient_matching", _gradient_matching, 2.0),
    Loss("gradient_matching_log", _gradient_matching_log, is_relative=True),
    Loss("gradient_l1", _gradient_l1, 1.0, is_relative=True),
    Loss("gradient_nll", _gradient_nll),
    Loss("input_confidence", _input_confidence, 1.0),
    Loss("sky", _sky, needs="sky"),
)


@dataclass
class LossConfig(Settings):
    """Weights of the losses and their constants."""

    weights: dict[str, float] = field(default_factory=dict)  # name → weight, 0 = left out; others as in the table
    max_depth: float = 10.0  # linear losses: depth / median beyond which depths are alike
    min_log_scale: float = -2.0  # laplace; relative to the median of the truth, see `_laplace`
    min_log_scale_log: float = -7.0  # laplace_log
    matching_scales: int = 4
    noise_tolerance: float = 0.1  # log depth: a larger error makes a measurement an outlier
    relative: float = 0.0  # floor of `relative_weight`; 0 = all images count alike
    iteration_decay: float = 0.9  # weight of a GRU iteration's losses, of those of the next one; as OGNI-DC

    def __post_init__(self) -> None:
        names = [loss.name for loss in LOSSES]
        unknown = sorted(set(self.weights) - set(names))
        if unknown:
            raise ConfigError(f"There is no loss {unknown[0]!r}: choose one of {', '.join(names)}.")

    def weight(self, loss: Loss) -> float:
        return self.weights.get(loss.name, loss.weight)


def total(prediction: Prediction, batch: Batch, config: LossConfig) -> dict[str, Tensor]:
    """Return every loss that has a weight, averaged over the batch, and "total", their weighted sum.

    Losses of n GRU iterations are added up, Σ_i γ^(n − i) L_i with γ = `iteration_decay`.
    """
    result = _total(prediction, batch, config)
    for steps, earlier in enumerate(reversed(prediction.earlier), start=1):
        for name, value in _total(earlier, batch, config).items():
            result[name] = result[name] + config.iteration_decay**steps * value
    return result


def _total(prediction: Prediction, batch: Batch, config: LossConfig) -> dict[str, Tensor]:
    """Compute the losses of one iteration."""
    inputs = LossInputs.prepare(prediction, batch)
    used = [loss for loss in LOSSES if config.weight(loss) and loss.applies(inputs)]
    if not used:
        raise ConfigError("Every loss has weight 0 or belongs to an output that the network does not have.")
    values = {loss.name: loss.function(inputs, config) for loss in used}
    if config.relative > 0:
        maps = prediction.fields.refinement
        if not isinstance(maps, CompactRefinement):
            raise ConfigError("loss.relative needs a network with a first guess, such as compact.")
        wide = inputs.depth.dtype
        gt_depth = batch.gt_depth.to(wide) / prediction.median.to(wide)
        weight = relative_weight(maps.prefill.to(wide), gt_depth, config.relative)
        values.update({loss.name: values[loss.name] * weight for loss in used if loss.is_relative})
    result = {name: value.mean() for name, value in values.items()}
    result["total"] = torch.stack([config.weight(loss) * result[loss.name] for loss in used]).sum()
    return result
