"""What a badly behaved client gets: a 4xx with one sentence, and a service that goes on."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import omnidc

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")
httpx = pytest.importorskip("httpx")

EXAMPLES = Path(omnidc.__file__).parent / "examples"


def npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npy_header(shape: tuple[int, ...]) -> bytes:
    """A header that promises more than follows."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.getvalue()


def tiff_bomb(width: int, height: int) -> bytes:
    """A TIFF of one packed strip of 999 zeros that claims width × height pixels."""
    strip = zlib.compress(b"\0" * 999)
    entries = {256: width, 257: height, 258: 8, 259: 8, 262: 1, 273: 8, 277: 1, 278: height, 279: len(strip)}
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries.items())
    return b"II*\0" + struct.pack("<I", 8 + len(strip)) + strip + struct.pack("<H", len(entries)) + table + bytes(4)


def bomb(width: int, height: int, depth: int = 8) -> bytes:
    """A PNG of a few hundred bytes that claims width × height pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 999)) + chunk(b"IEND", b"")
    )


def zip_bomb(member: str) -> bytes:
    """40 kB that unpack to 40 MB."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, npy_header((2500, 4000)) + b"\0" * 40_000_000)
    return stream.getvalue()


def zip_of(member: str, data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(member, data)
    return stream.getvalue()


def exr_bomb() -> bytes:
    def attribute(name: bytes, kind: bytes, value: bytes) -> bytes:
        return name + b"\0" + kind + b"\0" + struct.pack("<I", len(value)) + value

    window = struct.pack("<4i", 0, 0, 60000, 60000)
    return b"v/1\x01" + struct.pack("<I", 2) + attribute(b"dataWindow", b"box2i", window) + b"\0"


class Trap:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('a pickle was opened')",))


SPARSE = {
    "pickled npy": ("a.npy", npy(np.array([Trap()], object), allow_pickle=True), 422, "Python objects"),
    "bare pickle": ("a.npy", pickle.dumps(Trap()), 422, "damaged"),
    "pickle in npz": ("a.npz", b"", 422, ""),
    "huge npy header": ("a.npy", npy_header((2**31, 2**31)), 413, "claims the shape"),
    "truncated npy": ("a.npy", npy(np.ones((240, 320), np.float32))[:-9], 422, "truncated"),
    "zip bomb": ("a.npz", zip_bomb("depth.npy"), 413, "claims the shape"),
    "zip bomb without suffix": ("a.npz", zip_bomb("depth"), 413, "claims the shape"),
    "zip of text": ("a.npz", zip_of("depth", b"12 13 14"), 422, "damaged"),
    "png bomb": ("a.png", bomb(60000, 60000, 16), 413, "too many pixels"),
    "exr bomb": ("a.exr", exr_bomb(), 413, "60001x60001"),
    "pfm bomb": ("a.pfm", b"Pf\n60000 60000\n-1.0\n" + b"\0" * 64, 413, "60000x60000"),
    "damaged exr": ("a.exr", b"v/1\x01\x02\0\0\0" + b"\xff" * 60, 422, "damaged"),
    "text": ("depth.txt", b"1 2 3", 422, "depth.txt"),
    "text as npy": ("depth.npy", b"1 2 3", 422, "depth.npy"),
    "color png": ("room.png", (EXAMPLES / "room.jpg").read_bytes(), 422, "room.png"),
    "path trick": ("../../../etc/passwd", b"root", 422, "passwd"),
    "absolute path": ("/etc/shadow.npy", b"root", 422, "shadow.npy is damaged"),
    "nul in the name": ("a\0b.npy", b"root", 422, "damaged"),
    "another size": ("a.npy", npy(np.ones((5, 5), np.float32)), 422, "5x5"),
    "negative depth": ("a.npy", npy(np.full((240, 320), -1, np.float32)), 422, "negative"),
    "four dimensions": ("a.npy", npy(np.ones((2, 3, 4, 5), np.float32)), 422, "shape"),
    "words": ("a.npy", npy(np.array([["far", "near"]])), 422, "numbers"),
    "empty": ("a.npy", b"", 422, "damaged"),
}
trap = io.BytesIO()
np.savez(trap, depth=np.array([Trap()], object), allow_pickle=True)
SPARSE["pickle in npz"] = ("a.npz", trap.getvalue(), 422, "Python objects")


@pytest.fixture(scope="module")
def client() -> Any:
    from fastapi.testclient import TestClient

    from omnidc.web.app import create_app
    from omnidc.web.settings import Settings

    app = create_app(omnidc.load("interpolate"), Settings(max_bytes=2**20, max_pixels=200_000))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as made:
        yield made


def test_service_takes_12_megapixels_with_float_depth() -> None:
    from fastapi.testclient import TestClient

    from omnidc.web.app import create_app
    from omnidc.web.settings import Settings

    stream = io.BytesIO()
    Image.new("RGB", (4032, 3024), (90, 120, 60)).save(stream, "JPEG")
    depth = np.zeros((3024, 4032), np.float32)
    depth[::400, ::400] = 2
    files = {"image": ("phone.jpg", stream.getvalue()), "sparse": ("depth.npy", npy(depth))}
    with TestClient(create_app(omnidc.load("interpolate"), Settings()), base_url="http://localhost") as client:
        answer = client.post("/v1/complete", files=files, headers={"accept": "image/png"})
    assert answer.status_code == 200, answer.text
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.size == (4032, 3024)


@pytest.mark.parametrize("name", SPARSE)
def test_bad_depth_files_are_refused_with_a_sentence(client: Any, room: Any, name: str) -> None:
    file, data, status, words = SPARSE[name]
    answer = client.post("/v1/complete", files={"image": room["image"], "sparse": (file, data)})
    sentence = answer.json()["error"]
    assert answer.status_code == status, sentence
    assert words in sentence
    assert "/dev/shm" not in sentence
    assert "omnidc-" not in sentence
    assert sentence.endswith(".")
    assert client.post("/v1/complete", files=room).status_code == 200


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 422, "empty"),
        (b"just text", 422, "note.txt is damaged, truncated or not an image"),
        (bomb(30000, 30000), 413, "too many pixels"),
        (bomb(500, 401), 413, "0.2 megapixels"),
        (tiff_bomb(60000, 60000), 413, "too many pixels"),
        (tiff_bomb(500, 401), 413, "0.2 megapixels"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", 422, "not an image"),
        (b"\xff\xd8\xff" + b"\0" * 50, 422, "not an image"),
        ((EXAMPLES / "room.jpg").read_bytes()[:3000], 422, "truncated"),
    ],
)
def test_bad_images_are_refused_with_a_sentence(client: Any, data: bytes, status: int, words: str) -> None:
    for path in ("/v1/complete", "/page/complete", "/page/preview"):
        answer = client.post(path, files={"image": ("folder/note.txt", data)})
        assert answer.status_code == status, answer.text
        assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"points": "[[1, 2]]"}, 422, "points"),
        ({"points": "[[1, 2, -3]]"}, 422, "greater than 0"),
        ({"points": "[[1, 2, 1e999]]"}, 422, "points"),
        ({"points": "[[1, 2, 1e300]]"}, 422, "Point 1 has the depth"),
        ({"points": "[[5000, 2, 3]]"}, 422, "outside the image"),
        ({"points": "[" * 100_000}, 422, "points"),
        ({"points": "nonsense"}, 422, "JSON"),
        ({"intrinsics": "1,2,3"}, 422, "fx fy cx cy"),
        ({"intrinsics": "0,0,0,0"}, 422, "singular"),
        ({"intrinsics": "a,b,c,d"}, 422, "intrinsics"),
        ({"clip_depth": "-1"}, 422, "clip_depth"),
        ({"far": "nan"}, 422, "clip_depth"),
        ({"far": "1", "clip_depth": "1"}, 422, "far"),
        ({"max_long_side": "0"}, 422, "max_long_side"),
        ({"keep_input": "harder"}, 422, "keep_input"),
        ({"ray_depth": "true", "points": "[[1,2,3]]"}, 422, "intrinsics"),
        ({"color": "red"}, 422, "color"),
    ],
)
def test_bad_fields_are_named(client: Any, room: Any, fields: Any, status: int, words: str) -> None:
    answer = client.post("/v1/complete", files={"image": room["image"]}, data=fields)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_a_file_and_points_contradict_each_other(client: Any, room: Any) -> None:
    answer = client.post("/v1/complete", files=room, data={"points": "[[1, 2, 3]]"})
    assert answer.status_code == 422
    assert "not both" in answer.json()["error"]


