"""Datasets: one small reader per dataset, all of them sequences of `Frame`.

    frames = open_dataset("kitti-dc", Path("/data/kitti_depth"), lines=16)
    len(frames), frames[0].sparse

Opening lists files and reads none of them; `frames[i]` reads one. `omnidc data list` prints the registry.
"""

from __future__ import annotations

from omnidc.datasets.registry import DATASETS, Dataset, open_dataset
from omnidc.datasets.source import Frames

__all__ = ["DATASETS", "Dataset", "Frames", "open_dataset"]
