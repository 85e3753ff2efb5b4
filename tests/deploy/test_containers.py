"""What can be checked of the container files without a Docker daemon."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from omnidc.cli import app

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]]
    assert sources
    for name in sources:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name


def test_image_runs_as_a_user_with_a_health_check() -> None:
    final = DOCKERFILE.split("FROM ")[-1]
    assert re.search(r"^USER [1-9]\d*$", final, re.M)
    assert "HEALTHCHECK" in final
    assert "/healthz" in final


def test_command_of_the_image_exists() -> None:
    from typer.main import get_command

    words = re.findall(r'"([^"]+)"', re.search(r"^CMD (.*)$", DOCKERFILE, re.M)[1])  # type: ignore[index]
    commands = get_command(app).commands  # type: ignore[attr-defined]
    known = {option for parameter in commands[words[0]].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_image_installs_the_service_and_no_more() -> None:
    [wanted] = re.findall(r'pip install (?:--\S+ )*"([^"]+)"', DOCKERFILE)
    assert wanted == ".[web]"


def test_compose_serves_on_this_machine_only() -> None:
    yaml = pytest.importorskip("yaml")
    service = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["omnidc"]
    assert all(str(port).startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"]
    exposed = re.search(r"^EXPOSE (\d+)$", DOCKERFILE, re.M)
    assert exposed is not None
    assert service["ports"][0].endswith(f":{exposed[1]}")


def test_dockerfile_passes_hadolint() -> None:
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