def test_points_have_a_limit(client_of: Any, room: Any) -> None:
    points = json.dumps([[1, 2, 3]] * 11)
    answer = client_of(max_points=10).post("/v1/complete", files={"image": room["image"]}, data={"points": points})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"--x\r\n", 400),
        ("multipart/form-data; boundary=x", b"no boundary in here", 400),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n',
            422,
        ),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\nhello\r\n--x--\r\n", 400),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 422),
        ("multipart/form-data; boundary=" + "y" * 500, b"--x--\r\n", 400),
        ("application/json", b"{", 422),
        ("application/json", b"[" * 100_000, 422),
        ("application/json", b'{"image": "###"}', 422),
        ("application/json", b'{"image": "aGVsbG8=", "points": [[1, 2]]}', 422),
        ("application/json", b"\xff\xfe", 422),
        ("text/plain", b"hello", 415),
        ("", b"hello", 415),
        ("application/x-www-form-urlencoded", b"image=1", 415),
    ],
)
def test_malformed_bodies(client: Any, kind: str, body: bytes, status: int) -> None:
    answer = client.post("/v1/complete", content=body, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"].endswith(".")


def test_a_field_twice_too_many_files_and_unknown_files(client: Any, room: Any) -> None:
    image = room["image"]
    for files in ([("image", image)] * 2, [("image", image), ("photo", image)], [("image", image)] * 3):
        assert client.post("/v1/complete", files=files).status_code in (400, 422)


def test_large_bodies_are_refused_declared_or_not(client: Any) -> None:
    declared = client.post("/v1/complete", files={"image": ("a.png", b"\0" * 2**21)})
    assert declared.status_code == 413
    assert "1 MB" in declared.json()["error"]
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    streamed = client.post("/v1/complete", content=(b"\0" * 2**18 for _ in range(9)), headers=kind)
    assert streamed.status_code == 413


def test_unknown_formats_and_methods(client: Any, room: Any) -> None:
    assert client.post("/v1/complete", files=room, headers={"Accept": "text/html"}).status_code == 406
    assert client.get("/v1/complete").status_code == 405
    assert client.get("/nowhere").json() == {"error": "Not Found."}


@pytest.mark.parametrize("path", ["/static/../page.py", "/static/%2e%2e/page.py", "/page/examples/..%2f..%2ffiles.py"])
def test_paths_lead_nowhere(client: Any, path: str) -> None:
    assert client.get(path).status_code == 404


def test_host_unknown_is_refused(client: Any) -> None:
    assert client.get("/healthz", headers={"Host": "evil.example:80"}).status_code == 421
    for host in ("localhost:7860", "127.0.0.1", "[::1]:7860"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_host_allowed_by_name_is_served(client_of: Any) -> None:
    client = client_of(allowed_hosts=("Depth.example",))
    for host, status in (("depth.example", 200), ("depth.example:443", 200), ("localhost", 200), ("evil.example", 421)):
        assert client.get("/healthz", headers={"Host": host}).status_code == status


def test_origin_of_an_allowed_host_is_served(client_of: Any) -> None:
    """A proxy may pass its own name for the server on, not the one that the browser used."""
    client = client_of(allowed_hosts=("depth.example",))
    for origin, status in (("https://depth.example", 200), ("https://evil.example", 403), ("https://localhost:1", 403)):
        assert client.get("/healthz", headers={"Host": "localhost", "Origin": origin}).status_code == status


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", {"Sec-Fetch-Site": "same-site"}, 403),
        ("GET", {"Origin": "http://evil.example"}, 403),
        ("GET", {"Origin": "http://localhost.evil.example"}, 403),
        ("GET", {"Origin": "null"}, 403),
        ("GET", {"Origin": "http://localhost"}, 200),
        ("GET", LINK, 200),
        ("HEAD", LINK, 405),
        ("POST", LINK, 403),
        ("GET", {**LINK, "Sec-Fetch-Dest": "iframe"}, 403),
        ("POST", {"Origin": "http://evil.example"}, 403),
    ],
)
def test_requests_of_other_sites_are_refused(client: Any, method: str, headers: Any, status: int) -> None:
    assert client.request(method, "/healthz", headers=headers).status_code == status


