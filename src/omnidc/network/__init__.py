"""The networks and their checkpoints, in torch."""

from omnidc.errors import require_torch

require_torch("omnidc.network")
