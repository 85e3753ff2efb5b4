"""The doctor's verdict on the page."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import omnidc
import omnidc.diagnose
from omnidc.web.words import page_words


def verdict_of(client: Any, **request: Any) -> Any:
    done = json.loads(client.post("/page/complete", **request).text.splitlines()[-1])
    answer = client.post(f"/page/results/{done['result']}/doctor")
    if answer.status_code != 200:
        return answer
    return [json.loads(line) for line in answer.text.splitlines()]


def test_doctor_measures_errors_and_checks_the_input(client_of: Any, room: Any) -> None:
    lines = verdict_of(client_of(), files=room, data={"unit": "m"})
    assert all(line["state"] == "running" for line in lines[:-1])
    shares = [line["progress"] for line in lines[:-1]]
    assert shares == sorted(shares)
    verdict = lines[-1]["verdict"]
    assert verdict["errors"]["count"] > 100
    assert 0 < verdict["errors"]["network"] < 0.5
    assert {finding["check"] for finding in verdict["findings"]} >= {"unit", "camera matrix"}
    camera = next(finding for finding in verdict["findings"] if finding["check"] == "camera matrix")
    assert camera["verdict"] == "cannot tell"  # an assumed camera is not examined
    assert "Camera" in camera["evidence"]


def test_doctor_examines_a_typed_camera(client_of: Any, room: Any) -> None:
    data = {"unit": "m", "intrinsics": "120, 120, 79.5, 59.5"}  # that of half the resolution
    [camera] = [
        finding
        for finding in verdict_of(client_of(), files=room, data=data)[-1]["verdict"]["findings"]
        if finding["check"] == "camera matrix"
    ]
    assert camera["verdict"] == "suspicious"


def test_doctor_finds_millimeters_taken_for_meters(client_of: Any, room: Any) -> None:
    stream = io.BytesIO()
    np.save(stream, 1000 * np.load(io.BytesIO(room["sparse"][1]))["depth"])
    files = {**room, "sparse": ("room.npy", stream.getvalue())}
    lines = verdict_of(client_of(), files=files, data={"unit": "m"})
    [unit] = [finding for finding in lines[-1]["verdict"]["findings"] if finding["check"] == "unit"]
    assert unit["verdict"] == "suspicious"
    assert "type 1000 under" in unit["advice"]


def test_doctor_without_points_is_refused(client_of: Any, room: Any) -> None:
    answer = verdict_of(client_of(), files=room, data={"keep": "0"})
    assert answer.status_code == 422
    assert "no points" in answer.json()["error"]


def test_doctor_of_few_points_has_no_errors(client_of: Any, small: Any) -> None:
    verdict = verdict_of(client_of(), **small())[-1]["verdict"]
    assert verdict["errors"] is None


def test_doctor_gives_its_memory_back(client_of: Any, room: Any) -> None:
    client = client_of()
    verdict_of(client, files=room)
    assert client.app.state.shared.budget.used == 0


def test_doctor_of_a_failing_model_is_a_sentence(client_of: Any, small: Any) -> None:
    from omnidc.errors import ConvergenceError

    class Failing:
        """Completes once, and fails from then on."""

        def __init__(self) -> None:
            self.inner, self.name, self.calls = omnidc.load("interpolate"), "failing", 0

        def complete_frames(self, frames: Any, options: Any) -> Any:
            self.calls += 1
            if self.calls > 1:
                raise ConvergenceError("Once is enough.")
            return self.inner.complete_frames(frames, options)

    client = client_of(Failing())
    sparse = np.random.default_rng(0).uniform(1, 2, (48, 64)).astype(np.float32)
    stream = io.BytesIO()
    np.save(stream, sparse)
    files = {**small(2.0, 64, 48)["files"], "sparse": ("a.npy", stream.getvalue())}
    assert verdict_of(client, files=files)[-1] == {"state": "failed", "error": "Once is enough."}


def test_every_sentence_of_the_doctor_names_no_option() -> None:
    """Sentences of the checks, as written in the source; the report of the command line is its own."""
    folder = Path(omnidc.diagnose.__file__).parent
    sentences = [
        node.value
        for path in folder.glob("*.py")
        if path.name != "report.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "--" in node.value
    ]
    assert sentences
    assert not [sentence for sentence in sentences if "--" in page_words(sentence)]
