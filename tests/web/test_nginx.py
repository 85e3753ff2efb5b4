"""The service behind Debian's nginx on loopback, with the recipe of docs/web.md."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "web.md"
HOST = "depth.example.org"  # of the recipe


def recipe(port: int) -> str:
    """The location block of the documentation, with the port of this server."""
    block = re.search(r"^    location /depth/ \{\n.*?^    \}\n", DOCS.read_text(encoding="utf-8"), re.M | re.S)
    assert block is not None
    return block.group().replace("7861", str(port))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def proxy_to(tmp_path: Path) -> Iterator[Callable[[int], str]]:
    """`proxy_to(port)`: address of an nginx that passes requests on to a port of this computer."""
    running: list[subprocess.Popen[bytes]] = []

    def start(port: int) -> str:
        own, user = free_port(), "user root;" if os.geteuid() == 0 else ""
        folders = "\n".join(
            f"  {kind}_temp_path {tmp_path};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"{user}\npid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\nevents {{}}\nhttp {{\n{folders}\n"
            f"  access_log off;\n  server {{\n    listen 127.0.0.1:{own};\n{recipe(port)}  }}\n}}\n"
        )
        command = [str(NGINX), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", own), 1).close()
                return f"http://127.0.0.1:{own}/depth"
            except OSError:
                time.sleep(0.05)
        raise AssertionError((tmp_path / "error.log").read_text())

    yield start
    for process in running:
        process.terminate()
        process.wait(20)


@pytest.fixture
def through(server_of: Any, proxy_to: Any) -> Callable[..., Any]:
    """`through(completer, **settings)`: a client of a server behind nginx."""

    def start(completer: Any = None, **settings: Any) -> Any:
        _, port = server_of(completer, allowed_hosts=(HOST,), root_path="/depth", **settings)
        return httpx.Client(base_url=proxy_to(port), headers={"Host": HOST}, timeout=60)

    return start


def test_nginx_shows_the_page_and_all_its_files(through: Any) -> None:
    client = through()
    page = client.get("/")
    assert page.status_code == 200
    for path in re.findall(r'(?:src|href)="([^"#]+)"', page.text):
        assert client.get(f"/{path}").status_code == 200, path
    assert client.get("/page/info").json()["examples"]


def test_nginx_passes_requests_and_results(through: Any, room: Any) -> None:
    client = through()
    answer = client.post("/v1/complete", files=room)
    assert answer.status_code == 200
    assert np.load(io.BytesIO(answer.content)).shape == (240, 320)
    job = client.post("/v1/jobs", files=room)
    assert job.headers["location"].startswith("/depth/v1/jobs/")
    last = client.get(f"/v1/jobs/{job.json()['id']}/events").text.strip().splitlines()[-1]
    assert json.loads(last.removeprefix("data: ")) == {"state": "done"}


def test_nginx_passes_large_uploads_and_our_own_limit(through: Any, small: Any) -> None:
    client = through(max_bytes=8 * 2**20)
    image = small()["files"]["image"]
    depth = io.BytesIO()
    np.save(depth, np.full((12, 16), 2, np.float32))
    padded = depth.getvalue() + bytes(4 * 2**20)  # beyond nginx's own default of 1 MB
    assert client.post("/v1/complete", files={"image": image, "sparse": ("a.npy", padded)}).status_code != 413
    answer = client.post("/v1/complete", files={"image": image, "sparse": ("a.npy", bytes(9 * 2**20))})
    assert answer.status_code == 413
    assert "8 MB" in answer.json()["error"]


def test_nginx_passes_progress_line_by_line(through: Any, stub: Any, small: Any) -> None:
    with through(stub).stream("POST", "/page/complete", **small()) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines))["state"] in ("waiting", "running")  # before the result is there
        stub.go.set()
        assert [json.loads(line) for line in lines][-1]["state"] == "done"


def test_nginx_passes_the_host_that_is_checked(through: Any) -> None:
    client = through()
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/page/info", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/page/info", headers={"Origin": f"https://{HOST}"}).status_code == 200


def test_nginx_passes_the_key_and_its_cookie(through: Any) -> None:
    client = through(api_key="correct horse")
    assert client.get("/").status_code == 401
    assert client.get("/v1/models", headers={"X-API-Key": "correct horse"}).status_code == 200
    answer = client.post("/page/login", json={"key": "correct horse"})
    assert answer.status_code == 204
    assert "Path=/depth" in answer.headers["set-cookie"]
    cookie = answer.headers["set-cookie"].split(";")[0]
    assert client.get("/page/info", headers={"Cookie": cookie}).status_code == 200


def test_nginx_clients_that_leave_cancel_their_request(through: Any, stub: Any, small: Any) -> None:
    client = through(stub, batch=1)
    with client.stream("POST", "/page/complete", **small()):
        assert stub.started.wait(20)
        with client.stream("POST", "/page/complete", **small()) as second:
            next(second.iter_lines())
    until = time.monotonic() + 20
    while "omnidc_queue_waiting 0" not in client.get("/metrics").text:
        assert time.monotonic() < until
        time.sleep(0.05)
