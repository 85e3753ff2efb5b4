"""Growth and pruning after 3DGS-MCMC (Kheradmand et al., 2024): relocate dead Gaussians, add some, explore.

Chosen over the gradient thresholds of 3DGS because the number of Gaussians, and so the time of a step, has a cap.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.optimizer import SplatOptimizer

DEAD_OPACITY = 0.005
MAX_OPACITY = 0.995
LOOSE_OPACITY = 0.1  # more opaque ones would move by less than 1e-4 of their size


@dataclass(frozen=True)
class DensifyOptions:
    """When the number of Gaussians changes; steps are shares of the run."""

    cap: int = 20_000  # largest number of Gaussians
    growth: float = 0.3  # largest share added each time
    every: int = 50  # steps
    first: float = 0.1
    last_growth: float = 0.6
    last: float = 0.85
    noise: float = 0.3  # of exploration, of the size of a Gaussian; falls with the learning rate of the means

    def is_due(self, step: int, steps: int) -> bool:
        """Return whether Gaussians are relocated after this step (0-based)."""
        return (step + 1) % self.every == 0 and self.first <= step / steps < self.last


@torch.no_grad()
def split_opacity(opacity: Tensor) -> tuple[Tensor, Tensor]:
    """Return opacity and scale factor of each of two Gaussians that together render as one did (3DGS-MCMC eq. 9)."""
    old = opacity.clamp(max=MAX_OPACITY)
    new = 1 - torch.sqrt(1 - old)
    scale = old / (2 * new - new * new / 2**0.5)
    return new, scale


@torch.no_grad()
def split_to(gaussians: Gaussians, count: int, generator: torch.Generator) -> Gaussians:
    """Return at least `count` Gaussians: some are split in two, in rounds; each pair renders nearly as one did."""
    while len(gaussians) < count:
        source = torch.randperm(len(gaussians), generator=generator)[: count - len(gaussians)]
        opacity, scale = split_opacity(gaussians.opacities[source])
        tensors = {name: tensor.detach().clone() for name, tensor in gaussians.tensors().items()}
        tensors["logits"][source] = torch.logit(opacity)
        tensors["log_scales"][source] += scale.log()[:, None]
        fresh = {name: tensor[source] for name, tensor in tensors.items()}
        fresh["means"] += torch.randn(len(source), 3, generator=generator) * fresh["log_scales"].exp()
        gaussians = Gaussians(**{name: torch.cat([tensors[name], fresh[name]]) for name in tensors})
    return gaussians


@torch.no_grad()
def relocate(
    gaussians: Gaussians, optimizer: SplatOptimizer, options: DensifyOptions, grow: bool, generator: torch.Generator
) -> None:
    """Move dead Gaussians onto live ones, chosen by opacity, and add some if `grow`; each pair renders as one did."""
    opacity = gaussians.opacities.detach()
    is_dead = opacity < DEAD_OPACITY
    dead = torch.nonzero(is_dead)[:, 0]
    room = max(0, options.cap - len(opacity))
    added = min(room, max(1, int(len(opacity) * options.growth))) if grow else 0
    wanted = len(dead) + added
    if wanted == 0 or bool(is_dead.all()):
        return
    chances = torch.where(is_dead, 0.0, opacity)
    wanted = min(wanted, len(opacity) - len(dead))
    # Without replacement: the equation above is that of a pair.
    source = torch.multinomial(chances.cpu(), wanted, generator=generator).to(opacity.device)
    dead = dead[: len(source)]
    opacity, scale = split_opacity(opacity[source])
    gaussians.logits[source] = torch.logit(opacity.clamp(1.2 * DEAD_OPACITY, MAX_OPACITY))
    gaussians.log_scales[source] += scale.log()[:, None]
    optimizer.overwrite(dead, source[: len(dead)])
    count = len(gaussians)
    fresh = source[len(dead) :]
    for parameter in gaussians.tensors().values():
        optimizer.reset(parameter, fresh)
    optimizer.append(fresh)
    moved = torch.cat([dead, torch.arange(count, count + len(fresh), device=dead.device)])
    jitter = torch.randn(len(moved), 3, generator=generator).to(moved.device)
    gaussians.means[moved] += jitter * gaussians.scales[moved]


@torch.no_grad()
def explore(gaussians: Gaussians, amount: float, generator: torch.Generator) -> None:
    """Let transparent Gaussians wander within their own shape (3DGS-MCMC eq. 8); `amount` scales the noise."""
    opacity = gaussians.opacities
    loose = torch.nonzero(opacity < LOOSE_OPACITY)[:, 0]
    if len(loose) == 0 or amount <= 0:
        return
    push = torch.sigmoid(-100 * (opacity[loose] - DEAD_OPACITY))[:, None]
    jitter = torch.randn(len(loose), 3, generator=generator).to(loose.device)
    gaussians.means[loose] += amount * push * jitter * gaussians.scales[loose]
