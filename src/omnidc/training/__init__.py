"""Training: losses, configuration, schedule and the loop."""

from omnidc.errors import require_torch

require_torch("Training", extra="train")
