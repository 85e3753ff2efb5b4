"""`/v1/jobs`: accepted at once, followed by events, fetched in any format, forgotten."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("python_multipart")
pytest.importorskip("httpx")


def wait_until(client: Any, path: str, state: str) -> dict[str, Any]:
    until = time.monotonic() + 30
    while (now := client.get(path).json())["state"] != state:
        assert time.monotonic() < until, now
        time.sleep(0.02)
    return now


def test_job_gives_the_answer_of_complete(client_of: Any, room: Any) -> None:
    client = client_of()
    accepted = client.post("/v1/jobs", files=room)
    assert accepted.status_code == 202
    path = accepted.headers["location"]
    assert path.endswith(accepted.json()["id"])
    wait_until(client, path, "done")
    result = client.get(f"{path}/result")
    assert result.content == client.post("/v1/complete", files=room).content
    assert client.get(f"{path}/result", headers={"Accept": "image/png"}).content.startswith(b"\x89PNG")
    assert client.get(f"{path}/result", headers={"Accept": "model/ply"}).status_code == 422


def test_job_events_end_with_the_job(client_of: Any, stub: Any, small: Any) -> None:
    client = client_of(stub)
    path = client.post("/v1/jobs", **small()).headers["location"]
    assert stub.started.wait(10)
    assert client.get(f"{path}/result").status_code == 409
    stub.go.set()
    states = [json.loads(line[6:]) for line in client.get(f"{path}/events").text.splitlines() if line]
    assert states[-1] == {"state": "done"}
    assert np.load(io.BytesIO(client.get(f"{path}/result").content)).mean() == 2


def test_job_that_fails_says_why(client_of: Any, stub: Any, small: Any) -> None:
    client = client_of(stub)
    stub.go.set()
    path = client.post("/v1/jobs", **small(13)).headers["location"]
    assert "luck" in wait_until(client, path, "failed")["error"]
    answer = client.get(f"{path}/result")
    assert answer.status_code == 422
    assert "luck" in answer.json()["error"]


def test_jobs_hold_memory_until_they_are_forgotten(client_of: Any, stub: Any, small: Any) -> None:
    client = client_of(stub, queue=2, result_seconds=3600)
    stub.go.set()
    budget = client.app.state.shared.budget
    paths = [client.post("/v1/jobs", **small()).headers["location"] for _ in range(2)]
    assert budget.used > 0
    assert client.post("/v1/jobs", **small()).status_code == 429
    for path in paths:
        wait_until(client, path, "done")
        assert client.delete(path).status_code == 204
        assert client.get(path).status_code == 404
    assert budget.used == 0
    assert client.post("/v1/jobs", **small()).status_code == 202


def test_jobs_expire(client_of: Any, stub: Any, small: Any) -> None:
    client = client_of(stub, result_seconds=0.2)
    path = client.post("/v1/jobs", **small()).headers["location"]
    time.sleep(0.3)
    assert client.get(path).status_code == 404
    assert client.app.state.shared.budget.used == 0
