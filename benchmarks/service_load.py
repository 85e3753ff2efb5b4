"""Load the service with many clients at once and see that it holds: no error but 429, flat memory, the right results.

    python benchmarks/service_load.py --clients 16 --seconds 60

Starts its own server on this computer (`omnidc serve`, one process) and ends it. Every answer is compared with the file
that `omnidc complete` writes for the same view. Memory is read twice a second after a warm-up of the same load; it
is flat when a line through the readings rises by less than `--flat` MB in a minute. Leaves with exit code 1 when
something is wrong.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import omnidc

EXAMPLES = Path(omnidc.__file__).parent / "examples"
STEPS = (1, 3, 10)  # every n-th measurement stays: three views of one size, so that batches mix them
TOLERANCE = 1e-5  # relative; batches and single views need not agree to the last bit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds of the same load before it counts")
    parser.add_argument("--flat", type=float, default=8.0, help="MB in a minute that still pass for flat memory")
    parser.add_argument("--queue", type=int, default=8, help="small, so that 429 is met too")
    parser.add_argument("--model", default="interpolate")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        views = [make_view(Path(folder), step, options.model) for step in STEPS]
        server, url = start(options)
        try:
            report = load(url, server.pid, views, options)
        finally:
            server.terminate()
            code = server.wait(60)
    report["exit_code_after_sigterm"] = code
    print(json.dumps(report, indent=2))
    return 0 if report["healthy"] and code in (0, -15) else 1


def make_view(folder: Path, step: int, model: str) -> tuple[dict[str, Any], np.ndarray]:
    """The files of a request, and the command line's result for them."""
    sparse = np.load(EXAMPLES / "room_sparse.npz")["depth"]
    rows, columns = np.nonzero(sparse)
    thin = np.zeros_like(sparse)
    thin[rows[::step], columns[::step]] = sparse[rows[::step], columns[::step]]
    path, result = folder / f"sparse{step}.npy", folder / f"depth{step}.npy"
    np.save(path, thin)
    command = [sys.executable, "-m", "omnidc", "complete", str(EXAMPLES / "room.jpg"), str(path)]
    subprocess.run([*command, "-o", str(result), "--model", model], check=True, capture_output=True)
    files = {"image": ("room.jpg", (EXAMPLES / "room.jpg").read_bytes()), "sparse": ("sparse.npy", path.read_bytes())}
    return files, np.load(result)


def start(options: argparse.Namespace, serve: tuple[str, ...] = ("serve",)) -> tuple[subprocess.Popen[str], str]:
    """Start a server on a free port and return it with its address, once it is ready."""
    command = [sys.executable, "-m", "omnidc", *serve, "--port", "0", "--model", options.model]
    server = subprocess.Popen([*command, "--queue", str(options.queue)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    url = (
        line.split(" at ")[1].split("  ")[0].removesuffix("/openapi.json").rstrip("/").replace("localhost", "127.0.0.1")
    )
    while True:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return server, url
        except httpx.TransportError:
            time.sleep(0.1)


def load(url: str, process: int, views: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    worst = [0.0]
    latencies: list[float] = []
    memory: list[tuple[float, float]] = []  # (seconds, MB)
    lock = threading.Lock()
    over = threading.Event()

    def client(k: int) -> None:
        with httpx.Client(timeout=120) as http:
            turn = k
            while not over.is_set():
                files, expected = views[turn % len(views)]
                turn += 1
                started = time.monotonic()
                try:
                    answer = http.post(f"{url}/v1/complete", files=files)
                    status = str(answer.status_code)
                except httpx.TransportError as error:
                    status = type(error).__name__
                with lock:
                    statuses[status] += 1
                if status == "200":
                    depth = np.load(io.BytesIO(answer.content))
                    with lock:
                        latencies.append(time.monotonic() - started)
                        worst[0] = max(worst[0], float(np.max(np.abs(depth - expected) / expected)))
                elif status == "429":
                    time.sleep(min(1.0, float(answer.headers["retry-after"])))

    threads = [threading.Thread(target=client, args=(k,)) for k in range(options.clients)]
    for thread in threads:
        thread.start()
    while not latencies and any(thread.is_alive() for thread in threads):
        time.sleep(0.1)
    cold = resident(process)
    time.sleep(options.warm_up)
    with lock:
        latencies.clear()
        warm = Counter(statuses)
    started = time.monotonic()
    while (now := time.monotonic() - started) < options.seconds:
        memory.append((now, resident(process)))
        time.sleep(0.5)
    with lock:
        counted = statuses - warm
        times = list(latencies)
    over.set()
    for thread in threads:
        thread.join()
    metrics = httpx.get(f"{url}/metrics").text
    seconds, megabytes = np.array(memory).T
    slope = 60 * float(np.polyfit(seconds, megabytes, 1)[0])
    healthy = set(statuses) <= {"200", "429"} and worst[0] < TOLERANCE and slope < options.flat and bool(times)
    return {
        "healthy": healthy,
        "clients": options.clients,
        "seconds": options.seconds,
        "answers": dict(counted),
        "answers_per_second": round(counted["200"] / options.seconds, 2),
        "latency_median": round(float(np.median(times)), 3) if times else None,
        "latency_p95": round(float(np.percentile(times, 95)), 3) if times else None,
        "compared_with_command_line": statuses["200"],
        "worst_relative_difference": worst[0],
        "memory_mb": {
            "after_the_first_answer": cold,
            "every_10_s": [median_around(at, seconds, megabytes) for at in np.arange(0, options.seconds + 1, 10)],
            "most": float(megabytes.max()),
            "slope_per_minute": round(slope, 1),
        },
        "batches": [line for line in metrics.splitlines() if line.startswith("omnidc_batch_size_")],
        "ready_afterwards": httpx.get(f"{url}/readyz").status_code == 200,
    }


def median_around(at: float, seconds: np.ndarray, megabytes: np.ndarray) -> float:
    """Memory goes up and down with the batches: the middle of the readings within 3 s."""
    return round(float(np.median(megabytes[np.abs(seconds - at) <= 3])), 1)


def resident(process: int) -> float:
    """Memory of a process in MB (Linux)."""
    with Path(f"/proc/{process}/statm").open() as stream:
        return round(int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


if __name__ == "__main__":
    sys.exit(main())
