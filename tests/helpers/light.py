"""Python as in a base install: what only an extra brings cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def required(requirement: Requirement, seen: set[str]) -> Iterator[str]:
    """Names of the distributions that a requirement brings."""
    name = canonicalize_name(requirement.name)
    extras = requirement.extras or {""}
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return
    if f"{name}{sorted(extras)}" in seen:
        return
    seen.add(f"{name}{sorted(extras)}")
    yield name
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for line in lines:
        inner = Requirement(line)
        if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
            inner.marker = None
            yield from required(inner, seen)


def missing_modules(extras: Sequence[str] = ()) -> list[str]:
    """Top-level modules of this environment that a base install, with these extras, would not have."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    seen: set[str] = set()
    there = {"omnidc", *(name for line in lines for name in required(Requirement(line), seen))}
    return sorted(
        module
        for module, owners in packages_distributions().items()
        if not there & {canonicalize_name(owner) for owner in owners} and module.isidentifier()
    )


def run_light(
    code: str,  # Python
    words: Sequence[str] = (),  # its arguments
    missing: Sequence[str] = (),  # modules whose import raises ImportError
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own that lacks the missing modules."""
    block = f"import sys; sys.modules.update(dict.fromkeys({list(missing)!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", block + code, *words], capture_output=True, text=True, check=False, cwd=folder
    )
