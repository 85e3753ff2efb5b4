from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from omnidc.patterns.sample import Depth, Image


@pytest.fixture(scope="session")
def golden() -> Mapping[str, NDArray[np.float64]]:
    """Outputs of the released code on a scene made by formula (120×160)."""
    with np.load(Path(__file__).parent / "golden.npz") as file:
        return {key: file[key] for key in file.files}


@pytest.fixture(scope="session")
def scene() -> tuple[Depth, Image]:
    """96×128: a slanted wall with a near box, a strip of unknown depth at the top, fine texture and a black corner."""
    rng = np.random.default_rng(0)
    depth = np.linspace(6, 3, 96, dtype=np.float32)[:, None] + np.zeros((96, 128), np.float32)
    depth[40:80, 30:70] = 1.5
    depth[:8] = 0
    image = rng.integers(0, 256, (96, 128, 3)).astype(np.uint8)
    image[40:80, 30:70] //= 2
    image[70:, 100:] = 0
    return depth, image