def test_sparse_named_as_the_photograph_changes_nothing(client: Any, room: Any) -> None:
    """The decoders' files lie in folders of their own, so that no name can overwrite another upload."""
    expected = client.post("/v1/complete", files=room)
    data = room["sparse"][1]
    for name in ("image-room.jpg", "room.jpg", "image-room.jpg.npz", "../room.jpg"):
        answer = client.post("/v1/complete", files={"image": room["image"], "sparse": (name, data)})
        assert answer.status_code in (200, 422)
        if answer.status_code == 200:
            assert answer.content == expected.content


def many_scans(count: int) -> bytes:
    """A progressive JPEG that repeats its last scan."""
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8)).save(
        stream, "JPEG", progressive=True, quality=20
    )
    data = stream.getvalue()
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last[:60] * count + b"\xff\xd9"


def test_jpeg_of_many_scans_is_refused_at_once(client: Any) -> None:
    started = time.monotonic()
    answer = client.post("/v1/complete", files={"image": ("a.jpg", many_scans(20_000)[:900_000])})
    assert answer.status_code == 413
    assert "scans" in answer.json()["error"]
    assert time.monotonic() - started < 5


def test_the_key_is_asked_for(client_of: Any, room: Any) -> None:
    client = client_of(api_key="open sesame", page=False)
    for headers in ({}, {"X-API-Key": "open"}, {"Authorization": "Bearer no"}, {"X-API-Key": "öffne".encode()}):
        answer = client.post("/v1/complete", files=room, headers=headers)
        assert answer.status_code == 401
    for headers in ({"X-API-Key": "open sesame"}, {"Authorization": "Bearer open sesame"}):
        assert client.post("/v1/complete", files=room, headers=headers).status_code == 200
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    assert client.get("/metrics").status_code == 401


