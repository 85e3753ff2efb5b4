"""Soak the service: good, bad, slow and canceled requests of many clients at once, for minutes.

    python benchmarks/service_soak.py --clients 24 --seconds 600

Starts its own server (`omnidc web` with a key: page and service in one process, and its decoders) and ends it. Good
answers are compared with the files that `omnidc complete` writes. It is healthy when there is no answer of 5xx, no
broken good answer and none without the key, memory (server and decoders together) stays flat after the warm-up, and
the server is ready afterwards. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import socket
import struct
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from service_load import EXAMPLES, STEPS, TOLERANCE, make_view, resident, start

IMAGE = (EXAMPLES / "room.jpg").read_bytes()
KEY = "the key of the soak"
HEADERS = {"X-API-Key": KEY}


def png_bomb() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 999))


def tiff_bomb() -> bytes:
    """A header of 40000×40000 pixels in one strip, without the pixels."""
    tags = {256: 40_000, 257: 40_000, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 40_000, 279: 1_600_000_000}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0)


def npz_bomb() -> bytes:
    stream, header = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (60_000, 60_000)})
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("depth", header.getvalue() + b"\0" * 10_000_000)
    return stream.getvalue()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Flip some bytes, or cut the end off."""
    if rng.random() < 0.3:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(rng.choice((1, 4, 16))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


class Soak:
    """The clients' work; every kind of request returns the status that it met."""

    def __init__(self, url: str, views: list[Any], seed: int) -> None:
        self.url, self.views = url, views
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)
        self.statuses: Counter[str] = Counter()
        self.wrong = 0
        self.unlocked = 0  # requests without the key that were served
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._seed = seed
        self.kinds: dict[str, tuple[int, Callable[[httpx.Client, random.Random], str]]] = {
            "good": (10, self.good),
            "damaged": (4, self.damaged),
            "bomb": (2, self.bomb),
            "fields": (2, self.fields),
            "canceled": (2, self.canceled),
            "slow upload": (1, self.slow_upload),
            "slow reader": (1, self.slow_reader),
            "foreign": (1, self.foreign),
            "page": (3, self.page),
            "no key": (1, self.no_key),
        }

    def good(self, http: httpx.Client, rng: random.Random) -> str:
        files, expected = rng.choice(self.views)
        answer = http.post(f"{self.url}/v1/complete", files=files)
        if answer.status_code == 200:
            self._compare(answer.content, expected)
        return str(answer.status_code)

    def _compare(self, data: bytes, expected: np.ndarray) -> None:
        depth = np.load(io.BytesIO(data))
        if not np.all(np.abs(depth - expected) <= TOLERANCE * expected):
            with self._lock:
                self.wrong += 1

    def damaged(self, http: httpx.Client, rng: random.Random) -> str:
        files, _ = rng.choice(self.views)
        changed = {name: (label, damaged(data, rng)) for name, (label, data) in files.items()}
        return str(http.post(f"{self.url}/v1/complete", files=changed).status_code)

    def bomb(self, http: httpx.Client, rng: random.Random) -> str:
        sparse = rng.choice([("a.npz", npz_bomb()), ("a.tif", tiff_bomb())])
        image = rng.choice([("a.png", png_bomb()), ("a.tif", tiff_bomb())])
        files: dict[str, Any] = (
            {"image": ("a.jpg", IMAGE), "sparse": sparse} if rng.random() < 0.5 else {"image": image}
        )
        path = rng.choice(["v1/complete", "v1/jobs", "page/complete", "page/preview"])
        return str(http.post(f"{self.url}/{path}", files=files).status_code)

    def page(self, http: httpx.Client, rng: random.Random) -> str:
        """What the page does: complete, look, download, ask the doctor now and then, forget."""
        files, expected = rng.choice(self.views)
        answer = http.post(f"{self.url}/page/complete", files=files)
        if answer.status_code != 200:
            return str(answer.status_code)
        last = json.loads(answer.text.splitlines()[-1])
        if last["state"] != "done":
            return str(last["error"])
        path = f"{self.url}/page/results/{last['result']}"
        if rng.random() < 0.2:
            http.post(f"{path}/doctor")
        # Others may have pushed the result out meanwhile: 404.
        name = rng.choice(["view", "depth.npy", "depth.exr", "normals.png", "mask.png", "preview.jpg", "depth.ply"])
        got = http.get(f"{path}/{name}")
        if name == "depth.npy" and got.status_code == 200:
            self._compare(got.content, expected)
        http.delete(path)
        return str(got.status_code)

    def no_key(self, http: httpx.Client, rng: random.Random) -> str:
        """Requests without the key, with a wrong one, or with a made-up cookie."""
        header = rng.choice([{}, {"X-API-Key": "guess"}, {"Cookie": "omnidc_session=" + "0" * 64}])
        path = rng.choice(["v1/complete", "v1/jobs", "page/complete", "page/login", "page/results/guess/doctor"])
        answer = httpx.post(f"{self.url}/{path}", files=self.views[0][0], headers=header, timeout=120)
        if answer.status_code < 400:
            with self._lock:
                self.unlocked += 1
        return str(answer.status_code)

    def fields(self, http: httpx.Client, rng: random.Random) -> str:
        field = rng.choice(
            [{"points": "[" * 10_000}, {"clip_depth": "nan"}, {"color": "red"}, {"intrinsics": "0,0,0,0"}]
        )
        return str(http.post(f"{self.url}/v1/complete", files={"image": ("a.jpg", IMAGE)}, data=field).status_code)

    def canceled(self, http: httpx.Client, rng: random.Random) -> str:
        files, _ = rng.choice(self.views)
        try:
            timeout = httpx.Timeout(30, read=rng.uniform(0.001, 0.2))
            httpx.post(f"{self.url}/v1/complete", files=files, timeout=timeout, headers=HEADERS)
        except httpx.ReadTimeout:
            return "left"
        return "answered before leaving"

    def _raw(self, rng: random.Random) -> tuple[bytes, bytes]:
        files, _ = rng.choice(self.views)
        request = httpx.Request("POST", f"{self.url}/v1/complete", files=files, headers=HEADERS)
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        return f"POST /v1/complete HTTP/1.1\r\n{head}Accept: application/json\r\n\r\n".encode(), request.read()

    def slow_upload(self, http: httpx.Client, rng: random.Random) -> str:
        head, body = self._raw(rng)
        with socket.create_connection((self.host, self.port), timeout=60) as connection:
            connection.sendall(head + body[:1000])
            time.sleep(rng.uniform(0, 3))
            if rng.random() < 0.5:
                return "left"
            connection.sendall(body[1000:])
            return connection.recv(12)[9:].decode() or "closed"

    def slow_reader(self, http: httpx.Client, rng: random.Random) -> str:
        head, body = self._raw(rng)
        with socket.create_connection((self.host, self.port), timeout=60) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head + body)
            status = connection.recv(12)[9:].decode() or "closed"
            time.sleep(rng.uniform(0, 5))
            return status

    def foreign(self, http: httpx.Client, rng: random.Random) -> str:
        header = rng.choice([{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
        return str(http.post(f"{self.url}/v1/complete", files=self.views[0][0], headers=header).status_code)

    def client(self, k: int) -> None:
        rng = random.Random(self._seed + k)
        names, weights = list(self.kinds), [weight for weight, _ in self.kinds.values()]
        with httpx.Client(timeout=120, headers=HEADERS) as http:
            while not self.over.is_set():
                [kind] = rng.choices(names, weights)
                try:
                    status = self.kinds[kind][1](http, rng)
                except (httpx.TransportError, OSError) as error:
                    status = type(error).__name__
                with self._lock:
                    self.statuses[f"{kind}: {status}"] += 1
                if status == "429":
                    time.sleep(0.5)


def children(process: int) -> list[int]:
    """The processes that a process started (Linux)."""
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def total_memory(process: int) -> float:
    """MB of the server and its decoders; a decoder that ends meanwhile counts 0."""
    total = resident(process)
    for child in children(process):
        try:
            total += resident(child)
        except OSError:
            continue
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--warm-up", type=float, default=60.0)
    parser.add_argument("--flat", type=float, default=8.0, help="MB in a minute that still pass for flat memory")
    parser.add_argument("--queue", type=int, default=16)
    parser.add_argument("--model", default="interpolate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        views = [make_view(Path(folder), step, options.model) for step in STEPS]
        server, url = start(options, ("web", "--no-browser", "--api-key", KEY))
        soak = Soak(url, views, options.seed)
        threads = [threading.Thread(target=soak.client, args=(k,)) for k in range(options.clients)]
        memory = []
        try:
            for thread in threads:
                thread.start()
            time.sleep(options.warm_up)
            began = time.monotonic()
            while (now := time.monotonic() - began) < options.seconds:
                memory.append((now, total_memory(server.pid)))
                time.sleep(1)
            soak.over.set()
            for thread in threads:
                thread.join()
            ready = httpx.get(f"{url}/readyz").status_code == 200
            reserved = (
                httpx.get(f"{url}/metrics", headers=HEADERS).text.split("\nomnidc_reserved_bytes ")[1].split("\n")[0]
            )
        finally:
            soak.over.set()
            server.terminate()
            server.wait(150)
    seconds, megabytes = np.array(memory).T
    slope = 60 * float(np.polyfit(seconds, megabytes, 1)[0])
    server_errors = {key: n for key, n in soak.statuses.items() if key.split(": ")[1].startswith("5")}
    good = sum(n for key, n in soak.statuses.items() if key == "good: 200")
    faults = server_errors or soak.wrong or soak.unlocked
    healthy = not faults and good > 0 and slope < options.flat and ready
    report = {
        "healthy": healthy,
        "clients": options.clients,
        "seconds": options.seconds,
        "answers": dict(sorted(soak.statuses.items())),
        "good_answers_equal_to_the_command_line": good - soak.wrong,
        "wrong_answers": soak.wrong,
        "served_without_the_key": soak.unlocked,
        "server_errors": server_errors,
        "memory_mb": {"least": float(megabytes.min()), "most": float(megabytes.max()), "slope_per_minute": slope},
        "reserved_bytes_afterwards": float(reserved),
        "ready_afterwards": ready,
    }
    print(json.dumps(report, indent=2))
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
