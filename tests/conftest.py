from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import settings

# xdist runs one worker per core; a second torch thread in each would only thrash.
torch.set_num_threads(1)

settings.register_profile("omnidc", deadline=None, max_examples=25)
settings.load_profile("omnidc")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The founders' folder of golden outputs and real photographs; users do not have it."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared")
    return SHARED
