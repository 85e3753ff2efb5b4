"""The examples of docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import omnidc

ROOT = Path(omnidc.__file__).parent
MODULES = sorted(
    ".".join(("omnidc", *path.relative_to(ROOT).with_suffix("").parts))
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


API = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
PUBLIC = re.findall(r"^\.\. auto(?:function|class):: (\S+)$", API, flags=re.MULTILINE)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_an_example(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert ">>> " in getattr(importlib.import_module(module), attribute).__doc__


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_print_what_they_say(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
