"""Training of a splat: the recipe of 3DGS-MCMC with a depth loss; resumable."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omnidc.errors import CheckpointError, ConfigError, ConvergenceError, InputError
from omnidc.io.files import atomic_path
from omnidc.splatting.densify import DensifyOptions, explore, relocate
from omnidc.splatting.gaussians import Gaussians
from omnidc.splatting.losses import DepthTarget, depth_loss, edge_weights, photometric_loss, uncertainty_weights
from omnidc.splatting.optimizer import SplatOptimizer
from omnidc.splatting.rasterizer import Rasterizer
from omnidc.splatting.sh import MAX_DEGREE
from omnidc.splatting.view import SplatView

MIN_VIEWS = 3
NEAR = 0.02  # of the extent
DEGREE_EVERY = 0.2  # share of the run after which another degree of harmonics is used


@dataclass(frozen=True)
class TrainOptions:
    """Everything that decides the result, apart from views and start."""

    steps: int = 2000
    seed: int = 0
    sh_degree: int = 1  # few views do not determine more
    depth_weight: float = 0.1  # 0 = no depth loss; the paper's is 0.2 with `depth_unit` = 1 meter
    depth_unit: float | None = None  # length that counts as one in the depth loss; None = median depth of the views
    edge_aware: bool = True  # False for depth at isolated points
    use_uncertainty: bool = False  # weights 1/b
    opacity_weight: float = 0.01  # 3DGS-MCMC's regularizers, on the mean
    scale_weight: float = 0.01
    densify: DensifyOptions = field(default_factory=DensifyOptions)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"A run has at least one step, not {self.steps}.")
        if not 0 <= self.sh_degree <= MAX_DEGREE:
            raise ConfigError(f"The degree of spherical harmonics is 0 to {MAX_DEGREE}, not {self.sh_degree}.")
        for name in ("depth_weight", "opacity_weight", "scale_weight"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ConfigError(f"{name.replace('_', ' ')} must not be negative, not {getattr(self, name)}.")
        if self.depth_unit is not None and not self.depth_unit > 0:
            raise ConfigError(f"The unit of the depth loss must be positive, not {self.depth_unit}.")
        if self.densify.cap < 4:
            raise ConfigError(f"A splat has at least four Gaussians, not {self.densify.cap}.")


class SplatTrainer:
    """Optimizes Gaussians so that their renders agree with the views. `run` may be called again after `load`."""

    def __init__(
        self,
        views: Sequence[SplatView],
        gaussians: Gaussians,
        rasterizer: Rasterizer,
        extent: float,  # of the scene, unit of the poses (`scene_extent`)
        options: TrainOptions,
    ) -> None:
        if len(views) < MIN_VIEWS:
            raise InputError(f"Training a splat needs at least {MIN_VIEWS} views, but there are {len(views)}.")
        self.views, self.rasterizer, self.extent, self.options = list(views), rasterizer, extent, options
        self.gaussians, self.step = gaussians, 0
        self.optimizer = SplatOptimizer(gaussians, extent, options.steps)
        self.generator = torch.Generator().manual_seed(options.seed)
        self.near = NEAR * extent
        device = gaussians.means.device
        self.images = [torch.tensor(view.image, dtype=torch.float32, device=device) / 255 for view in self.views]
        self.unit = options.depth_unit or _median_depth(self.views)
        self.targets = [self._target(view, image) for view, image in zip(self.views, self.images)]

    def _target(self, view: SplatView, image: Tensor) -> DepthTarget | None:
        if view.depth is None or self.options.depth_weight == 0:
            return None
        depth = torch.tensor(view.depth, device=image.device)
        weight = (depth > 0).float()
        if self.options.use_uncertainty and view.uncertainty is not None:
            weight = uncertainty_weights(depth, torch.tensor(view.uncertainty, device=image.device))
        if view.sky is not None:
            weight = weight * torch.tensor(~view.sky, device=image.device)
        return DepthTarget(depth, weight, edge_weights(image) if self.options.edge_aware else None)

    @property
    def degree(self) -> int:
        """Degree of the spherical harmonics in use at this step."""
        return min(self.options.sh_degree, int(self.step / (DEGREE_EVERY * self.options.steps)))

    def view_index(self, step: int) -> int:
        """Return the index of the view of a step: a new random order in each pass over the views."""
        epoch, place = divmod(step, len(self.views))
        order = np.random.default_rng([self.options.seed, epoch]).permutation(len(self.views))
        return int(order[place])

    def loss(self, index: int) -> Tensor:
        """Return the loss of one view."""
        options, view = self.options, self.views[index]
        render = self.gaussians.render(self.rasterizer, view.camera, self.near, self.degree)
        loss = photometric_loss(render.image, self.images[index])
        loss = loss + options.opacity_weight * self.gaussians.opacities.mean()
        loss = loss + options.scale_weight * self.gaussians.scales.mean() / self.extent
        target = self.targets[index]
        if target is not None:
            loss = loss + options.depth_weight * depth_loss(render.expected_depth(), target, self.unit)
        return loss

    def train_step(self) -> float:
        """Take one step and return its loss."""
        options, densify = self.options, self.options.densify
        loss = self.loss(self.view_index(self.step))
        value = float(loss.detach())
        if not np.isfinite(value):
            raise ConvergenceError(
                f"The loss is not finite at step {self.step}: check the poses and the depth, or lower the depth weight."
            )
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.step)
        share = self.step / options.steps
        if share >= densify.first:
            decay = self.optimizer.means_rate(self.step) / self.optimizer.means_rate(0)
            explore(self.gaussians, densify.noise * decay, self.generator)
        if densify.is_due(self.step, options.steps):
            relocate(self.gaussians, self.optimizer, densify, share < densify.last_growth, self.generator)
        self.step += 1
        return value

    @property
    def is_finished(self) -> bool:
        """Whether the last step is done."""
        return self.step >= self.options.steps

    def run(
        self,
        progress: Callable[[int, float], None] = lambda step, loss: None,  # steps done, loss
        should_stop: Callable[[], bool] = lambda: False,  # asked after each step, when the state is whole
    ) -> None:
        """Train to the last step, or until `should_stop`."""
        while not self.is_finished and not should_stop():
            loss = self.train_step()
            progress(self.step, loss)

    def save(self, path: Path) -> None:
        """Write everything that `load` needs to go on to the same result."""
        state = {
            "step": self.step,
            "options": json.dumps(dataclasses.asdict(self.options)),
            "views": [view.name for view in self.views],
            "gaussians": {name: tensor.detach() for name, tensor in self.gaussians.tensors().items()},
            "adam": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }
        with atomic_path(path) as temporary:
            torch.save(state, temporary)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint of a run with the same options and views."""
        try:
            state = torch.load(path, map_location=self.gaussians.means.device, weights_only=True)
            same = state["options"] == json.dumps(dataclasses.asdict(self.options))
            names = state["views"]
            gaussians = Gaussians(**state["gaussians"])
        except Exception as error:  # torch raises whatever unpickling met
            raise CheckpointError(f"{path} is not a checkpoint of a splat, or is damaged: delete it.") from error
        if not same or names != [view.name for view in self.views]:
            raise ConfigError(
                f"{path} is of a run with other options or views: use the same to resume, or another output folder."
            )
        self.gaussians = gaussians
        self.optimizer = SplatOptimizer(gaussians, self.extent, self.options.steps)
        self.optimizer.load_state_dict(state["adam"])
        self.generator.set_state(state["generator"].cpu())
        self.step = int(state["step"])


def _median_depth(views: list[SplatView]) -> float:
    """Return the median of all depths that are supervised; 1 where there are none."""
    known = [view.depth[view.depth > 0] for view in views if view.depth is not None]
    values = np.concatenate(known) if known else np.zeros(0)
    return float(np.median(values)) if len(values) else 1.0
