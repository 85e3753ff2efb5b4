"""Files of the release agree with the package."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import omnidc
from omnidc.cli import RENAMED_OPTIONS
from omnidc.pipeline.options import RENAMED_KEYWORDS

ROOT = Path(__file__).parent.parent


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_is_written_in_the_package_and_citation_only() -> None:
    assert 'dynamic = ["version"]' in text_of("pyproject.toml")
    assert f"version: {omnidc.__version__}\n" in text_of("CITATION.cff")


def test_model_card_names_the_bundled_weights() -> None:
    weights = ROOT / "src/omnidc/weights/compact.safetensors"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() in text_of("src/omnidc/weights/README.md")


def test_changelog_starts_with_the_coming_release() -> None:
    first = re.search(r"^## (.*)$", text_of("CHANGELOG.md"), flags=re.MULTILINE)
    assert first is not None
    assert omnidc.__version__.partition(".dev")[0] in first[1]


def test_upgrade_notes_list_every_renamed_name() -> None:
    notes = text_of("docs/upgrade.md")
    names = [*RENAMED_OPTIONS, *(f"{keyword}=" for keyword in RENAMED_KEYWORDS)]
    assert [name for name in names if name not in notes] == []


def test_upgrade_notes_list_every_renamed_setting() -> None:
    pytest.importorskip("pydantic")
    from omnidc.training.tables import RENAMED

    notes = text_of("docs/upgrade.md")
    old = [name for name in RENAMED if not name.startswith("loss.")]
    assert [name for name in old if f"`{name}`" not in notes and f"`[{name}]`" not in notes] == []


def test_contributing_page_lists_the_files_with_slow_tests() -> None:
    tests = ROOT / "tests"
    slow = {path for path in tests.rglob("test_*.py") if "mark.slow" in path.read_text(encoding="utf-8")}
    listed = re.findall(r"`(tests/[\w/]+\.py)`:", text_of("CONTRIBUTING.md"))
    assert set(listed) == {path.relative_to(ROOT).as_posix() for path in slow - {Path(__file__)}}


def test_nightly_script_runs_all_slow_tests() -> None:
    calls = re.findall(r"pytest -m slow (.*)", text_of(".ci/nightly"))
    ignored = {path for call in calls for path in re.findall(r"--ignore (\S+)", call)}
    chosen = {word for call in calls for word in call.split() if word.startswith("tests/") and "--ignore" not in call}
    assert any("tests/" not in re.sub(r"--ignore \S+", "", call) for call in calls)
    assert ignored <= chosen


def test_workflow_tests_every_system_and_python() -> None:
    workflow = text_of(".github/workflows/tests.yml")
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in workflow
    classifiers = re.findall(r"Python :: (3\.\d+)", text_of("pyproject.toml"))
    assert [version for version in classifiers if f'"{version}"' not in workflow] == []


@pytest.mark.parametrize("workflow", ["tests", "nightly"])
def test_workflow_calls_a_script_of_ci(workflow: str) -> None:
    scripts = re.findall(r"run: (\.ci/\w+)", text_of(f".github/workflows/{workflow}.yml"))
    assert scripts
    for script in scripts:
        assert text_of(script).startswith("#!")
