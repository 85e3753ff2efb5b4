"""The browser page on a model: seconds to open it and to complete one view with WASM in Chromium.

    python benchmarks/demo_page.py MODEL.onnx [--size 240x320] [--repeats 5] [--chromium PATH] [-o rows.json]

Builds the page (docs/demo), opens it in headless Chromium, and completes the bundled example. Prints for each run the
seconds that the page says, and the CPU time of all of the browser's processes: on a busy machine only that means
anything. The depth that the page saves is compared with onnxruntime's.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import importlib.util
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image
from playwright.sync_api import expect, sync_playwright

import omnidc
from omnidc.deploy.runtime import OnnxCompleter
from omnidc.geometry.rasterize import resize_sparse_nearest
from omnidc.io.files import write_json
from omnidc.pipeline import make_frame
from processes import cpu_seconds

ROOT = Path(__file__).parents[1]
EXAMPLES = Path(omnidc.__file__).parent / "examples"
FLAGS = ["--no-sandbox", "--disable-gpu"]


def build_page(model: Path, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("demo_build", ROOT / "docs" / "demo" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.build(model, folder)


class Server(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def log_message(self, *arguments: Any) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("model", type=Path)
    parser.add_argument("--size", default="240x320")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    height, width = (int(side) for side in given.size.split("x"))
    view = make_frame(EXAMPLES / "room.jpg", EXAMPLES / "room_sparse.npz")
    image = np.asarray(cv2.resize(view.image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    sparse = resize_sparse_nearest(view.measurements(), (height, width))
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        build_page(given.model, folder / "site")
        Image.fromarray(image).save(folder / "photo.png")
        np.save(folder / "sparse.npy", sparse)
        handler = functools.partial(Server, directory=str(folder / "site"))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=given.chromium, args=FLAGS)
        page = browser.new_page()
        status = expect(page.locator("#status"))
        before = cpu_seconds()
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        status.to_contain_text("is ready", timeout=600_000)
        print(f"opened: {page.inner_text('#status')} ({cpu_seconds() - before:.1f} CPU-seconds)", flush=True)
        page.set_input_files("#photo", str(folder / "photo.png"))
        page.set_input_files("#sparse", str(folder / "sparse.npy"))
        rows = []
        for run in range(given.repeats):
            before = cpu_seconds()
            page.click("#run")
            status.to_contain_text("Done in", timeout=600_000)
            said, used = page.inner_text("#status"), cpu_seconds() - before
            rows.append({"run": str(run + 1), "seconds": float(said.split()[2]), "CPU_seconds": used})
            print(f"{said} ({used:.2f} CPU-seconds)", flush=True)
            page.evaluate("document.getElementById('status').textContent = ''")
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as(folder / "depth.npy")
        expected = OnnxCompleter(given.model, "cpu").run(image, sparse).depth
        share = (np.abs(np.load(folder / "depth.npy") / expected - 1) < 1e-3).mean()
        print(f"{share:.2%} of the depths within 1e-3 of onnxruntime's")
        if given.output is not None:
            write_json(given.output, {"size": given.size, "equal": float(share), "rows": rows})
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
