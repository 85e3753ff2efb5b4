"""The tables of README, docs and model card are those that `benchmarks/tables.py` makes of `docs/results`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MADE = re.compile(r"<!-- table .*?<!-- /table -->", re.DOTALL)
FRACTION = re.compile(r"(?<![\d.])0\.\d{2,}")
# Tables whose decimals are settings or shares of a design, and those of the dated history.
TYPED = {
    "training.md": "weights of losses",
    "training-log.md": "history",
    "lessons.md": "from the history",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "src/omnidc/weights/README.md"]


def test_tables_equal_their_json_files() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/tables.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in TYPED], ids=lambda page: page.name)
def test_page_has_no_typed_table_of_results(page: Path) -> None:
    text = MADE.sub("", page.read_text(encoding="utf-8"))
    typed = [line for line in text.splitlines() if line.startswith("|") and len(FRACTION.findall(line)) >= 2]
    assert not typed, typed


def test_training_page_has_the_weights_of_the_presets() -> None:
    pytest.importorskip("pydantic")
    from omnidc.training.config import read_preset

    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    text = text[text.index("| loss | equation | paper | compact |") :].split("\n\n")[0]
    shown: dict[str, dict[str, float]] = {"paper": {}, "compact": {}}
    for line in text.splitlines()[2:]:
        names, _, *weights = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        for preset, cell in zip(shown, weights, strict=True):
            values = re.findall(r"[\d.]+", cell) or ["0"] * len(re.findall(r"`\w+`", names))
            shown[preset].update(zip(re.findall(r"`(\w+)`", names), map(float, values), strict=True))
    for preset, found in shown.items():
        weights = read_preset(preset)["loss"]["weights"]
        assert found == {name: weights.get(name, 0.0) for name in found}, preset
        assert all(name in found for name, weight in weights.items() if weight), preset