def ask_in_background(url: str, count: int, request: Any, answers: list[Any]) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=lambda: answers.append(httpx.post(url, **request, timeout=20))) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    return threads


def wait_for(text: str, url: str) -> None:
    until = time.monotonic() + 30
    while text not in httpx.get(url).text:
        assert time.monotonic() < until, text
        time.sleep(0.01)


def test_a_full_queue_says_when_to_come_back(server_of: Any, stub: Any, small: Any) -> None:
    host, port = server_of(stub, queue=2, batch=1)
    url = f"http://{host}:{port}"
    answers: list[Any] = []
    threads = ask_in_background(f"{url}/v1/complete", 1, small(), answers)
    assert stub.started.wait(10)
    threads += ask_in_background(f"{url}/v1/complete", 2, small(), answers)
    wait_for("omnidc_queue_waiting 2", f"{url}/metrics")
    refused = httpx.post(f"{url}/v1/complete", **small())
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    stub.go.set()
    for thread in threads:
        thread.join(20)
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert httpx.post(f"{url}/v1/complete", **small()).status_code == 200


def test_a_bad_view_does_not_spoil_its_batch(server_of: Any, stub: Any, small: Any) -> None:
    host, port = server_of(stub)
    url = f"http://{host}:{port}"
    answers: list[Any] = []
    threads = ask_in_background(f"{url}/v1/complete", 1, small(), answers)
    assert stub.started.wait(10)
    threads += ask_in_background(f"{url}/v1/complete", 1, small(13), answers)
    threads += ask_in_background(f"{url}/v1/complete", 1, small(3), answers)
    wait_for("omnidc_queue_waiting 2", f"{url}/metrics")
    stub.go.set()
    for thread in threads:
        thread.join(20)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 422]
    assert stub.batches[:2] == [1, 2]


