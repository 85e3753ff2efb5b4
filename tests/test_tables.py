"""The tables of README, docs and model card are those that `benchmarks/tables.py` makes of `docs/results`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MADE = re.compile(r"<!-- table .*?<!-- /table -->", re.DOTALL)
# A figure that looks measured: a decimal, or a share in percent. Versions (0.1.0) and numbers inside `code` are none.
FIGURE = re.compile(r"(?<![\d.\w-])(?:\d+\.\d+(?![\d.]*\.\d)|\d[\d.]* %)")
TYPED_PAGES = {
    "training-log.md": "a dated history",
    "lessons.md": "a summary of the history",
}
# Heads of typed tables whose figures are settings, shares of a design, examples or thresholds: not results.
TYPED_TABLES = {
    "| name | what it does | uses the photograph |": "a setting of a baseline",
    "| name | where to get it | layout below ROOT | decoding and filters | license | checked |": "licenses, limits",
    "| name | where to get it | layout below ROOT | decoding, filters, crops | license | checked |": "licenses, limits",
    "| check | evidence |": "thresholds of the doctor",
    "| input | what goes wrong | what helps |": "the 95 % interval",
    "| world | share | what |": "shares of the design, tested below",
    "| lens | field of view | where |": "shares and ranges of the design",
    "| option | default | meaning |": "defaults",
    "| option | |": "a limit",
    "| file | contents |": "names of scores",
    "| loss | equation | paper | compact |": "settings, tested in tests/training/test_docs.py",
    "| | |": "the model card: number of parameters, how the weights were trained",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "src/omnidc/weights/README.md"]


def test_tables_equal_their_json_files() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/tables.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def typed_tables(page: Path) -> dict[str, list[str]]:
    """Return the rows with figures of the tables that no script made, by the head of their table."""
    text = re.sub(r"`[^`\n]*`", "", MADE.sub("", page.read_text(encoding="utf-8")))
    found: dict[str, list[str]] = {}
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        head, *rows = block.splitlines()
        if figures := [row for row in rows if FIGURE.search(row)]:
            found[head] = figures
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in TYPED_PAGES], ids=lambda page: page.name)
def test_page_has_no_typed_table_of_results(page: Path) -> None:
    typed = {head: rows for head, rows in typed_tables(page).items() if head not in TYPED_TABLES}
    assert not typed, "write these with benchmarks/tables.py, or list the table with the reason why they are no results"


def test_typed_tables_that_are_listed_exist() -> None:
    found = {head for page in PAGES for head in typed_tables(page)}
    assert set(TYPED_TABLES) <= found


def test_scenes_page_has_the_shares_of_the_mix() -> None:
    from omnidc.scenes.worlds import MIX

    shown = re.findall(r"^\| (\w+) \| (\d+) % \|", (ROOT / "docs/scenes.md").read_text(encoding="utf-8"), flags=re.M)
    assert {world: int(share) for world, share in shown} == {world: round(100 * share) for world, share in MIX.items()}
