"""One optimizer step: forward, backward, clipping, update, averaging."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from omnidc.errors import InputError
from omnidc.network.interface import DepthNetwork
from omnidc.training.batch import Batch
from omnidc.training.config import TrainConfig
from omnidc.training.distributed import ProcessGroup
from omnidc.training.ema import EMA
from omnidc.training.loss_module import make_loss_module
from omnidc.training.networks import freeze, set_iterations, set_style_noise
from omnidc.training.optimizer import load_optimizer, make_optimizer
from omnidc.training.precision import pick_precision, use_autocast

OLD_OPTIMIZER = "optimiser"  # key of the optimizer in states of earlier versions


@dataclass(frozen=True)
class StepResult:
    """What one step brought."""

    batches: list[Batch]  # of this process, one per part
    losses: dict[str, float]  # means over all processes, with "total"; what there was of a step that was left out
    norm: float  # of the gradients before clipping; NaN without any
    is_finite: bool  # False: the step was left out, and the network is as before


class Stepper:
    """A network with its optimizer and its averaged weights."""

    def __init__(self, network: DepthNetwork, phases: Sequence[TrainConfig], group: ProcessGroup) -> None:
        config = phases[0]
        self.group = group
        if group.size > 1 and group.device.type == "cuda":
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
        self.network = network
        self.ema = EMA(network, config.optimizer.ema)
        frozen = [frozen_prefixes(phase) for phase in phases]
        freeze(network, [prefix for prefix in frozen[0] if all(prefix.startswith(tuple(each)) for each in frozen)])
        self.optimizer = make_optimizer(network, config.optimizer)
        dtype = pick_precision(config.runtime, group.device)
        self.scaler = torch.amp.GradScaler(group.device.type, enabled=dtype is torch.float16)
        use_autocast(network, group.device, dtype)
        self.module: nn.Module | None = None

    def configure(self, config: TrainConfig) -> None:
        """Take the losses, frozen parameters, iterations and optimizer settings of a phase."""
        self.config = config
        set_iterations(self.network, config.network.iterations, self.ema.network)
        set_style_noise(self.network, config.network.style_noise)
        freeze(self.network, frozen_prefixes(config))
        self.module = None  # the hooks of an old wrapper must be gone before a new one is made
        self.module = make_loss_module(self.network, config, self.group)

    def restart(self) -> None:
        """Go on from the averaged weights, without the optimizer's moments."""
        self.network.load_state_dict(self.ema.network.state_dict())
        self.optimizer.state.clear()
        self.ema.updates = 0

    def state(self) -> dict[str, Any]:
        return {
            "network": self.network.state_dict(),
            "average": self.ema.network.state_dict(),
            "average_updates": self.ema.updates,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Load what `state` returned; a RuntimeError or ValueError if it belongs to another network."""
        self.network.load_state_dict(state["network"])
        self.ema.network.load_state_dict(state["average"])
        self.ema.updates = state["average_updates"]
        load_optimizer(self.optimizer, state["optimizer"] if "optimizer" in state else state[OLD_OPTIMIZER])
        self.scaler.load_state_dict(state["scaler"])

    def step(self, batches: Iterator[Batch], number: int, lr: float) -> StepResult:
        """Take step `number` of the run with learning rate `lr`, or leave it out if its loss is not finite."""
        options = self.config.optimizer
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group["lr_scale"]
        # dropout and the like depend on the step, not on how the run came here
        seed = np.random.SeedSequence([self.config.seed, number, self.group.rank])
        torch.manual_seed(int(seed.generate_state(1)[0]))
        buffers = [buffer.clone() for buffer in self.network.buffers()]
        sums: dict[str, float] = {}
        seen: list[Batch] = []
        good = True
        for part in range(options.accumulate):
            seen.append(next(batches))
            if good:
                good = self._backward(seen[-1], sums, last=part == options.accumulate - 1)
        norm, means = math.nan, sums
        if good:
            self.scaler.unscale_(self.optimizer)
            limit = options.grad_clip if options.grad_clip > 0 else math.inf
            norm = float(nn.utils.clip_grad_norm_(self.network.parameters(), limit))
            means = dict(zip(sums, self.group.mean(list(sums.values()))))
        # Every process has the same gradients, so all decide alike.
        good = good and (math.isfinite(norm) or self.scaler.is_enabled())
        if good:
            self.scaler.step(self.optimizer)  # float16: the scaler leaves out a step that overflowed
            self.scaler.update()
            self.ema.update_parameters(self.network)
        else:
            for buffer, old in zip(self.network.buffers(), buffers):
                buffer.copy_(old)
        self.optimizer.zero_grad(set_to_none=True)
        return StepResult(seen, means, norm, good)

    def _backward(self, batch: Batch, sums: dict[str, float], *, last: bool) -> bool:
        """Run one part of a step forward and backward; False, in every process, if any has no finite loss."""
        assert self.module is not None
        parts = self.config.optimizer.accumulate
        terms: dict[str, Tensor] = {}
        values: list[float] = []
        waiting: AbstractContextManager[Any] = nullcontext()
        if isinstance(self.module, DistributedDataParallel) and not last:
            waiting = self.module.no_sync()
        with waiting:
            try:
                terms = self.module(batch.to(self.group.device))
                values = torch.stack(list(terms.values())).detach().tolist()
                finite = math.isfinite(values[list(terms).index("total")])
            except InputError:  # the integrator refuses numbers that are not finite
                finite = False
            # one process must not wait in the backward pass for another that left it
            if self.group.mean([float(finite)])[0] < 1:
                return False
            try:
                self.scaler.scale(terms["total"] / parts).backward()  # type: ignore[no-untyped-call]
            except InputError:
                if self.group.size > 1:
                    raise
                return False
        for name, value in zip(terms, values):
            sums[name] = sums.get(name, 0.0) + value / parts
        return True


def frozen_prefixes(config: TrainConfig) -> list[str]:
    """Return the prefixes of frozen parameters; random weights are never frozen."""
    return config.network.freeze if config.network.encoder or config.network.init_checkpoint else []
