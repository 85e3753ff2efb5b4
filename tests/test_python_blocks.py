"""The Python blocks of README and docs run, one after the other in one namespace a page, or say why they cannot."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from command_files import example_files, kitti_files

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name != "training-log.md")]
# A block that cannot run has the reason in a comment above it: <!-- not run: it needs a GPU -->
BLOCK = re.compile(r"(?:<!-- not run: (.+?) -->\n)?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Lines of indented blocks that can only be Python.
INDENTED = re.compile(r"^    (from \w|import \w|\w+ = \w+\()", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return (reason why it is not run, code) of each block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(not reason for reason, _ in blocks(page))], ids=lambda page: page.name
)
def test_python_blocks_of_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example_files(tmp_path)
    kitti_files(tmp_path)
    for name in ("a", "b"):
        shutil.copy(tmp_path / "photo.jpg", tmp_path / f"{name}.jpg")
        shutil.copy(tmp_path / "sparse.npy", tmp_path / f"{name}.npy")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "block"}
    for number, (reason, code) in enumerate(blocks(page), start=1):
        if not reason:
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)
    assert len(names) > 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_has_python_in_fenced_blocks_only(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert not INDENTED.findall(text), "fence it as ```python, so that it is run"


def test_blocks_that_are_not_run_still_compile() -> None:
    for page in PAGES:
        for _, code in blocks(page):
            compile(code, page.name, "exec")


def test_example_files_are_those_of_the_bundled_room(tmp_path: Path) -> None:
    example_files(tmp_path)
    assert np.load(tmp_path / "sparse.npy").shape == (240, 320)