def test_a_request_that_takes_too_long_is_given_up(client_of: Any, stub: Any, small: Any) -> None:
    client = client_of(stub, timeout=6)
    answer = client.post("/v1/complete", **small())
    assert answer.status_code == 504
    stub.go.set()
    assert client.post("/v1/complete", **small()).status_code == 200


def test_a_client_that_leaves_gives_its_place_back(server_of: Any, stub: Any, small: Any) -> None:
    host, port = server_of(stub, batch=1)
    url = f"http://{host}:{port}"
    answers: list[Any] = []
    threads = ask_in_background(f"{url}/v1/complete", 1, small(), answers)
    assert stub.started.wait(10)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/complete", **small(5), timeout=0.5)
    wait_for('status="499"} 1', f"{url}/metrics")
    stub.go.set()
    for thread in threads:
        thread.join(20)
    httpx.post(f"{url}/v1/complete", **small())
    assert stub.batches == [1, 1]  # the one that was left never ran


def test_cancellation_stops_a_running_network() -> None:
    """The worker notices between two layers, long before the network is through."""
    import torch

    from omnidc.pipeline import CompleteOptions, make_frame
    from omnidc.web.jobs import CanceledError, JobQueue
    from omnidc.web.metrics import Metrics

    class Endless(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Identity()
            self.running = threading.Event()

        def forward(self, x: Any) -> Any:
            until = time.monotonic() + 20
            while time.monotonic() < until:
                x = self.layer(x)
                self.running.set()
                time.sleep(0.001)
            raise AssertionError("was not stopped")

    class Completer:
        name = "endless"
        network = Endless()

        def complete_frames(self, inputs: Any, options: Any) -> Any:
            return self.network(torch.zeros(1))

    queue = JobQueue(Completer(), 4, 4, Metrics())
    queue.start()
    given = make_frame(np.zeros((8, 8, 3), np.uint8), np.ones((8, 8), np.float32))
    job = queue.submit(given, CompleteOptions())
    assert Completer.network.running.wait(10)
    assert queue.place(job) == 0
    job.cancel()
    with pytest.raises(CanceledError):
        job.result.result(5)
    queue.close()


def test_cancellation_stops_a_running_exported_model() -> None:
    """An exported model has no layers to hook: it calls `on_step` before each of its parts."""
    from omnidc.pipeline import CompleteOptions, make_frame
    from omnidc.web.jobs import CanceledError, JobQueue
    from omnidc.web.metrics import Metrics

    class Completer:
        name = "endless.onnx"
        running = threading.Event()

        def on_step(self) -> None:
            raise AssertionError("the queue replaces it")

        def complete_frames(self, inputs: Any, options: Any) -> Any:
            until = time.monotonic() + 20
            while time.monotonic() < until:
                self.on_step()
                self.running.set()
                time.sleep(0.001)
            raise AssertionError("was not stopped")

    queue = JobQueue(Completer(), 4, 4, Metrics())
    queue.start()
    job = queue.submit(make_frame(np.zeros((8, 8, 3), np.uint8), np.ones((8, 8), np.float32)), CompleteOptions())
    assert Completer.running.wait(10)
    job.cancel()
    with pytest.raises(CanceledError):
        job.result.result(5)
    queue.close()


@pytest.mark.parametrize("path", ["/v1/complete", "/page/complete"])
def test_a_client_that_leaves_stops_the_running_network(server_of: Any, small: Any, path: str) -> None:
    import torch

    class Slow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Identity()
            self.running, self.ended = threading.Event(), threading.Event()

        def forward(self) -> None:
            self.running.set()
            try:
                until = time.monotonic() + 60
                while time.monotonic() < until:
                    self.layer(torch.zeros(1))
                    time.sleep(0.001)
                raise AssertionError("was not stopped")
            finally:
                self.ended.set()

    class Completer:
        name = "slow"
        network = Slow()

        def complete_frames(self, inputs: Any, options: Any) -> Any:
            self.network()

    completer = Completer()
    host, port = server_of(completer)

    request = httpx.Request("POST", f"http://{host}:{port}{path}", **small())
    body = request.read()
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection((host, port)) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        assert completer.network.running.wait(30)
    assert completer.network.ended.wait(30)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while chunk := connection.recv(65536):
        data += chunk
    return data


@pytest.mark.parametrize("sent", [b"", b"POST /v1/complete HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_slow_head_is_cut_off(server_of: Any, sent: bytes) -> None:
    host, port = server_of(header_timeout=0.3)
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(sent)
        assert read_all(connection).startswith(b"HTTP/1.1 408")
    assert httpx.get(f"http://{host}:{port}/healthz").status_code == 200


def test_a_second_slow_head_on_the_same_connection_is_cut_off(server_of: Any) -> None:
    host, port = server_of(header_timeout=0.3)
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        assert b"HTTP/1.1 408" in read_all(connection)


def test_a_slow_body_is_cut_off(server_of: Any) -> None:
    host, port = server_of(upload_timeout=0.3)
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(b"POST /v1/complete HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Content-Length: 999\r\n\r\n{")
        assert read_all(connection).startswith(b"HTTP/1.1 408")
    assert httpx.get(f"http://{host}:{port}/healthz").status_code == 200


@pytest.mark.parametrize("length", [b"Content-Length: 3145728\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
def test_too_large_body_gets_its_answer_after_it_was_sent(server_of: Any, length: bytes) -> None:
    host, port = server_of(max_bytes=2**20)
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(b"POST /v1/complete HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Connection: close\r\n" + length)  # as a proxy asks
        for _ in range(48):
            part = bytes(2**16)
            connection.sendall(b"10000\r\n" + part + b"\r\n" if b"chunked" in length else part)
            time.sleep(0.005)  # the server has time to answer, and to close, in between
        connection.sendall(b"0\r\n\r\n" if b"chunked" in length else b"")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
    assert httpx.get(f"http://{host}:{port}/healthz").status_code == 200


def test_garbage_on_the_wire(server_of: Any) -> None:
    host, port = server_of()
    for garbage in (b"\x16\x03\x01\x02\x00" * 40 + b"\r\n\r\n", b"A" * 200_000):
        with socket.create_connection((host, port), timeout=10) as connection:
            connection.sendall(garbage)
            with suppress(ConnectionResetError):  # the kernel's way of closing on a client that is still talking
                assert read_all(connection).startswith(b"HTTP/1.1 400")
    assert httpx.get(f"http://{host}:{port}/healthz").status_code == 200


def test_stopping_finishes_what_runs(stub: Any, small: Any) -> None:
    import uvicorn

    from omnidc.web.app import create_app
    from omnidc.web.server import configure, listen
    from omnidc.web.settings import Settings

    settings = Settings(port=0)
    listener = listen(settings)
    server = uvicorn.Server(configure(create_app(stub, settings), settings))
    main = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    main.start()
    answers: list[Any] = []
    port = listener.getsockname()[1]
    threads = ask_in_background(f"http://127.0.0.1:{port}/v1/complete", 1, small(7), answers)
    assert stub.started.wait(10)
    server.should_exit = True
    time.sleep(0.3)
    assert main.is_alive()
    stub.go.set()
    main.join(20)
    threads[0].join(20)
    assert not main.is_alive()
    assert np.load(io.BytesIO(answers[0].content)).mean() == 7


SERVER = """
import time
import numpy as np
from omnidc.pipeline import Completion
from omnidc.web.server import run
from omnidc.web.settings import Settings

class Slow:
    name = "slow"

    def complete_frames(self, inputs, options):
        print("running", flush=True)
        time.sleep(1)
        return [Completion(np.full_like(g.sparse, 7), None, g.sparse, g.sparse, g.image) for g in inputs]

run(Slow, Settings(port=0, page=False))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_ends_the_process_after_what_runs(small: Any, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split("localhost:")[1].split("/")[0]
        answers: list[Any] = []
        [thread] = ask_in_background(f"http://127.0.0.1:{port}/v1/complete", 1, small(), answers)
        assert process.stdout.readline() == "running\n"
        process.send_signal(number)
        thread.join(20)
        _, errors = process.communicate(timeout=20)
    assert np.load(io.BytesIO(answers[0].content)).mean() == 7
    assert "Traceback" not in errors
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")


def test_a_closed_queue_is_not_ready(client_of: Any) -> None:
    client = client_of()
    client.app.state.shared.queue.close()
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    assert client.post("/v1/complete", files={"image": ("a", b"x")}).status_code == 503


WRITTEN: list[str] | None = None  # paths that Python opens for writing, while somebody wants to know


def note_writing(event: str, arguments: Any) -> None:
    if WRITTEN is not None and event == "open" and isinstance(arguments[0], str):
        flags = arguments[2]
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            WRITTEN.append(arguments[0])


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:  # pytest writes before, too
    if not getattr(sys, "_omnidc_audited", False):  # an audit hook cannot be taken away again
        sys.addaudithook(note_writing)
        sys._omnidc_audited = True  # type: ignore[attr-defined]
    paths: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "WRITTEN", paths)
    return paths


def test_nothing_of_an_upload_stays_on_the_disk(
    client: Any, room: Any, written: list[str], monkeypatch: Any, tmp_path: Path
) -> None:
    """Also not of a refused one, nor of one that is large enough for a form parser to put it into a temporary file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)).save(stream, "BMP")
    large = {"image": ("noise.bmp", stream.getvalue()), "sparse": ("a.npy", npy(np.ones((240, 320), np.float64)))}
    for path in ("/v1/complete", "/page/complete"):
        assert client.post(path, files=room).status_code == 200
        assert client.post(path, files=large).status_code == 200
        assert client.post(path, files={"image": room["image"], "sparse": ("a.exr", b"v/1\x01bad")}).status_code == 422
    assert client.post("/page/preview", files={"image": large["image"]}).status_code == 200
    assert len(written) >= 9  # the readers' files were there ...
    for path in written:
        assert Path(path).parent.name.startswith("omnidc-"), path  # ... nowhere else ...
        assert not Path(path).exists()  # ... and are gone
        assert not Path(path).parent.exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # a small window empties the sent part in two minutes
def test_slow_reader_holds_no_more_than_its_share(server_of: Any, small: Any, stub: Any) -> None:
    """An answer that nobody reads is made piece by piece, and its connection is cut at the deadline."""
    from omnidc.web.responses import PIECE

    stub.go.set()
    host, port = server_of(stub, timeout=8)
    body = httpx.Request("POST", f"http://{host}:{port}/v1/complete", **small(width=2000, height=1500))
    with socket.create_connection((host, port), timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = "".join(f"{name}: {value}\r\n" for name, value in body.headers.items())
        connection.sendall(f"POST /v1/complete HTTP/1.1\r\n{head}Accept: application/json\r\n\r\n".encode())
        connection.sendall(body.read())
        assert connection.recv(12) == b"HTTP/1.1 200"
        url = f"http://{host}:{port}/metrics"
        reserved = [line for line in httpx.get(url).text.splitlines() if line.startswith("omnidc_reserved_bytes ")]
        assert float(reserved[0].split()[1]) > 3e6 * 50
        wait_for("omnidc_reserved_bytes 0.0", url)
        received = 0
        with suppress(ConnectionResetError):
            while chunk := connection.recv(2**20):
                received += len(chunk)
        assert received < 3 * 1500 * 2000 * 4 + PIECE  # of 4/3 as much


def test_memory_budget_refuses_and_gives_back(client_of: Any, room: Any) -> None:
    client = client_of(max_memory=4_000_000)
    assert client.post("/v1/complete", files=room).status_code == 413
    assert client.app.state.shared.budget.used == 0
    client = client_of(max_memory=40_000_000)
    assert client.post("/v1/complete", files=room).status_code == 200
    client.app.state.shared.budget.used = 39_000_000
    busy = client.post("/v1/complete", files=room)
    assert busy.status_code == 429
    assert int(busy.headers["retry-after"]) >= 1
