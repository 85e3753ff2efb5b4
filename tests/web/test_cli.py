"""`omnidc web` and `omnidc serve` before they serve: sentences instead of tracebacks."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from typer.testing import CliRunner

from omnidc.cli import app
from omnidc.errors import ConfigError, MissingExtraError
from omnidc.web.settings import Settings

RUN = CliRunner()


def test_only_this_computer_by_default() -> None:
    assert Settings().host == "127.0.0.1"
    for command in ("web", "serve"):
        assert "127.0.0.1" in RUN.invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output


def test_a_port_in_use_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = RUN.invoke(app, ["serve", "--model", "interpolate", "--port", str(port)])
    assert isinstance(result.exception, ConfigError)
    assert f"Cannot listen on 127.0.0.1:{port}" in str(result.exception)


@pytest.mark.parametrize(
    "options", [["--queue", "0"], ["--timeout", "0"], ["--api-key", "short"], ["--max-megapixels", "-1"]]
)
def test_impossible_limits_are_refused(options: list[str]) -> None:
    assert isinstance(RUN.invoke(app, ["serve", "--model", "interpolate", *options]).exception, ConfigError)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    result = RUN.invoke(app, ["web", "--model", "interpolate", "--no-browser"])
    assert isinstance(result.exception, MissingExtraError)
    assert "omnidc[web]" in str(result.exception)
