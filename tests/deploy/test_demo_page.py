"""The static page in Chromium with the stand-in model. Run with `pytest -m browser tests/deploy`."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import omnidc
from omnidc.errors import FileError

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def builder() -> Any:
    spec = importlib.util.spec_from_file_location("demo_build", ROOT / "docs" / "demo" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_build_refuses_a_model_whose_weights_lie_beside_it(tmp_path: Path) -> None:
    bundled = Path(omnidc.__file__).parent / "weights" / "compact.onnx"
    with pytest.raises(FileError, match="omnidc export"):
        builder().build(bundled, tmp_path / "site", tmp_path)
    assert not (tmp_path / "site").exists()


def test_build_without_the_runtime_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="another version of onnxruntime-web"):
        builder().build(model, tmp_path / "site", tmp_path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[str]:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("site")
    try:
        builder().build(model, folder)
    except FileError as error:
        pytest.skip(str(error))
    about = json.loads((folder / "model.json").read_text())
    assert about["size_divisor"] == 8

    class Quiet(http.server.SimpleHTTPRequestHandler):
        extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_page_completes_as_onnxruntime_does(site: str, model: Path, tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    from omnidc.deploy.runtime import OnnxCompleter

    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (60, 84, 3)).astype(np.uint8)
    sparse = np.where(rng.random((60, 84)) < 0.05, rng.uniform(1, 5, (60, 84)), 0).astype(np.float32)
    Image.fromarray(image).save(tmp_path / "photo.png")
    np.save(tmp_path / "sparse.npy", sparse)
    cv2.imwrite(str(tmp_path / "sparse.png"), np.round(1000 * sparse).astype(np.uint16))
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        context = browser.new_context()
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(site)
        status = sync_api.expect(page.locator("#status"))
        status.to_contain_text("is ready", timeout=120_000)

        def complete(name: str, scale: str) -> np.ndarray:
            page.set_input_files("#photo", str(tmp_path / "photo.png"))
            page.select_option("#scale", scale)
            page.set_input_files("#sparse", str(tmp_path / name))
            page.click("#run")
            status.to_contain_text("Done in", timeout=120_000)
            with page.expect_download() as download:
                page.click("#save")
            download.value.save_as(tmp_path / "depth.npy")
            page.set_input_files("#sparse", [])
            return np.load(tmp_path / "depth.npy")

        expected = OnnxCompleter(model).run(image, sparse).depth
        assert np.allclose(complete("sparse.npy", "1"), expected, rtol=1e-3)
        assert np.allclose(complete("sparse.png", "1000"), expected, rtol=5e-3)

        page.set_input_files("#sparse", str(tmp_path / "photo.png"))  # no 16-bit file
        status.to_contain_text("16 bits")

        # Offline once loaded.
        for _ in range(600):
            if page.evaluate("navigator.serviceWorker.controller !== null"):
                break
            page.wait_for_timeout(100)
        context.set_offline(True)
        page.reload()
        status.to_contain_text("is ready", timeout=120_000)
        browser.close()
    assert problems == []
