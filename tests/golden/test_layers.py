"""Layers, losses, metrics and patterns of the release give what they gave when they were compared with its code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from golden_layers import Arrays, golden

NAMES = list(np.load(Path(__file__).with_name("layers.npz")).files)


@pytest.fixture(scope="module")
def found() -> Arrays:
    return golden()


def test_every_stored_result_is_made(found: Arrays) -> None:
    assert sorted(found) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_result_is_the_stored_one(found: Arrays, name: str) -> None:
    with np.load(Path(__file__).with_name("layers.npz")) as stored:
        np.testing.assert_allclose(found[name], stored[name], rtol=1e-8, atol=1e-10)
