"""The training command that uses the depth of an export; the tools' plain commands ignore it."""

from __future__ import annotations

import shlex
from pathlib import Path


def training_command(export: str, folder: Path) -> list[str]:
    """Return lines to print after an export: the command, and what to know about it."""
    place = shlex.quote(str(folder))
    lines = {
        "nerfstudio": [
            f"train with  ns-train depth-nerfacto --data {place}",
            "(splatfacto starts from the points, but ignores the depth)",
        ],
        "dn-splatter": [
            "train with  ns-train dn-splatter --pipeline.model.use-depth-loss True --pipeline.model.depth-lambda 0.2 "
            f"--pipeline.model.use-normal-loss False coolermap --data {place} --depth-mode mono",
            "(without normals its normal loss must be off; depth of 0.1 scene units or less is ignored)",
        ],
        "inria": [f"train with  python train.py -s {place} -d depths"],
        "colmap": [f"fuse with  colmap stereo_fusion --workspace_path {place} --output_path fused.ply"],
        "colmap-dense-points": [
            f"train with  python examples/simple_trainer.py default --data_dir {place} --data_factor 1 --depth_loss",
            "(gsplat; without --data_factor 1 it looks for images_4. Brush opens the folder itself.)",
        ],
    }
    return lines[export]
