"""The compact network in a form that exports: the same weights and stages, with `fixed_solver` as its integrator."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omnidc.deploy.fixed_solver import Problem, prepare
from omnidc.deploy.loop import run_iterations
from omnidc.deploy.model_info import ModelInfo
from omnidc.integrate import SolveInfo
from omnidc.network.compact import CompactNetwork, Solved
from omnidc.network.normalize import Normalization


class _FixedCompact(CompactNetwork):
    """The network with a fixed solver."""

    iterations: int
    problem: Problem | None = None  # of the last run: `trace_step` needs one
    solved: Solved | None = None  # of the last run

    def _solve_fields(self, image: Tensor, sparse: Tensor, norm: Normalization) -> Solved:
        self.solved = super()._solve_fields(image, sparse, norm)
        return self.solved

    def _solve(
        self,
        gradients: tuple[Tensor, ...],
        mean: Tensor,
        total: Tensor,
        weights: tuple[Tensor, ...],
        warm_start: Tensor,
    ) -> tuple[Tensor, SolveInfo]:
        self.problem = prepare(gradients, mean, self.log_alpha.exp() * total, weights, warm_start, self.config.levels)
        x, residual = self.problem.result(run_iterations(self.problem, self.iterations))
        done = torch.ones_like(residual)
        return x, SolveInfo(self.iterations * done, residual[None], done > 0, done > 0)


class CompactExport(nn.Module):
    """forward(image, sparse) → the tensors of `model_info.OUTPUTS`, then those of `bands.SolvedMaps`."""

    def __init__(self, network: CompactNetwork, iterations: int | None = None) -> None:
        super().__init__()
        with torch.device("meta"):
            self.network = _FixedCompact(network.config)
        self.network.load_state_dict(network.state_dict(), assign=True)
        self.network.iterations = iterations or network.config.iterations
        self.network.eval()
        self.info = ModelInfo(
            "compact",
            max_side=network.config.max_side,
            iterations=self.network.iterations,
            halo=network.config.refine_margin,
            license="Apache-2.0",
        )

    def forward(
        self,
        image: Tensor,  # [B, 3, H, W]
        sparse: Tensor,  # [B, 1, H, W]
    ) -> tuple[Tensor, ...]:
        out = self.network(image, sparse)
        assert out.laplace_scale is not None
        assert out.sky is not None
        solved = self.network.solved
        assert solved is not None
        maps = out.depth, out.laplace_scale, out.fields.confidence, out.sky.sigmoid(), out.info.residuals[-1]
        return *maps, solved.x2, solved.maps, solved.judged, out.median

    def example_problem(self, image: Tensor, sparse: Tensor) -> Problem:
        """Return the equations of an image."""
        self(image, sparse)
        assert self.network.problem is not None
        return self.network.problem
