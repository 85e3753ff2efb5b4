"""The multi-resolution depth integrator, usable alone.

    from omnidc.integrate import integrate
    log_depth, info = integrate(gradients, sparse_log_depth, mask, confidence, weights)

`energy` defines the problem, `solve` and `multigrid` solve it, `layer` makes it differentiable, `reference` is the
slow and obvious twin that the tests compare with, `gallery` holds problems that tests and benchmarks share.
"""

from omnidc.errors import require_torch

require_torch("omnidc.integrate")

from omnidc.integrate.energy import System  # noqa: E402
from omnidc.integrate.layer import ALPHA, integrate  # noqa: E402
from omnidc.integrate.solve import ConvergenceWarning, SolveInfo, solve  # noqa: E402

__all__ = ["ALPHA", "ConvergenceWarning", "SolveInfo", "System", "integrate", "solve"]
