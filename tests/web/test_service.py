"""POST /v1/complete and its neighbors: what a well-behaved client gets."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import omnidc
from omnidc.io.depth import read_depth

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")
httpx = pytest.importorskip("httpx")

EXAMPLES = Path(omnidc.__file__).parent / "examples"
CAMERA = (EXAMPLES / "room_intrinsics.txt").read_text()


@pytest.fixture(scope="module")
def expected() -> Any:
    return omnidc.load("interpolate").complete(EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz")


def test_npy_is_the_answer_of_the_library(client_of: Any, room: Any, expected: Any) -> None:
    answer = client_of().post("/v1/complete", files=room)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-npy"
    assert answer.headers["omnidc-model"] == "interpolate"
    assert answer.headers["omnidc-points"] == "500"
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.content)), expected.depth)


def test_png_reads_back_in_meters(client_of: Any, room: Any, expected: Any, tmp_path: Path) -> None:
    answer = client_of().post("/v1/complete", files=room, headers={"Accept": "image/png"})
    (tmp_path / "depth.png").write_bytes(answer.content)
    np.testing.assert_allclose(read_depth(tmp_path / "depth.png").depth, expected.depth, atol=0.0006)


@pytest.mark.parametrize(("accept", "kind"), [("model/ply", "ply"), ("model/gltf-binary", "glb")])
def test_clouds_open_elsewhere(client_of: Any, room: Any, accept: str, kind: str, expected: Any) -> None:
    client = client_of()
    answer = client.post("/v1/complete", files=room, data={"intrinsics": CAMERA}, headers={"Accept": accept})
    assert answer.headers["content-type"] == accept
    loaded = trimesh.load(io.BytesIO(answer.content), file_type=kind)
    depth = np.abs(loaded.bounds[:, 2])
    assert depth.min() >= expected.depth.min() * 0.999
    assert depth.max() <= expected.depth.max() * 1.001
    refused = client.post("/v1/complete", files=room, headers={"Accept": accept})
    assert refused.status_code == 422
    assert "intrinsics" in refused.json()["error"]


def test_json_holds_maps_and_metadata(client_of: Any, room: Any, expected: Any) -> None:
    answer = client_of().post("/v1/complete", files=room, headers={"Accept": "application/json"}).json()
    depth = np.frombuffer(base64.b64decode(answer["maps"]["depth"]["base64"]), "<f4").reshape(240, 320)
    np.testing.assert_array_equal(depth, expected.depth)
    assert answer["maps"]["uncertainty"] is None
    assert (answer["points"], answer["relative"], answer["model"]) == (500, False, "interpolate")


def test_points_in_a_form_and_in_json_are_one_thing(client_of: Any) -> None:
    image = (EXAMPLES / "room.jpg").read_bytes()
    points = [[10, 20, 1.5], [200.4, 100.2, 3.0], [300, 200, 2.0]]
    client = client_of()
    form = client.post("/v1/complete", files={"image": ("a.jpg", image)}, data={"points": json.dumps(points)})
    text = client.post("/v1/complete", json={"image": base64.b64encode(image).decode(), "points": points})
    assert form.status_code == text.status_code == 200
    assert form.content == text.content
    sparse = np.zeros((240, 320), np.float32)
    for x, y, depth in points:
        sparse[round(y), round(x)] = depth
    expected = omnidc.load("interpolate").complete(EXAMPLES / "room.jpg", sparse)
    np.testing.assert_array_equal(np.load(io.BytesIO(form.content)), expected.depth)


def test_no_point_gives_relative_depth_and_says_so(client_of: Any, room: Any) -> None:
    answer = client_of().post("/v1/complete", files={"image": room["image"]})
    assert answer.status_code == 200
    assert answer.headers["omnidc-unit"] == "relative"
    assert "relative" in json.loads(answer.headers["omnidc-warnings"])[0]


def test_options_are_those_of_the_library(client_of: Any, room: Any) -> None:
    options = {"keep_input": "hard", "clip_depth": 2.0, "max_long_side": 160, "depth_scale": 2}
    answer = client_of().post("/v1/complete", files=room, data={k: str(v) for k, v in options.items()})
    expected = omnidc.load("interpolate").complete(EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz", **options)
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.content)), expected.depth)


def test_options_are_read_under_their_old_names(client_of: Any, room: Any) -> None:
    client = client_of()
    old, new = (client.post("/v1/complete", files=room, data={name: "2.0"}) for name in ("far", "clip_depth"))
    assert old.status_code == 200
    assert old.content == new.content


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/x-npy"),
        ("*/*", "application/x-npy"),
        ("image/*", "image/png"),
        ("text/html, application/json;q=0.5, image/png;q=0.4", "application/json"),
        ("application/octet-stream", "application/x-npy"),
        ("application/json;q=0.1, image/png;q=0.9", "image/png"),
    ],
)
def test_the_accept_header_chooses(accept: str | None, kind: str) -> None:
    from omnidc.web.responses import MEDIA_TYPES, negotiate

    assert MEDIA_TYPES[negotiate(accept)][0] == kind


def test_neighbors(client_of: Any, room: Any) -> None:
    client = client_of(page=False)
    assert client.get("/healthz").text == "ok\n"
    assert client.get("/readyz").text == "ready\n"
    [model] = client.get("/v1/models").json()["models"]
    assert model["name"] == "interpolate"
    assert not model["uses_photograph"]
    client.post("/v1/complete", files=room)
    client.post("/v1/complete", files={"image": ("a.txt", b"hello")})
    metrics = client.get("/metrics").text
    assert 'omnidc_requests_total{method="POST",route="/v1/complete",status="200"} 1.0' in metrics
    assert 'omnidc_requests_total{method="POST",route="/v1/complete",status="422"} 1.0' in metrics
    assert "omnidc_model_seconds_count 1.0" in metrics
    assert "omnidc_queue_waiting 0.0" in metrics
    assert "/v1/complete" in client.get("/").text
    assert "static/docs.js" in client.get("/docs").text
    for path in ("/redoc", "/page/info", "/page/login"):
        assert client.get(path).status_code == 404


def test_equal_sizes_that_wait_together_run_together(server_of: Any, stub: Any, small: Any) -> None:
    import threading
    import time

    host, port = server_of(stub, page=False)
    answers: dict[int, float] = {}

    def ask(k: int) -> None:
        width = 16 if k != 3 else 20
        answer = httpx.post(f"http://{host}:{port}/v1/complete", **small(float(k), width), timeout=20)
        answers[k] = float(np.load(io.BytesIO(answer.content)).mean())

    threads = [threading.Thread(target=ask, args=(1,))]
    threads[0].start()
    assert stub.started.wait(10)
    for k in (2, 3, 4, 5):
        threads.append(threading.Thread(target=ask, args=(k,)))
        threads[-1].start()
        waiting = f"omnidc_queue_waiting {k - 1}"
        until = time.monotonic() + 10
        while waiting not in httpx.get(f"http://{host}:{port}/metrics").text and time.monotonic() < until:
            time.sleep(0.01)
    stub.go.set()
    for thread in threads:
        thread.join(20)
    assert stub.batches == [1, 3, 1]  # 2, 4 and 5 are of one size; 3 is not, and runs after them
    assert answers == {k: float(k) for k in (1, 2, 3, 4, 5)}
