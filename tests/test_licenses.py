"""The list of licenses in docs/licenses.md against the files that the package bundles."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import omnidc

PACKAGE = Path(omnidc.__file__).parent
DOCS = Path(__file__).resolve().parents[1] / "docs" / "licenses.md"


def patterns() -> dict[str, str]:
    """File pattern to license, from the first table."""
    rows = re.findall(r"^\| `([^`]+)` \|[^|]*\| ([^|]+) \|", DOCS.read_text(encoding="utf-8"), re.M)
    assert len({name for name, _ in rows}) == len(rows)
    return dict(rows)


def bundled() -> list[str]:
    """Every file of the package but what Python itself makes."""
    return sorted(
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc") and not path.name.startswith(".")
    )


def matches(file: str, pattern: str) -> bool:
    return file.endswith(".py") if pattern == "**/*.py" else fnmatch(file, pattern)


def test_licenses_name_every_bundled_file_once() -> None:
    names = list(patterns())
    found = {file: [pattern for pattern in names if matches(file, pattern)] for file in bundled()}
    assert {file: rows for file, rows in found.items() if len(rows) != 1} == {}


def test_licenses_name_nothing_that_is_not_bundled() -> None:
    files = bundled()
    assert [pattern for pattern in patterns() if not any(matches(file, pattern) for file in files)] == []


def test_licenses_are_named() -> None:
    known = ("Apache-2.0", "facts")
    assert [name for name, license in patterns().items() if not license.startswith(known)] == []


@pytest.mark.parametrize("suffix", ["js", "css", "html", "svg"])
def test_bundled_scripts_carry_no_foreign_notice(suffix: str) -> None:
    """A library that somebody vendors brings a notice along, and belongs on the list."""
    for path in PACKAGE.rglob(f"*.{suffix}"):
        assert not re.search(r"copyright|@license|©", path.read_text(encoding="utf-8"), re.I), path
