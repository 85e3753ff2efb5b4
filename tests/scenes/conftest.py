from __future__ import annotations

import pytest

from omnidc.scenes.assets import open_library
from omnidc.scenes.materials import Kit


@pytest.fixture(scope="session")
def bare_kit() -> Kit:
    """No asset packages: pictures from noise, shapes from rules."""
    return Kit(open_library(None))
