"""3D Gaussian splatting with depth supervision: rasterizers, training, novel-view metrics, `.ply` and a viewer page."""

from omnidc.errors import require_torch

require_torch("Gaussian splatting", extra="splat")
