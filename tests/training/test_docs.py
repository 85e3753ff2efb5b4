from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnidc.training.config import load_config
from omnidc.training.losses import LOSSES

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


@pytest.mark.parametrize(("preset", "column"), [("paper", 3), ("compact", 4)])
def test_page_weights_of_losses_are_the_presets(preset: str, column: int) -> None:
    config = load_config(preset).loss
    weights = {loss.name: config.weight(loss) for loss in LOSSES}
    found: dict[str, float] = {}
    section = PAGE.read_text(encoding="utf-8").split("## Losses")[1]
    for line in re.findall(r"^\| `.*\|$", section, re.MULTILINE):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        names = re.findall(r"`(\w+)`", cells[1])
        values = [float(value) for value in cells[column].split(",") if value] or [0.0] * len(names)
        found.update(zip(names, values, strict=True))
    assert found == weights
